//! Calls that the test kit has no use for.

#![allow(missing_docs, reason = "names and types are those of the Solidity interfaces")]

use alloy_sol_types::sol;

sol! {
    /// What anyone may do to a token of the development chain.
    interface IDevToken {
        function pause() external;
        function blacklist(address account) external;
    }

    struct Call3 { address target; bool allowFailure; bytes callData; }

    interface IMulticall3 {
        function aggregate3(Call3[] calls) external payable;
    }
}

// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {DomainSeparator, Eip3009Base, TransferBytes, TransferVrs} from "./Eip3009Base.sol";
import {Erc20Base} from "./Erc20Base.sol";
import {FiatBase} from "./FiatBase.sol";

/// Behaves as Circle's FiatToken v2.2 (USDC).
contract FiatToken is FiatBase, DomainSeparator {
    constructor(string memory name_, string memory symbol_, string memory version_, uint8 decimals_)
        Erc20Base(name_, symbol_, version_, decimals_)
    {}
}

/// Lets the high-s twin of a signature through.
contract LenientToken is FiatBase, DomainSeparator {
    constructor(string memory name_, string memory symbol_, string memory version_, uint8 decimals_)
        Erc20Base(name_, symbol_, version_, decimals_)
    {}

    function _requiresLowS() internal pure override returns (bool) {
        return false;
    }
}

/// The older kind of EIP-3009 token: one overload, plain ecrecover, contract payers cannot pay.
contract VrsOnlyToken is TransferVrs, DomainSeparator {
    constructor(string memory name_, string memory symbol_, string memory version_, uint8 decimals_)
        Erc20Base(name_, symbol_, version_, decimals_)
    {}

    function _isValidSignature(address signer, bytes32 digest, bytes memory signature)
        internal
        pure
        override
        returns (bool)
    {
        return _recover(digest, signature) == signer;
    }
}

contract BytesOnlyToken is TransferBytes, DomainSeparator {
    constructor(string memory name_, string memory symbol_, string memory version_, uint8 decimals_)
        Erc20Base(name_, symbol_, version_, decimals_)
    {}
}

/// Keeps one per cent of every transfer, and says so in its events.
contract FeeOnTransferToken is FiatBase, DomainSeparator {
    address public constant FEE_SINK = address(0xFEE);

    constructor(string memory name_, string memory symbol_, string memory version_, uint8 decimals_)
        Erc20Base(name_, symbol_, version_, decimals_)
    {}

    function _move(address from, address to, uint256 value) internal override {
        uint256 fee = value / 100;
        super._move(from, to, value - fee);
        super._move(from, FEE_SINK, fee);
    }
}

/// Succeeds and uses up the nonce, yet moves nothing and emits no Transfer.
contract SilentToken is FiatBase, DomainSeparator {
    constructor(string memory name_, string memory symbol_, string memory version_, uint8 decimals_)
        Erc20Base(name_, symbol_, version_, decimals_)
    {}

    function _move(address, address, uint256) internal override {}
}

/// ERC-20 and nothing else.
contract PlainToken is Erc20Base {
    constructor(string memory name_, string memory symbol_, string memory version_, uint8 decimals_)
        Erc20Base(name_, symbol_, version_, decimals_)
    {}
}

/// A transfer can become dearer between its simulation and its execution.
contract GrowingGasToken is FiatBase, DomainSeparator {
    uint256 public extraGas;

    constructor(string memory name_, string memory symbol_, string memory version_, uint8 decimals_)
        Erc20Base(name_, symbol_, version_, decimals_)
    {}

    function setExtraGas(uint256 amount) external {
        extraGas = amount;
    }

    function _move(address from, address to, uint256 value) internal override {
        uint256 goal = extraGas;
        uint256 start = gasleft();
        while (start - gasleft() < goal) {}
        super._move(from, to, value);
    }
}

/// Describes its domain by EIP-5267 only.
contract Eip5267Token is FiatBase {
    event EIP712DomainChanged();

    constructor(string memory name_, string memory symbol_, string memory version_, uint8 decimals_)
        Erc20Base(name_, symbol_, version_, decimals_)
    {}

    function eip712Domain()
        external
        view
        returns (bytes1, string memory, string memory, uint256, address, bytes32, uint256[] memory)
    {
        return (hex"0f", name, _version, block.chainid, address(this), bytes32(0), new uint256[](0));
    }
}

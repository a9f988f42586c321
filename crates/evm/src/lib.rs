//! The only crate that speaks JSON-RPC: facts in one round trip, sending, receipts, fees.
//!
//! An error of this crate is always an outage of ours. A dead node must never read as a bad payment.

mod call;
mod clock;
pub mod fees;
pub mod lens;
pub mod pool;
pub mod registry;
pub mod send;
pub mod sign;
pub mod watch;

/// Why the chain could not be read. Carries no URL, host, path or text of a node: those can hold keys.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RpcFault {
    /// No connection, no HTTP success, or a broken answer.
    #[error("{method}: no usable answer from any RPC endpoint")]
    Transport {
        /// JSON-RPC method.
        method: &'static str,
    },
    /// No answer in time.
    #[error("{method}: no RPC endpoint answered in time")]
    Timeout {
        /// JSON-RPC method.
        method: &'static str,
    },
    /// The node answered with an error instead of a result.
    #[error("{method}: the RPC endpoint answered with error {code}")]
    ErrorResponse {
        /// JSON-RPC method.
        method: &'static str,
        /// JSON-RPC error code.
        code: i64,
    },
    /// The answer is not of the shape asked for.
    #[error("{method}: the RPC endpoint's answer cannot be read: {what}")]
    Malformed {
        /// JSON-RPC method.
        method: &'static str,
        /// What is wrong.
        what: &'static str,
    },
    /// The node's latest block is far older than one another endpoint has shown.
    #[error("{method}: the RPC endpoint lags behind the others")]
    Lagging {
        /// JSON-RPC method.
        method: &'static str,
    },
    /// The node serves another chain than configured.
    #[error("the RPC endpoint serves chain {actual}, configured is {expected}")]
    WrongChain {
        /// Configured chain id.
        expected: u64,
        /// The node's chain id.
        actual: u64,
    },
}

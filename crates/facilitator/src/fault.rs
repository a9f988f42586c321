//! Our own outages. Never a verdict about a payment.

use quittance_evm::RpcFault;
use quittance_store::StoreError;

/// Why no decision could be made. Answered with 503 and `Retry-After`.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Fault {
    /// The chain could not be read.
    #[error(transparent)]
    Rpc(#[from] RpcFault),
    /// The store could not be read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// No signer of the network has the gas money for this settlement.
    #[error("no signer of this network can pay for the settlement's gas")]
    NoFundedLane,
    /// The settlement would cost more than the operator allows at the current fees.
    #[error("the settlement would cost more than policy.fee_per_settlement_wei_max at the current fees")]
    FeeAboveCap,
    /// The answer took longer than `server.request_timeout_ms`.
    #[error("no decision within server.request_timeout_ms")]
    Timeout,
    /// Too many requests at once.
    #[error("too many requests in flight")]
    Busy,
    /// The server is stopping.
    #[error("the server is stopping")]
    Stopping,
    /// A task of ours ended without a result.
    #[error("internal error")]
    Internal,
}

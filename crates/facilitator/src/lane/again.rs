//! What executes a payment now that a call of ours has not.
//!
//! Several payments of one wallet that is not there yet are each signed with its deployment. Once one of them is mined, the wallet
//! is there, and many a factory reverts then: the others are executed by the transfer alone.

use crate::{fault::Fault, network::NetworkService};
use quittance_evm::{lens, sign::SignedCall};
use quittance_protocol::scheme::exact_eip3009::{gas_limit, without_deployment};
use quittance_store::model::Payment;

/// The transfer alone, in place of a call that deploys the payer as well, if it executes the payment in the latest block, which must
/// not be older than `since`.
pub(crate) async fn without_its_deployment(
    service: &NetworkService,
    payment: &Payment,
    signed: &SignedCall,
    since: u64,
) -> Result<Option<SignedCall>, Fault> {
    let Some(call) = without_deployment(signed.to, &signed.data) else { return Ok(None) };
    let gas_max = service.policy.gas_per_settlement_max;
    let lanes = service.lane_addresses();
    let gas = lens::try_call(&service.pool, &payment.terms, &call, gas_max, &lanes, since).await?;
    let gas_limit = gas.map(|execution| gas_limit(&call.data, execution));
    Ok(gas_limit.filter(|gas_limit| *gas_limit <= gas_max).map(|gas_limit| SignedCall {
        to: call.to,
        data: call.data,
        gas_limit,
    }))
}

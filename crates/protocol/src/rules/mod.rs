//! The five MUST rules and the facts they stand on. [`check`] is the only maker of a [`VerifiedPayment`]; the order of
//! its lines is the precedence of the reason codes (docs/RULES.md).

mod canonical;
mod domain;
mod replay;
mod signer;
mod transfer;
mod value;
mod window;

use crate::{
    code::Code,
    facts::ChainFacts,
    payment::{Requirement, fingerprint, replay_key, signature_digest},
    scheme::exact_eip3009::{
        Call, EXACT_PERMIT2_PROXY, MULTICALL3, PERMIT2, UPTO_PERMIT2_PROXY, declared_domain,
    },
    settlement::NewPayment,
    signature::Shape,
    units::UnixSeconds,
    wire::{Refusal, Request},
};
use alloy_primitives::{Address, Bytes, U256};

pub use transfer::revert_text;

const SHARED_CONTRACTS: [Address; 4] = [PERMIT2, EXACT_PERMIT2_PROXY, UPTO_PERMIT2_PROXY, MULTICALL3];

/// What the operator decides about the rules.
#[derive(Clone, Debug)]
pub struct Policy {
    /// The window must stay open for at least this long (rule 3).
    pub validity_margin_seconds: u64,
    /// Longest `validBefore - now`; 0 = no bound.
    pub authorization_lifetime_seconds_max: u64,
    /// Gas limit no settlement may exceed.
    pub gas_per_settlement_max: u64,
    /// ERC-6492 factories that may be called.
    pub wallet_factories: Vec<Address>,
    /// Addresses that can never be payers, beside the shared contracts (Permit2, its proxies, Multicall3): our signers.
    pub forbidden_payers: Vec<Address>,
}

/// A payment for which every rule held at `block`. Settle accepts nothing else.
#[derive(Clone, Debug)]
pub struct VerifiedPayment {
    terms: NewPayment,
    call: Call,
    gas_limit: u64,
    block_number: u64,
    payer_balance: Option<U256>,
}

impl VerifiedPayment {
    /// What the payment commits to.
    pub fn terms(&self) -> &NewPayment {
        &self.terms
    }

    /// The exact call that succeeded in simulation.
    pub fn call(&self) -> (Address, &Bytes) {
        (self.call.to, &self.call.data)
    }

    /// Gas limit for it.
    pub fn gas_limit(&self) -> u64 {
        self.gas_limit
    }

    /// What the payer had, in atomic units; `None`: the token does not say.
    pub fn payer_balance(&self) -> Option<U256> {
        self.payer_balance
    }

    /// The block the facts come from.
    pub fn block_number(&self) -> u64 {
        self.block_number
    }
}

/// What can be refused without asking the chain. [`check`] asks it again, so this only saves a round trip.
pub fn check_offline(request: &Request, policy: &Policy, now: UnixSeconds) -> Result<(), Refusal> {
    let Request { payment, requirement, version, .. } = request;
    declares_domain(requirement)?;
    let from = payment.authorization.from;
    // Whatever the policy lists: the shared contracts that act for others must never be made to pay.
    if policy.forbidden_payers.contains(&from) || SHARED_CONTRACTS.contains(&from) {
        return Err(Refusal::new(
            Code::InvalidPayload,
            "paymentPayload.payload.authorization.from is an address of the facilitator or a contract shared by many",
        ));
    }
    value::recipient(&payment.authorization, requirement)?;
    value::amount(&payment.authorization, requirement, *version)?;
    window::before(&payment.authorization, policy, now)?;
    window::after(&payment.authorization, now)?;
    window::lifetime(&payment.authorization, policy, now)
}

/// Nothing can be signed without one.
fn declares_domain(requirement: &Requirement) -> Result<(), Refusal> {
    if declared_domain(requirement).is_some() {
        return Ok(());
    }
    Err(Refusal::new(
        Code::MissingEip712Domain,
        "paymentRequirements.extra.name and .version must name the token's EIP-712 domain",
    ))
}

/// Rules 1 and 2 alone: whether the payer signed a payment that needs no other verdict any more, because its record binds
/// every term.
pub fn signed_by_payer(request: &Request, facts: &ChainFacts, policy: &Policy) -> Result<(), Refusal> {
    let payment = &request.payment;
    declares_domain(&request.requirement)?;
    canonical::low_s(payment, facts.payer_code)?;
    signer::bound(request, facts, policy)?;
    // A wallet that is not there yet is only heard by running the whole call.
    if facts.payer_code.is_empty() && matches!(payment.signature.shape(), Shape::Erc6492(_)) {
        transfer::executes(request, facts, policy)?;
    }
    Ok(())
}

/// Every rule, on facts of one block. `now` is the wall clock.
pub fn check(
    request: &Request,
    facts: &ChainFacts,
    policy: &Policy,
    now: UnixSeconds,
) -> Result<VerifiedPayment, Refusal> {
    check_offline(request, policy, now)?;
    let Request { payment, requirement, .. } = request;
    let a = &payment.authorization;
    if facts.block.network != requirement.network {
        // Cannot happen with facts read for this request; if it does, they prove nothing about it.
        return Err(Refusal::new(Code::InvalidNetwork, "the chain that was read is not the one to pay on"));
    }
    window::before(a, policy, facts.block.timestamp)?;
    window::after(a, facts.block.timestamp)?;
    canonical::low_s(payment, facts.payer_code)?;
    signer::bound(request, facts, policy)?;
    if !facts.asset_has_code {
        return Err(Refusal::new(
            Code::AssetNotDeployed,
            "paymentRequirements.asset has no code on this network",
        ));
    }
    replay::unused_on_chain(facts)?;
    domain::matches(requirement, facts)?;
    transfer::affordable(a, facts)?;
    let (call, gas_limit) = transfer::executes(request, facts, policy)?;
    Ok(VerifiedPayment {
        terms: NewPayment {
            key: replay_key(payment, requirement),
            fingerprint: fingerprint(payment, requirement),
            pay_to: requirement.pay_to,
            amount: requirement.amount,
            valid_after: a.valid_after,
            valid_before: a.valid_before,
            signature: Some(signature_digest(payment, requirement)),
        },
        call,
        gas_limit,
        block_number: facts.block.number,
        payer_balance: facts.payer_balance,
    })
}

//! The decision. The order of its steps is the precedence of the outcomes; why it is this one stands in
//! spec/payee.md §2.3.

use super::{
    Answer, Carried, Claim, Fact, Facts, FailedRead, Identity, Named, Note, Outcome, Registered,
    Registration, RegistryId, UnreadReason, Verdict, WalletCode,
};
use crate::{units::UnixSeconds, wire::parse_address};
use alloy_primitives::Address;
use std::collections::BTreeSet;

/// What the operator decides about the check.
#[derive(Clone, Debug, Default)]
pub struct Policy {
    /// The registries that are believed. Anybody can deploy one that answers what it likes.
    pub registries: BTreeSet<RegistryId>,
    /// Whether an agent wallet whose code on the registry's chain is an EIP-7702 designator counts as one without code, as
    /// far as the same address on other chains is concerned (docs/adr/0014).
    pub eip7702_is_eoa: bool,
}

/// The outcome of one claim on what was read. `now` is the wall clock: block times may lag.
pub fn decide(claim: &Claim, facts: &Facts, policy: &Policy, now: UnixSeconds) -> Answer {
    let (named, source) = claim.identity();
    let read = match named {
        Named::Identity(identity) => believed(&identity, facts, policy).ok(),
        Named::Nothing | Named::Malformed(_) => None,
    };
    let file = match (&read, &facts.file) {
        (Some(_), Fact::Read(file)) => Some(file),
        _ => None,
    };
    let outcome = judge(claim, named, facts, policy, now).unwrap_or_else(|outcome| outcome);
    let notes = notes(claim, named, facts, file.map(|file| &file.registration), &outcome);
    Answer {
        outcome,
        identity: match named {
            Named::Identity(identity) => Some((identity, source)),
            Named::Nothing | Named::Malformed(_) => None,
        },
        block: match (named, &facts.block) {
            // An unread registry may still have left a block to name.
            (Named::Identity(identity), Fact::Read(block)) => {
                Some(*block).filter(|block| block.chain_id == identity.registry.chain_id())
            }
            _ => None,
        },
        agent_wallet: read.map(|registered| registered.agent_wallet),
        network: claim.network.clone(),
        pay_to: claim.pay_to.clone(),
        origin: claim.origin.clone(),
        file: file.map(|file| (file.source, file.fetched_at)),
        notes,
        checked_at: now,
    }
}

/// Both arms are the outcome; the error is only the short way out.
fn judge(
    claim: &Claim,
    named: Named,
    facts: &Facts,
    policy: &Policy,
    now: UnixSeconds,
) -> Result<Outcome, Outcome> {
    let not_read = |read| move |reason| Outcome::NotRead(read, reason);
    let identity = match named {
        Named::Nothing => return Ok(Outcome::NoIdentity),
        Named::Malformed(why) => return Err(not_read(FailedRead::Identity)(UnreadReason::new(why))),
        Named::Identity(identity) => identity,
    };
    let registered = believed(&identity, facts, policy).map_err(not_read(FailedRead::Registry))?;
    let owner = registered.owner.ok_or_else(|| {
        not_read(FailedRead::Registry)(UnreadReason::new("the registry knows no such agent"))
    })?;
    let file = facts.file.value().map_err(not_read(FailedRead::File))?;
    if !claim.origin.as_ref().is_some_and(|origin| file.registration.lists(origin)) {
        return Ok(Outcome::EndpointUnlisted);
    }
    let on_registry_chain = claim.evm_chain_id() == Some(identity.registry.chain_id());
    let pay_to = parse_address(&claim.pay_to);
    if registered.agent_wallet.is_zero() {
        let is_owner = on_registry_chain && pay_to == Some(owner) && !owner.is_zero();
        return Ok(if is_owner { Outcome::OwnerOnly } else { Outcome::NoAgentWallet });
    }
    let by_wallet = if pay_to == Some(registered.agent_wallet) {
        controls(claim, on_registry_chain, &facts.code, policy)
    } else {
        Ok(false)
    };
    // That nothing binds is only a finding if everything that could have bound was read.
    Ok(match (by_wallet, by_delegation(claim, &identity, registered.agent_wallet, facts, now)) {
        (Ok(true), _) => Outcome::VerifiedWallet,
        (_, Some(Verdict::Valid)) => Outcome::VerifiedDelegation,
        (Err(reason), _) => not_read(FailedRead::Code)(reason),
        (Ok(false), Some(Verdict::Unread(read, reason))) => not_read(read)(reason),
        (Ok(false), Some(Verdict::Invalid(rule))) => Outcome::InvalidDelegation(rule),
        (Ok(false), None) => Outcome::Mismatch,
    })
}

/// The registry's answers, if they come from a registry that is believed and from its own chain.
fn believed<'a>(
    identity: &Identity,
    facts: &'a Facts,
    policy: &Policy,
) -> Result<&'a Registered, UnreadReason> {
    if !policy.registries.contains(&identity.registry) {
        return Err(UnreadReason::new("this registry is not on the list of trusted registries"));
    }
    let block = facts.block.value()?;
    if block.chain_id != identity.registry.chain_id() {
        return Err(UnreadReason::new("the block that was read is another chain's"));
    }
    facts.registry.value()
}

/// Whether whoever controls the agent wallet controls the same address where the payment goes: always on the registry's
/// own chain, and on other EVM chains when it is a key and no contract. Elsewhere the address means nothing.
fn controls(
    claim: &Claim,
    on_registry_chain: bool,
    code: &Fact<WalletCode>,
    policy: &Policy,
) -> Result<bool, UnreadReason> {
    if on_registry_chain || claim.evm_chain_id().is_none() {
        return Ok(on_registry_chain);
    }
    code.value().map(|code| match code {
        WalletCode::Empty => true,
        WalletCode::Contract => false,
        // The text says "no contract code", and a designator of EIP-7702 is code; its reason, that the key controls the address
        // everywhere, would allow it. Literal unless the operator says otherwise.
        WalletCode::Delegated(_) => policy.eip7702_is_eoa,
    })
}

/// `None` when the requirement carries no delegation. One in the registration file does not count: the text wants it in
/// the requirement.
fn by_delegation(
    claim: &Claim,
    identity: &Identity,
    wallet: Address,
    facts: &Facts,
    now: UnixSeconds,
) -> Option<Verdict> {
    match &claim.delegation {
        Carried::Nothing => None,
        Carried::Malformed => Some(Verdict::Invalid(super::Rule::Malformed)),
        Carried::Delegation(delegation) => {
            Some(delegation.check(&claim.subject(identity), wallet, &facts.code, &facts.erc1271, now))
        }
    }
}

/// A wallet that is verified on another chain than its registry's, though it has code there. Only the operator's choice
/// allows it, and another checker may have made the other one.
fn rests_on_eip7702(claim: &Claim, identity: &Identity, facts: &Facts, outcome: &Outcome) -> bool {
    *outcome == Outcome::VerifiedWallet
        && claim.evm_chain_id() != Some(identity.registry.chain_id())
        && matches!(facts.code, Fact::Read(WalletCode::Delegated(_)))
}

fn notes(
    claim: &Claim,
    named: Named,
    facts: &Facts,
    file: Option<&Registration>,
    outcome: &Outcome,
) -> Vec<Note> {
    let Named::Identity(identity) = named else {
        let mut notes = Vec::new();
        notes.extend(claim.payment_differs().then_some(Note::PaymentDiffers));
        notes.extend(claim.identity_differs().then_some(Note::IdentityDiffers));
        notes.extend(claim.resource_differs.then_some(Note::ResourceDiffers));
        return notes;
    };
    let says = |fact: Option<bool>, meaning: bool| fact == Some(meaning);
    [
        (Note::PaymentDiffers, claim.payment_differs()),
        (Note::IdentityDiffers, claim.identity_differs()),
        (Note::IdentityChanged, facts.remembered.is_some_and(|earlier| earlier != identity)),
        (Note::ResourceDiffers, claim.resource_differs),
        (Note::Eip7702IsEoa, rests_on_eip7702(claim, &identity, facts, outcome)),
        (
            Note::PayeeNotDeclared,
            says(file.and_then(|file| file.declares(&claim.network, &claim.pay_to)), false),
        ),
        (Note::RegistrationBackrefMissing, says(file.and_then(|file| file.refers_to(&identity)), false)),
        (Note::Inactive, says(file.and_then(|file| file.active), false)),
    ]
    .into_iter()
    .filter_map(|(note, holds)| holds.then_some(note))
    .collect()
}

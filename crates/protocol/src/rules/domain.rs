//! The declared EIP-712 domain is the token's own. The payer signed what the seller declared, so a wrong declaration
//! makes a signature that recovers here and fails on chain (spec/x402.md §7, 29).
//!
//! What the token offers is believed in this order: its separator, which covers every field and is what its own check
//! uses; EIP-5267; and `name()` and `version()`, which need not be the domain's and so only explain, never decide.

use crate::{
    code::Code, facts::ChainFacts, payment::Requirement, scheme::exact_eip3009::declared_domain,
    text::printable, wire::Refusal,
};

const SHOWN_CHARACTERS_MAX: usize = 64;

pub(super) fn matches(requirement: &Requirement, facts: &ChainFacts) -> Result<(), Refusal> {
    match (separator(requirement, facts), &facts.eip5267) {
        (Separator::Same, _) => Ok(()),
        (_, Some((name, version))) => compare(requirement, Some(name), Some(version)),
        (Separator::Other, None) => {
            compare(requirement, facts.token_name.as_ref(), facts.token_version.as_ref())
        }
        (Separator::NotOffered, None) => Ok(()),
    }
}

/// The domain as the cause of a transfer that failed in simulation, when it is one. Here the getters may speak too, and
/// another separator is evidence even if no getter says where it differs.
pub(super) fn explains(requirement: &Requirement, facts: &ChainFacts) -> Result<(), Refusal> {
    let separator = separator(requirement, facts);
    if separator == Separator::Same {
        return Ok(());
    }
    let (name, version) = match &facts.eip5267 {
        Some((name, version)) => (Some(name), Some(version)),
        None => (facts.token_name.as_ref(), facts.token_version.as_ref()),
    };
    compare(requirement, name, version)?;
    // Name and version agree as far as the token tells them: what it does not tell is the suspect.
    let code = match (separator, name, version) {
        (Separator::NotOffered, _, _) => return Ok(()),
        (_, None, _) => Code::TokenNameMismatch,
        (_, Some(_), None) => Code::TokenVersionMismatch,
        (_, Some(_), Some(_)) => Code::SimulationFailed,
    };
    Err(Refusal::new(
        code,
        "the token's DOMAIN_SEPARATOR() is not that of extra.name, extra.version, this chain and this token",
    ))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Separator {
    Same,
    Other,
    NotOffered,
}

fn separator(requirement: &Requirement, facts: &ChainFacts) -> Separator {
    let declared = declared_domain(requirement).map(|domain| domain.separator());
    match facts.domain_separator {
        None => Separator::NotOffered,
        own if own == declared => Separator::Same,
        Some(_) => Separator::Other,
    }
}

/// Names the first part that differs. When none does, the difference is in a part the seller does not declare, and the
/// simulation is the judge.
fn compare(
    requirement: &Requirement,
    name: Option<&String>,
    version: Option<&String>,
) -> Result<(), Refusal> {
    let differs = |own: &&String, declared: &Option<String>| declared.as_ref() != Some(*own);
    if let Some(name) = name.filter(|name| differs(name, &requirement.domain_name)) {
        let name = printable(name, SHOWN_CHARACTERS_MAX);
        return Err(Refusal::new(
            Code::TokenNameMismatch,
            format!("extra.name is not the token's EIP-712 domain name {name:?}"),
        ));
    }
    if let Some(version) = version.filter(|version| differs(version, &requirement.domain_version)) {
        let version = printable(version, SHOWN_CHARACTERS_MAX);
        return Err(Refusal::new(
            Code::TokenVersionMismatch,
            format!("extra.version is not the token's EIP-712 domain version {version:?}"),
        ));
    }
    Ok(())
}

//! The declared EIP-712 domain is the token's own. The payer signed what the seller declared, so a wrong declaration
//! makes a signature that recovers here and fails on chain (spec/x402.md §7, 29).

use crate::{
    code::Code, facts::ChainFacts, payment::Requirement, scheme::exact_eip3009::declared_domain,
    wire::Refusal,
};

pub(super) fn matches(requirement: &Requirement, facts: &ChainFacts) -> Result<(), Refusal> {
    if let Some((name, version)) = &facts.eip5267 {
        return compare(requirement, Some(name), Some(version));
    }
    let declared = declared_domain(requirement).map(|domain| domain.separator());
    match facts.domain_separator {
        Some(own) if declared != Some(own) => {
            compare(requirement, facts.token_name.as_ref(), facts.token_version.as_ref())
        }
        // Equal, or not offered: then the simulation is the judge.
        _ => Ok(()),
    }
}

/// Names the first part that differs. When none does, the separator differs in a part the seller does not declare, and
/// the simulation is the judge.
pub(super) fn compare(
    requirement: &Requirement,
    name: Option<&String>,
    version: Option<&String>,
) -> Result<(), Refusal> {
    if let Some(name) = name.filter(|name| requirement.domain_name.as_ref() != Some(name)) {
        return Err(Refusal::new(
            Code::TokenNameMismatch,
            format!("extra.name is not the token's EIP-712 domain name {:?}", shown(name)),
        ));
    }
    if let Some(version) = version.filter(|version| requirement.domain_version.as_ref() != Some(version)) {
        return Err(Refusal::new(
            Code::TokenVersionMismatch,
            format!("extra.version is not the token's EIP-712 domain version {:?}", shown(version)),
        ));
    }
    Ok(())
}

/// A token's own text, cut: it is shown to people and comes from strangers.
fn shown(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(64).collect()
}

//! The money is there, and the exact call settle would send moves exactly the amount.

use super::{Policy, domain};
use crate::{
    code::Code,
    facts::{ChainFacts, Erc1271Answer, Simulation},
    payment::Authorization,
    scheme::exact_eip3009::{Call, deployable, deploying_calls, direct_calls, gas_limit},
    wire::{Refusal, Request},
};
use alloy_primitives::U256;
use alloy_sol_types::{Revert, SolError};

pub(super) fn affordable(a: &Authorization, facts: &ChainFacts) -> Result<(), Refusal> {
    match facts.payer_balance {
        Some(balance) if balance < a.value.0 => Err(Refusal::new(
            Code::InsufficientBalance,
            format!("the payer's balance is {balance}, required is {}", a.value),
        )),
        _ => Ok(()),
    }
}

/// The first proposed call that succeeded, and its gas limit.
pub(super) fn executes(
    request: &Request,
    facts: &ChainFacts,
    policy: &Policy,
) -> Result<(Call, u64), Refusal> {
    let asset = request.requirement.asset;
    let wrapper = if facts.payer_code.is_empty() {
        deployable(&request.payment, &policy.wallet_factories)
    } else {
        None
    };
    let (calls, simulations) = match wrapper {
        Some(wrapper) => (deploying_calls(&request.payment, asset, wrapper), &facts.deploying),
        None => (direct_calls(&request.payment, asset), &facts.direct),
    };
    let Some((call, simulation)) = calls.into_iter().zip(simulations).find(|(_, s)| s.success) else {
        return Err(diagnose(request, facts, simulations.first()));
    };
    if wrapper.is_some() {
        deployed(simulation)?;
    }
    moves_exactly(request, facts, simulation)?;
    let gas_limit = gas_limit(&call.data, simulation.gas_used);
    if gas_limit > policy.gas_per_settlement_max {
        return Err(Refusal::new(
            Code::SimulationFailed,
            format!(
                "the settlement needs {gas_limit} gas, the operator's bound is {}",
                policy.gas_per_settlement_max
            ),
        ));
    }
    Ok((call, gas_limit))
}

/// A counterfactual payer is only believed when its deployment left code that vouches for the signature.
fn deployed(simulation: &Simulation) -> Result<(), Refusal> {
    if !simulation.payer_has_code_after {
        return Err(Refusal::new(
            Code::SmartWalletDeploymentFailed,
            "the ERC-6492 factory call leaves no code at the payer's address",
        ));
    }
    if !simulation.erc1271_after.as_ref().is_some_and(Erc1271Answer::is_magic) {
        return Err(Refusal::new(
            Code::Signature,
            "the deployed payer's isValidSignature does not answer with the ERC-1271 magic value (rule 2)",
        ));
    }
    Ok(())
}

/// A call can succeed without moving the money: tokens that take a fee, or return without doing anything.
fn moves_exactly(request: &Request, facts: &ChainFacts, simulation: &Simulation) -> Result<(), Refusal> {
    let a = &request.payment.authorization;
    let moved = if a.from == a.to { U256::ZERO } else { a.value.0 };
    let expected = facts.pay_to_balance.and_then(|before| before.checked_add(moved));
    if expected.is_some() && simulation.pay_to_balance_after == expected {
        return Ok(());
    }
    Err(Refusal::new(
        Code::TransferEventMismatch,
        "in simulation the transfer does not raise the recipient's balance by exactly the amount",
    ))
}

fn diagnose(request: &Request, facts: &ChainFacts, simulation: Option<&Simulation>) -> Refusal {
    if let Err(refusal) =
        domain::compare(&request.requirement, facts.token_name.as_ref(), facts.token_version.as_ref())
    {
        // Without a readable domain separator, name() and version() are the best explanation of a failed transfer.
        if facts.domain_separator.is_none() && facts.eip5267.is_none() {
            return refusal;
        }
    }
    let text = simulation.map(|s| revert_text(&s.return_data)).unwrap_or_default();
    let code = if text.contains("insufficient balance") || text.contains("exceeds balance") {
        Code::InsufficientBalance
    } else {
        Code::SimulationFailed
    };
    let message = match text.as_str() {
        "" => "the transfer reverts in simulation without a reason".to_owned(),
        text => format!("the transfer reverts in simulation: {text}"),
    };
    Refusal::new(code, message)
}

/// The text of `Error(string)`, cleaned for people: printable, at most 200 characters, no URL. Other revert data is named
/// by its selector.
pub fn revert_text(data: &[u8]) -> String {
    const CHARACTERS_MAX: usize = 200;
    if data.len() < 4 {
        return String::new();
    }
    let Ok(revert) = Revert::abi_decode(data) else {
        return format!("error {}", alloy_primitives::hex::encode_prefixed(&data[..4]));
    };
    revert
        .reason
        .split_whitespace()
        .map(|word| if word.contains("://") { "(url)" } else { word })
        .collect::<Vec<_>>()
        .join(" ")
        .chars()
        .filter(|c| !c.is_control())
        .take(CHARACTERS_MAX)
        .collect()
}

//! The money is there, and the exact call settle would send moves exactly the amount.

use super::{Policy, domain};
use crate::{
    code::Code,
    facts::{ChainFacts, Erc1271Answer, Simulation},
    payment::Authorization,
    scheme::exact_eip3009::{Call, deployable, deploying_calls, direct_calls, gas_limit},
    text::printable,
    wire::{Refusal, Request},
};
use alloy_primitives::{U256, hex};
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
    let transfers = calls.len();
    let Some((call, simulation)) = calls.into_iter().zip(simulations).find(|(_, s)| s.success) else {
        if wrapper.is_some() {
            // The deployment alone was tried last.
            deployed_alone(simulations.get(transfers))?;
        }
        return Err(diagnose(request, facts, simulations));
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

/// Why a deployment with transfer failed, if the deployment alone already explains it.
fn deployed_alone(simulation: Option<&Simulation>) -> Result<(), Refusal> {
    match simulation {
        Some(simulation) if simulation.success => deployed(simulation),
        Some(_) => Err(Refusal::new(Code::SmartWalletDeploymentFailed, "the ERC-6492 factory call reverts")),
        None => Ok(()),
    }
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

fn diagnose(request: &Request, facts: &ChainFacts, simulations: &[Simulation]) -> Refusal {
    if let Err(refusal) = domain::explains(&request.requirement, facts) {
        return refusal;
    }
    // A deployment hides the token's words behind Multicall3's; the transfer alone, tried beside it, still says them.
    let texts: Vec<String> = simulations
        .iter()
        .chain(&facts.direct)
        .map(|simulation| revert_text(&simulation.return_data))
        .filter(|text| !text.is_empty())
        .collect();
    let told = texts.iter().find_map(|text| cause(text).map(|code| (code, text)));
    let (code, text) = match (told, texts.first()) {
        (Some((code, text)), _) => (code, text.as_str()),
        (None, Some(text)) => (Code::SimulationFailed, text.as_str()),
        (None, None) => (Code::SimulationFailed, "without a reason"),
    };
    Refusal::new(code, format!("the transfer reverts in simulation: {text}"))
}

/// The causes tokens name in words of their own that no fact shows.
fn cause(revert_text: &str) -> Option<Code> {
    // OpenZeppelin 5's EnforcedPause() and ERC20InsufficientBalance(address,uint256,uint256).
    const ENFORCED_PAUSE: &str = "error 0xd93c0665";
    const ERC20_INSUFFICIENT_BALANCE: &str = "error 0xe450d38c";
    let text = revert_text.to_lowercase();
    let says = |words: &[&str]| words.iter().any(|word| text.contains(word));
    if text == ENFORCED_PAUSE || says(&["paused"]) {
        Some(Code::TokenPaused)
    } else if says(&["blacklisted", "blocklisted", "denylisted"]) {
        Some(Code::AccountBlacklisted)
    } else if text == ERC20_INSUFFICIENT_BALANCE || says(&["insufficient balance", "exceeds balance"]) {
        Some(Code::InsufficientBalance)
    } else {
        None
    }
}

/// The text of `Error(string)`, cleaned for people (`text::printable`) and at most 200 characters long. Other revert data
/// is named by its selector.
///
/// Read leniently: the facts hold only the beginning of long revert data, and half a reason is better than none.
pub fn revert_text(data: &[u8]) -> String {
    const CHARACTERS_MAX: usize = 200;
    let Some((selector, rest)) = data.split_at_checked(4) else { return String::new() };
    let reason = || {
        let (head, text) = rest.split_at_checked(64)?;
        let offset = U256::from_be_slice(&head[..32]);
        let length = U256::from_be_slice(&head[32..]).saturating_to::<usize>().min(text.len());
        (offset == U256::from(32)).then(|| String::from_utf8_lossy(&text[..length]))
    };
    match reason() {
        Some(reason) if selector == Revert::SELECTOR => printable(&reason, CHARACTERS_MAX),
        _ => format!("error {}", hex::encode_prefixed(selector)),
    }
}

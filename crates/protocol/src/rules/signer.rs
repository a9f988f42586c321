//! Rule 2: the signature is the payer's. Which proof counts is decided by the payer's code at the block of the facts.

use super::Policy;
use crate::{
    code::Code,
    facts::{ChainFacts, PayerCode},
    scheme::exact_eip3009::{declared_domain, digest},
    signature::{Ecdsa, Shape},
    wire::{Refusal, Request},
};

pub(super) fn bound(request: &Request, facts: &ChainFacts, policy: &Policy) -> Result<(), Refusal> {
    match facts.payer_code {
        PayerCode::Empty => without_code(request, facts, policy),
        PayerCode::Contract | PayerCode::Delegated(_) => with_code(request, facts),
    }
}

fn without_code(request: &Request, facts: &ChainFacts, policy: &Policy) -> Result<(), Refusal> {
    match request.payment.signature.shape() {
        Shape::Ecdsa(parts) => recovers(request, parts),
        Shape::Erc6492(wrapper) if !wrapper.is_complete() => Err(undeployed(
            "the payer has no code and the ERC-6492 wrapper brings no deployment (factory and calldata)",
        )),
        Shape::Erc6492(wrapper) if !policy.wallet_factories.contains(&wrapper.factory) => Err(Refusal::new(
            Code::FactoryNotAllowed,
            "the ERC-6492 factory is not on this facilitator's allow-list",
        )),
        // Proven by the simulation, which deploys, asks the wallet and transfers: see `transfer`.
        Shape::Erc6492(_) if facts.deploying.is_empty() => {
            Err(undeployed("the payer has no code and its deployment was not simulated"))
        }
        Shape::Erc6492(_) => Ok(()),
        Shape::MalformedErc6492 => {
            Err(undeployed("the ERC-6492 wrapper is not canonically encoded, or is nested"))
        }
        Shape::Opaque => Err(undeployed(
            "the payer has no code, so the signature must be 65 bytes of ECDSA or an ERC-6492 wrapper",
        )),
    }
}

fn with_code(request: &Request, facts: &ChainFacts) -> Result<(), Refusal> {
    if matches!(request.payment.signature.shape(), Shape::MalformedErc6492) {
        return Err(Refusal::new(
            Code::Signature,
            "the ERC-6492 wrapper is not canonically encoded, or is nested",
        ));
    }
    if facts.erc1271.is_some_and(|answer| answer.is_magic()) {
        return Ok(());
    }
    Err(Refusal::new(
        Code::Signature,
        "the payer has code, and its isValidSignature does not answer with the ERC-1271 magic value (rule 2)",
    ))
}

fn recovers(request: &Request, parts: &Ecdsa) -> Result<(), Refusal> {
    let from = request.payment.authorization.from;
    let signer = declared_domain(&request.requirement)
        .and_then(|domain| parts.recover(digest(&request.payment.authorization, &domain)));
    if signer == Some(from) {
        return Ok(());
    }
    Err(Refusal::new(
        Code::Signature,
        "the signature does not recover to authorization.from under the declared EIP-712 domain (rule 2)",
    ))
}

fn undeployed(message: &str) -> Refusal {
    Refusal::new(Code::UndeployedSmartWallet, message)
}

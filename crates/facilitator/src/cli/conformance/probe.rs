//! What the token does with a payment that is sent to it past every facilitator.

use super::{
    abi::{Call3, IMulticall3},
    case::{Case, OnChain, Token},
    node::{Node, Transaction},
    stage::Scene,
    terms::Terms,
};
use alloy_primitives::B256;
use alloy_sol_types::SolCall as _;
use anyhow::Context as _;
use quittance_protocol::scheme::exact_eip3009::MULTICALL3;
use quittance_testkit::abi::{IBytesAuthorization, IVrsAuthorization};

/// What was sent, what the table says it does, what it did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sent {
    pub(super) expected: OnChain,
    pub(super) executes: bool,
}

impl Sent {
    pub(super) fn differs(self) -> bool {
        self.executes != (self.expected == OnChain::Executes)
    }
}

/// The chain's word on one payment; None where the table has none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ChainSays {
    pub(super) direct: Option<Sent>,
    pub(super) unwrapped: Option<Sent>,
    /// The signature is a wrapper nobody unwrapped here: it may execute all the same.
    pub(super) wrapped: bool,
}

impl ChainSays {
    pub(super) fn differs(self) -> bool {
        self.sent().any(Sent::differs)
    }

    pub(super) fn sent(self) -> impl Iterator<Item = Sent> {
        self.direct.into_iter().chain(self.unwrapped)
    }

    /// Whether there is a way to execute it, as far as is known.
    pub(super) fn executable(self) -> Option<bool> {
        let direct = self.direct?.executes;
        match self.unwrapped {
            Some(unwrapped) => Some(direct || unwrapped.executes),
            None if self.wrapped && !direct => None,
            None => Some(direct),
        }
    }
}

/// Asks the chain what the table claims about it.
pub(super) async fn ask(node: &Node, case: &Case, scene: &Scene) -> anyhow::Result<ChainSays> {
    let mut says = ChainSays { wrapped: scene.terms.wrapper()?.is_some(), ..ChainSays::default() };
    if case.onchain == OnChain::NotApplicable {
        return Ok(says);
    }
    let executes = node.executes(&direct(&scene.terms, scene.token)?, scene.times.block).await?;
    says.direct = Some(Sent { expected: case.onchain, executes });
    if let Some(expected) = case.onchain_unwrapped {
        let executes = node.executes(&unwrapped(&scene.terms, scene.token)?, scene.times.block).await?;
        says.unwrapped = Some(Sent { expected, executes });
    }
    Ok(says)
}

/// The transfer with the signature as it is presented.
pub(super) fn direct(terms: &Terms, token: Token) -> anyhow::Result<Transaction> {
    Ok(transfer(terms, token, &terms.signature_bytes()?))
}

/// What the factory is asked for and the transfer with the inner signature, both or none.
fn unwrapped(terms: &Terms, token: Token) -> anyhow::Result<Transaction> {
    let wrapper = terms.wrapper()?.context("there is no wrapper to unwrap")?;
    let mut calls = Vec::new();
    let mut call = |to, data| calls.push(Call3 { target: to, allowFailure: false, callData: data });
    if !wrapper.factory.is_zero() && !wrapper.calldata.is_empty() {
        call(wrapper.factory, wrapper.calldata);
    }
    let transfer = transfer(terms, token, &wrapper.inner);
    call(transfer.to, transfer.data);
    Ok(Transaction { to: MULTICALL3, data: IMulticall3::aggregate3Call { calls }.abi_encode().into() })
}

/// 65 bytes go through the split overload where the token has it, with `v` as 27 or 28; all else through the other.
fn transfer(terms: &Terms, token: Token, signature: &[u8]) -> Transaction {
    let m = &terms.shown;
    let data = match signature {
        [rest @ .., v] if rest.len() == 64 => {
            let v = if *v < 2 { v + 27 } else { *v };
            if token.takes_vrs() {
                IVrsAuthorization::transferWithAuthorizationCall {
                    from: m.from,
                    to: m.to,
                    value: m.value,
                    validAfter: m.validAfter,
                    validBefore: m.validBefore,
                    nonce: m.nonce,
                    v,
                    r: B256::from_slice(&rest[..32]),
                    s: B256::from_slice(&rest[32..]),
                }
                .abi_encode()
            } else {
                bytes_call(terms, [rest, &[v]].concat())
            }
        }
        _ => bytes_call(terms, signature.to_vec()),
    };
    Transaction { to: terms.asset, data: data.into() }
}

fn bytes_call(terms: &Terms, signature: Vec<u8>) -> Vec<u8> {
    let m = &terms.shown;
    IBytesAuthorization::transferWithAuthorizationCall {
        from: m.from,
        to: m.to,
        value: m.value,
        validAfter: m.validAfter,
        validBefore: m.validBefore,
        nonce: m.nonce,
        signature: signature.into(),
    }
    .abi_encode()
}

//! The questions one by one: where no Multicall3 answers them together, and for what fits neither it nor the lens.

use super::{
    Erc1271, Questions, Reading, RegistryRead, agent_wallet_call,
    node::Node,
    owner_call,
    shape::{self, Uri},
    token_uri_call,
    ways::Attempt,
};
use crate::RpcFault;
use alloy_primitives::Bytes;
use alloy_sol_types::SolCall;
use quittance_protocol::{
    facts::Erc1271Answer,
    payee::{Fact, Registered, SignatureQuestion, UnreadReason, WalletCode},
};
use serde_json::Value;

/// What the registry answered to each question.
pub(super) struct Answers {
    pub(super) agent_wallet: RegistryRead,
    pub(super) owner: RegistryRead,
    pub(super) token_uri: RegistryRead,
}

pub(super) async fn read(node: &Node<'_>, at: &Value, questions: &Questions) -> Result<Attempt, RpcFault> {
    let registry = questions.identity.registry.address();
    let ((), agent_wallet, owner) = tokio::try_join!(
        node.check_chain_id(),
        node.call(at, registry, agent_wallet_call(questions), None),
        node.call(at, registry, owner_call(questions), None),
    )?;
    finish(node, at, questions, Answers { agent_wallet, owner, token_uri: RegistryRead::default() }).await
}

/// From the registry's answers to facts, with what depends on the agent wallet.
pub(super) async fn finish(
    node: &Node<'_>,
    at: &Value,
    questions: &Questions,
    answers: Answers,
) -> Result<Attempt, RpcFault> {
    let address = questions.identity.registry.address();
    let is_nothing = answers.agent_wallet.success && answers.agent_wallet.size.is_zero();
    let registry = if is_nothing && node.code(at, address).await?.is_empty() {
        shape::no_contract()
    } else {
        shape::registered(&answers.agent_wallet, &answers.owner)
    };
    let wallet = match registry.value() {
        Ok(registered) => registered.agent_wallet,
        Err(reason) => {
            let (token_uri, code) = (Fact::Unread(reason.clone()), Fact::Unread(reason));
            let reading = Reading { registry, token_uri, code, erc1271: Fact::NotAsked };
            return Ok(Attempt { reading, is_partial: false });
        }
    };
    let asked = questions.signature.as_ref().filter(|question| question.wallet == wallet);
    let ((token_uri, uri_failed), code, erc1271) = tokio::join!(
        token_uri(node, at, questions, &registry, &answers.token_uri),
        node.code(at, wallet),
        is_valid_signature(node, at, asked),
    );
    let erc1271 = match &code {
        // Where there is no code, anything is answered with nothing.
        Ok(code) if code.is_empty() => Ok(Fact::NotAsked),
        Ok(_) => erc1271,
        Err(fault) => asked.map_or(Ok(Fact::NotAsked), |_| Err(fault.clone())),
    };
    Ok(Attempt {
        is_partial: uri_failed || code.is_err() || erc1271.is_err(),
        reading: Reading {
            registry,
            token_uri,
            code: Fact::from_result(code.map(|code| WalletCode::of(code.len(), &code))),
            erc1271: erc1271.unwrap_or_else(|fault| Fact::Unread(UnreadReason::new(fault))),
        },
    })
}

/// The tokenURI of an agent there is, by a call of its own if it has not been read whole; and whether the node failed to.
pub(super) async fn token_uri(
    node: &Node<'_>,
    at: &Value,
    questions: &Questions,
    registry: &Fact<Registered>,
    read: &RegistryRead,
) -> (Fact<Bytes>, bool) {
    let mut uri = shape::token_uri(read);
    if let (Uri::Elsewhere, Fact::Read(Registered { owner: Some(_), .. })) = (&uri, registry) {
        let address = questions.identity.registry.address();
        match node.call(at, address, token_uri_call(questions), None).await {
            Ok(read) => uri = shape::token_uri(&read),
            Err(fault) => return (Fact::Unread(UnreadReason::new(fault)), true),
        }
    }
    let uri = match uri {
        Uri::Whole(uri) => Fact::Read(uri),
        Uri::Unread(reason) => Fact::Unread(reason),
        Uri::Elsewhere => Fact::Unread(UnreadReason::new("tokenURI reverted")),
    };
    (uri, false)
}

/// With as much gas as the lens gives: whoever wrote the signature may have found a way to make the wallet waste it.
async fn is_valid_signature(
    node: &Node<'_>,
    at: &Value,
    asked: Option<&SignatureQuestion>,
) -> Result<Fact<Erc1271Answer>, RpcFault> {
    const GAS: u64 = 3_000_000;
    /// What a transaction costs before it runs (EIP-7623).
    const TRANSACTION_GAS: u64 = 21_000;
    const BYTE_GAS: u64 = 40;
    let Some(question) = asked else { return Ok(Fact::NotAsked) };
    let (digest, signature) = (question.digest, question.signature.clone());
    let data = Erc1271::isValidSignatureCall { digest, signature }.abi_encode();
    let carried = u64::try_from(data.len()).unwrap_or(u64::MAX).saturating_mul(BYTE_GAS);
    let gas = carried.saturating_add(GAS + TRANSACTION_GAS);
    let answer = node.call(at, question.wallet, data, Some(gas)).await?;
    Ok(Fact::Read(shape::signature_answer(&answer)))
}

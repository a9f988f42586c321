//! Every question in one call of `contracts/src/RegistryLens.sol`, which is never deployed.

use super::{
    METHOD, Questions, Reading, RegistryAnswer, RegistryQuestion, calls, malformed, node::Node, shape,
    ways::Attempt,
};
use crate::RpcFault;
use alloy_primitives::{Bytes, U64, hex};
use alloy_sol_types::SolValue;
use quittance_protocol::payee::Fact;
use serde_json::{Value, json};
use std::sync::LazyLock;

/// What `RegistryLens` wants for all its questions at their caps, and for carrying the longest signature in.
const GAS: u64 = 18_000_000;

static CREATION_CODE: LazyLock<Bytes> = LazyLock::new(|| {
    let artifact: Value =
        serde_json::from_str(include_str!("../../../../contracts/artifacts/RegistryLens.json"))
            .unwrap_or(Value::Null);
    let code = artifact.get("bytecode").and_then(Value::as_str).unwrap_or_default();
    hex::decode(code).unwrap_or_default().into()
});

pub(super) async fn read(node: &Node<'_>, at: &Value, questions: &Questions) -> Result<Attempt, RpcFault> {
    let answer = ask(node, at, questions).await?;
    let registry = if answer.registryCodeSize.is_zero() {
        shape::no_contract()
    } else {
        shape::registered(&answer.agentWallet, &answer.owner)
    };
    let wallet = registry.value().ok().map(|registered| registered.agent_wallet);
    let (token_uri, is_partial) = calls::token_uri(node, at, questions, &registry, &answer.tokenURI).await;
    let reading = Reading {
        code: match &registry {
            Fact::Read(_) => shape::code(&answer),
            Fact::Unread(reason) => Fact::Unread(reason.clone()),
            Fact::NotAsked => Fact::NotAsked,
        },
        erc1271: shape::erc1271(&answer, questions, wallet),
        registry,
        token_uri,
    };
    Ok(Attempt { reading, is_partial })
}

async fn ask(node: &Node<'_>, at: &Value, questions: &Questions) -> Result<RegistryAnswer, RpcFault> {
    let asked = questions.signature.as_ref();
    let question = RegistryQuestion {
        registry: questions.identity.registry.address(),
        agentId: questions.identity.agent_id,
        wallet: asked.map(|question| question.wallet).unwrap_or_default(),
        digest: asked.map(|question| question.digest).unwrap_or_default(),
        signature: asked.map(|question| question.signature.clone()).unwrap_or_default(),
    };
    let mut data = CREATION_CODE.to_vec();
    data.extend(question.abi_encode());
    let transaction = json!({ "data": Bytes::from(data), "gas": U64::from(GAS) });
    let answer: Bytes = node.get(METHOD, &json!([transaction, at])).await?;
    let answer = RegistryAnswer::abi_decode_validate(&answer)
        .map_err(|_| malformed("not an answer of the registry lens"))?;
    node.expect_chain_id(answer.chainId)?;
    Ok(answer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_embedded_lens_is_there_and_leaves_room_for_a_signature() {
        const INITCODE_BYTES_MAX: usize = 49_152; // EIP-3860
        assert!(!CREATION_CODE.is_empty());
        assert!(CREATION_CODE.len() + 16_384 + 1_024 < INITCODE_BYTES_MAX);
    }
}

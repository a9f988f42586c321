//! The registry's answers in one call of Multicall3, for nodes that run no creation code.
//!
//! Unlike the lens, Multicall3 gives each call all the gas there is and copies whatever comes back. So the tokenURI, whose
//! length a stranger chose, goes last, where it can starve nothing but itself; and if even returning it costs more than
//! there is, the others are asked without it.

use super::{
    METHOD, Questions, RegistryRead, agent_wallet_call, calls, malformed, node::Node, owner_call,
    token_uri_call, ways::Attempt,
};
use crate::RpcFault;
use alloy_primitives::{Bytes, U256};
use alloy_sol_types::{SolCall, sol};
use quittance_protocol::scheme::exact_eip3009::MULTICALL3;
use serde_json::{Value, json};

sol! {
    struct Call3 { address target; bool allowFailure; bytes callData; }
    struct Returned { bool success; bytes returnData; }
    function aggregate3(Call3[] calls) returns (Returned[] returned);
    function getChainId() returns (uint256 chainId);
}

pub(super) async fn read(node: &Node<'_>, at: &Value, questions: &Questions) -> Result<Attempt, RpcFault> {
    let answers = match ask(node, at, questions, true).await {
        Err(RpcFault::ErrorResponse { .. }) => ask(node, at, questions, false).await?,
        answers => answers?,
    };
    calls::finish(node, at, questions, answers).await
}

async fn ask(
    node: &Node<'_>,
    at: &Value,
    questions: &Questions,
    with_uri: bool,
) -> Result<calls::Answers, RpcFault> {
    let registry = questions.identity.registry.address();
    let mut calls = vec![
        (MULTICALL3, getChainIdCall {}.abi_encode()),
        (registry, agent_wallet_call(questions)),
        (registry, owner_call(questions)),
    ];
    if with_uri {
        calls.push((registry, token_uri_call(questions)));
    }
    let asked = calls.len();
    let calls = calls
        .into_iter()
        .map(|(target, data)| Call3 { target, allowFailure: true, callData: data.into() })
        .collect();
    // No gas is named: nodes give as much as they will, and some refuse to be asked for more.
    let data = Bytes::from(aggregate3Call { calls }.abi_encode());
    let answer: Bytes = node.get(METHOD, &json!([{ "to": MULTICALL3, "data": data }, at])).await?;
    let strange = || malformed("not an answer of Multicall3");
    // An address without code answers nothing, which is no list either.
    let returned = aggregate3Call::abi_decode_returns_validate(&answer).map_err(|_| strange())?;
    if returned.len() != asked {
        return Err(strange());
    }
    let mut returned = returned.into_iter();
    let chain_id = returned.next().filter(|chain_id| chain_id.success).ok_or_else(strange)?;
    let chain_id =
        getChainIdCall::abi_decode_returns_validate(&chain_id.returnData).map_err(|_| strange())?;
    node.expect_chain_id(chain_id)?;
    let mut next = || returned.next().map_or_else(RegistryRead::default, understood);
    Ok(calls::Answers { agent_wallet: next(), owner: next(), token_uri: next() })
}

/// What fails without a word may only have had too little gas.
fn understood(returned: Returned) -> RegistryRead {
    RegistryRead {
        asked: returned.success || !returned.returnData.is_empty(),
        success: returned.success,
        size: U256::from(returned.returnData.len()),
        data: returned.returnData,
    }
}

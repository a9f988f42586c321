//! The same questions one by one, for nodes that run no creation code, and for URIs that do not fit the lens.

use super::{Erc1271, METHOD, Reading, Registry, call, shape, token_uri_call};
use crate::{
    RpcFault,
    pool::{Reply, RpcPool},
    watch,
};
use alloy_primitives::{Address, Bytes};
use alloy_sol_types::SolCall;
use quittance_protocol::payee::{Fact, Questions, Registered, UnreadReason, WalletCode, address_answer};
use serde_json::{Value, json};

pub(super) async fn read(pool: &RpcPool, at: &Value, questions: &Questions) -> Result<Reading, RpcFault> {
    let (expected, actual) = (pool.network().chain_id(), watch::chain_id(pool).await?);
    if actual != expected {
        return Err(RpcFault::WrongChain { expected, actual });
    }
    let identity = &questions.identity;
    let registry = registered(pool, at, questions).await?;
    let registered = match &registry {
        Fact::Read(registered) => *registered,
        Fact::Unread(reason) => return Ok(nothing(reason)),
        Fact::NotAsked => return Ok(nothing(&UnreadReason::new("the registry was not asked"))),
    };
    let token_uri = if registered.owner.is_some() {
        token_uri(pool, at, questions).await?
    } else {
        Fact::Unread(UnreadReason::new("tokenURI reverted"))
    };
    let code = code(pool, at, registered.agent_wallet).await?;
    let size = code.len();
    let asked = questions.signature.as_ref().filter(|q| q.wallet == registered.agent_wallet && size > 0);
    let erc1271 = match asked {
        None => Fact::NotAsked,
        Some(question) => {
            let data = Erc1271::isValidSignatureCall {
                digest: question.digest,
                signature: question.signature.clone(),
            };
            let answer = answered(call(pool, at, question.wallet, data.abi_encode()).await?)?;
            let length = answer.as_ref().map_or(0, |answer| u64::try_from(answer.len()).unwrap_or(u64::MAX));
            Fact::Read(shape::signature_answer(answer.is_some(), length, &answer.unwrap_or_default()))
        }
    };
    debug_assert_eq!(identity.registry.chain_id(), alloy_primitives::U256::from(expected));
    Ok(Reading { registry, token_uri, code: Fact::Read(WalletCode::of(size, &code)), erc1271 })
}

fn nothing(reason: &UnreadReason) -> Reading {
    Reading {
        registry: Fact::Unread(reason.clone()),
        token_uri: Fact::Unread(reason.clone()),
        code: Fact::Unread(reason.clone()),
        erc1271: Fact::NotAsked,
    }
}

async fn registered(pool: &RpcPool, at: &Value, questions: &Questions) -> Result<Fact<Registered>, RpcFault> {
    let (address, agent_id) = (questions.identity.registry.address(), questions.identity.agent_id);
    if code(pool, at, address).await?.is_empty() {
        return Ok(shape::no_contract());
    }
    let ask = |data: Vec<u8>| call(pool, at, address, data);
    let wallet = answered(ask(Registry::getAgentWalletCall { agentId: agent_id }.abi_encode()).await?)?;
    let Some(wallet) = wallet else {
        return Ok(Fact::Unread(UnreadReason::new("getAgentWallet reverted")));
    };
    let owner = match answered(ask(Registry::ownerOfCall { agentId: agent_id }.abi_encode()).await?)? {
        None => None,
        Some(answer) => match address_answer(&answer) {
            Fact::Read(owner) => Some(owner),
            Fact::Unread(reason) => return Ok(Fact::Unread(reason)),
            Fact::NotAsked => return Ok(Fact::NotAsked),
        },
    };
    Ok(match address_answer(&wallet) {
        Fact::Read(agent_wallet) => Fact::Read(Registered { agent_wallet, owner }),
        Fact::Unread(reason) => Fact::Unread(reason),
        Fact::NotAsked => Fact::NotAsked,
    })
}

pub(super) async fn token_uri(
    pool: &RpcPool,
    at: &Value,
    questions: &Questions,
) -> Result<Fact<Bytes>, RpcFault> {
    let registry = questions.identity.registry.address();
    Ok(match answered(call(pool, at, registry, token_uri_call(questions)).await?)? {
        None => Fact::Unread(UnreadReason::new("tokenURI reverted")),
        Some(answer) => match shape::string(&answer) {
            Some(uri) => Fact::Read(uri),
            None => Fact::Unread(shape::not_a_string()),
        },
    })
}

async fn code(pool: &RpcPool, at: &Value, account: Address) -> Result<Bytes, RpcFault> {
    pool.read("eth_getCode", json!([account, at])).await
}

/// `None`: the contract reverted, which is an answer. Every other error is the node's.
fn answered(reply: Reply<Bytes>) -> Result<Option<Bytes>, RpcFault> {
    /// geth and its kin.
    const REVERTED: i64 = 3;
    match reply {
        Reply::Result(answer) => Ok(Some(answer)),
        Reply::Error { code, text } if code == REVERTED || text.to_ascii_lowercase().contains("revert") => {
            Ok(None)
        }
        Reply::Error { code, .. } => Err(RpcFault::ErrorResponse { method: METHOD, code }),
    }
}

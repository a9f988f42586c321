//! What an ERC-8004 identity registry says about an agent, at one block (spec/payee.md §1.2, §2.1).
//!
//! One `eth_call` of `contracts/src/RegistryLens.sol`, pinned to the block's hash. Where a node does not take hashes, its
//! number, and where it does not run creation code, the calls one by one; both only count if the number still has the same
//! hash afterwards. Answers are believed in their exact shape only: what is empty, shorter or longer is unread, not zero.

mod plain;
mod shape;

use crate::{
    RpcFault,
    pool::{Reply, RpcPool},
    watch::{self, Head},
};
use alloy_primitives::{Bytes, U64, U256, hex};
use alloy_sol_types::{SolCall, SolValue, sol};
use quittance_protocol::{
    facts::Erc1271Answer,
    payee::{Block, Fact, Questions, Registered, UnreadReason, WalletCode},
};
use serde_json::{Value, json};
use std::sync::LazyLock;

sol! {
    struct RegistryQuestion { address registry; uint256 agentId; address wallet; bytes32 digest; bytes signature; }
    struct RegistryRead { bool asked; bool success; uint256 size; bytes data; }
    struct RegistryAnswer {
        uint256 chainId; uint256 registryCodeSize;
        RegistryRead agentWallet; RegistryRead owner; RegistryRead tokenURI;
        uint256 walletCodeSize; bytes walletCodePrefix;
        RegistryRead erc1271;
    }

    interface Registry {
        function getAgentWallet(uint256 agentId) returns (address);
        function ownerOf(uint256 agentId) returns (address);
        function tokenURI(uint256 agentId) returns (string);
    }
    interface Erc1271 {
        function isValidSignature(bytes32 digest, bytes signature) returns (bytes4);
    }
}

const METHOD: &str = "eth_call";
/// What `RegistryLens` wants for all its questions at their caps, and for carrying the longest signature in.
const GAS: u64 = 18_000_000;
/// Blocks to stay behind where a node knows no safe block: one block can be replaced by an honest node, three seldom are.
const BEHIND_WITHOUT_SAFE: u64 = 3;

static CREATION_CODE: LazyLock<Bytes> = LazyLock::new(|| {
    let artifact: Value =
        serde_json::from_str(include_str!("../../../contracts/artifacts/RegistryLens.json"))
            .unwrap_or(Value::Null);
    let code = artifact.get("bytecode").and_then(Value::as_str).unwrap_or_default();
    hex::decode(code).unwrap_or_default().into()
});

/// Which block is read. A wallet that was rotated away stays valid for as long as that block lags behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum At {
    /// The latest block.
    Latest,
    /// So many blocks behind the latest.
    Behind(u64),
    /// The block the node calls safe; three behind the latest if it knows none.
    Safe,
}

/// Everything the registry's chain says about one agent, each answer by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reading {
    /// Agent wallet and owner.
    pub registry: Fact<Registered>,
    /// `tokenURI(agentId)`, as bytes: nothing says that it is text.
    pub token_uri: Fact<Bytes>,
    /// Code at the agent wallet.
    pub code: Fact<WalletCode>,
    /// The agent wallet's answer to the signature question.
    pub erc1271: Fact<Erc1271Answer>,
}

/// Whether the node is one for development, whose chain is private and whose latest block is as good as any.
pub async fn is_dev_node(pool: &RpcPool) -> Result<bool, RpcFault> {
    let version: String = pool.read("web3_clientVersion", json!([])).await?;
    let version = version.to_ascii_lowercase();
    Ok(["anvil", "hardhat"].iter().any(|name| version.starts_with(name)))
}

/// The header of the block to read at.
pub async fn block(pool: &RpcPool, at: At) -> Result<Block, RpcFault> {
    let head = match at {
        At::Latest => watch::head(pool).await?,
        At::Behind(blocks) => behind(pool, blocks).await?,
        At::Safe => match watch::head_at(pool, json!("safe")).await {
            Ok(head) => head,
            // The node answers, but not this: not every chain has safe blocks.
            Err(RpcFault::ErrorResponse { .. } | RpcFault::Malformed { .. }) => {
                behind(pool, BEHIND_WITHOUT_SAFE).await?
            }
            Err(fault) => return Err(fault),
        },
    };
    Ok(Block {
        chain_id: U256::from(pool.network().chain_id()),
        number: head.number,
        hash: head.hash,
        timestamp: head.timestamp,
    })
}

async fn behind(pool: &RpcPool, blocks: u64) -> Result<Head, RpcFault> {
    let latest = watch::head(pool).await?;
    match latest.number.saturating_sub(blocks) {
        number if number == latest.number => Ok(latest),
        number => watch::head_at(pool, json!(U64::from(number))).await,
    }
}

/// Reads everything `questions` asks at `block`.
pub async fn read(pool: &RpcPool, block: &Block, questions: &Questions) -> Result<Reading, RpcFault> {
    let by_hash = json!({ "blockHash": block.hash, "requireCanonical": true });
    let mut reading = match lens(pool, &by_hash, questions).await {
        Ok(answer) => return finish(pool, &by_hash, questions, &answer).await,
        Err(fault @ RpcFault::Timeout { .. }) => return Err(fault),
        // Some nodes take no hashes (EIP-1898).
        Err(_) => None,
    };
    let by_number = json!(U64::from(block.number));
    if reading.is_none() {
        reading = match lens(pool, &by_number, questions).await {
            Ok(answer) => Some(finish(pool, &by_number, questions, &answer).await?),
            Err(fault @ RpcFault::Timeout { .. }) => return Err(fault),
            // Some run no creation code (ZK stacks).
            Err(_) => None,
        };
    }
    let reading = match reading {
        Some(reading) => reading,
        None => plain::read(pool, &by_number, questions).await?,
    };
    if watch::head_at(pool, by_number).await?.hash != block.hash {
        return Err(malformed("the block was replaced while it was read"));
    }
    Ok(reading)
}

async fn lens(pool: &RpcPool, at: &Value, questions: &Questions) -> Result<RegistryAnswer, RpcFault> {
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
    let understand = |answer: Bytes| {
        let answer = RegistryAnswer::abi_decode_validate(&answer)
            .map_err(|_| malformed("not an answer of the registry lens"))?;
        let (expected, actual) = (pool.network().chain_id(), answer.chainId);
        if actual != U256::from(expected) {
            let actual = u64::try_from(actual).unwrap_or(u64::MAX);
            return Err(RpcFault::WrongChain { expected, actual });
        }
        Ok(answer)
    };
    pool.read_as(METHOD, json!([transaction, at]), understand).await
}

/// From the lens's answer to facts; a URI that did not fit is read by a call of its own.
async fn finish(
    pool: &RpcPool,
    at: &Value,
    questions: &Questions,
    answer: &RegistryAnswer,
) -> Result<Reading, RpcFault> {
    let registry = shape::registered(answer);
    let token_uri = match shape::token_uri(answer) {
        shape::Uri::Whole(uri) => Fact::Read(uri),
        shape::Uri::Unread(reason) => Fact::Unread(reason),
        shape::Uri::Elsewhere if matches!(&registry, Fact::Read(Registered { owner: Some(_), .. })) => {
            plain::token_uri(pool, at, questions).await?
        }
        shape::Uri::Elsewhere => Fact::Unread(UnreadReason::new("tokenURI reverted")),
    };
    let wallet = registry.value().ok().map(|registered| registered.agent_wallet);
    Ok(Reading {
        code: match &registry {
            Fact::Read(_) => shape::code(answer),
            Fact::Unread(reason) => Fact::Unread(reason.clone()),
            Fact::NotAsked => Fact::NotAsked,
        },
        erc1271: shape::erc1271(answer, questions, wallet),
        registry,
        token_uri,
    })
}

/// One call of a contract, at a block.
async fn call(
    pool: &RpcPool,
    at: &Value,
    to: alloy_primitives::Address,
    data: Vec<u8>,
) -> Result<Reply<Bytes>, RpcFault> {
    let transaction = json!({ "to": to, "data": Bytes::from(data) });
    pool.read_reply(METHOD, json!([transaction, at])).await
}

fn token_uri_call(questions: &Questions) -> Vec<u8> {
    Registry::tokenURICall { agentId: questions.identity.agent_id }.abi_encode()
}

fn malformed(what: &'static str) -> RpcFault {
    RpcFault::Malformed { method: METHOD, what }
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

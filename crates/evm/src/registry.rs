//! What an ERC-8004 identity registry says about an agent, at one block (spec/payee.md §1.2, §2.1).
//!
//! One `eth_call` of `contracts/src/RegistryLens.sol`, pinned to the block's hash. Where a node does not take hashes, its
//! number; where it does not run creation code, Multicall3, and where there is none, the calls one by one. What is read by
//! number only counts if the same node gives the number the same hash afterwards. Answers are believed in their exact
//! shape only: what is empty, shorter or longer is unread, not zero.

mod calls;
mod lens;
mod multicall;
mod node;
mod shape;
mod ways;

pub use ways::{Ways, read};

use crate::{
    RpcFault,
    call::METHOD,
    pool::RpcPool,
    watch::{self, Head},
};
use alloy_primitives::{Bytes, U64, U256};
use alloy_sol_types::{SolCall, sol};
use quittance_protocol::{
    facts::Erc1271Answer,
    payee::{Block, Fact, Questions, Registered, WalletCode},
};
use serde_json::json;

sol! {
    struct RegistryQuestion { address registry; uint256 agentId; address wallet; bytes32 digest; bytes signature; }
    #[derive(Default)]
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

/// Blocks to stay behind where a node knows no safe block: one block can be replaced by an honest node, three seldom are.
const BEHIND_WITHOUT_SAFE: u64 = 3;

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

fn agent_wallet_call(questions: &Questions) -> Vec<u8> {
    Registry::getAgentWalletCall { agentId: questions.identity.agent_id }.abi_encode()
}

fn owner_call(questions: &Questions) -> Vec<u8> {
    Registry::ownerOfCall { agentId: questions.identity.agent_id }.abi_encode()
}

fn token_uri_call(questions: &Questions) -> Vec<u8> {
    Registry::tokenURICall { agentId: questions.identity.agent_id }.abi_encode()
}

fn malformed(what: &'static str) -> RpcFault {
    RpcFault::Malformed { method: METHOD, what }
}

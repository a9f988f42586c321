//! What became of what was sent: heads, receipts, nonces, logs.

mod prices;
mod proof;
mod receipts;
mod token;

pub use prices::{gas_price, l1_fee_per_kilobyte, suggested_tip};
pub use proof::taken_by_others;
pub use receipts::{Receipt, ReceiptRead, receipt_that, receipts, receipts_anywhere};
pub use token::{authorization_state, balance_of, domain_separator, would_succeed};

use crate::{
    RpcFault,
    call::pinned,
    pool::{Reply, RpcPool, understood},
};
use alloy::rpc::json_rpc::RpcRecv;
use alloy_primitives::{Address, B256, Bytes, U64, U128, U256};
use futures::future::join_all;
use quittance_protocol::units::{LaneNonce, UnixSeconds};
use serde::Deserialize;
use serde_json::{Value, json};

/// A block header, as far as it matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// Number.
    pub number: u64,
    /// Hash.
    pub hash: B256,
    /// Timestamp.
    pub timestamp: UnixSeconds,
    /// Wei per gas; `None` on a chain without EIP-1559.
    pub base_fee: Option<u128>,
}

/// A log entry.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Log {
    /// Emitter.
    pub address: Address,
    /// Indexed words.
    pub topics: Vec<B256>,
    /// The rest.
    pub data: Bytes,
    /// Its transaction.
    pub transaction_hash: Option<B256>,
    /// Its block.
    pub block_number: Option<U64>,
    /// Hash of that block.
    pub block_hash: Option<B256>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct WireHead {
    number: U64,
    hash: B256,
    timestamp: U64,
    base_fee_per_gas: Option<U128>,
}

impl From<WireHead> for Head {
    fn from(head: WireHead) -> Self {
        Self {
            number: head.number.to(),
            hash: head.hash,
            timestamp: UnixSeconds(head.timestamp.to()),
            base_fee: head.base_fee_per_gas.map(|fee| fee.to()),
        }
    }
}

const GET_BLOCK: &str = "eth_getBlockByNumber";
const GET_CHAIN_ID: &str = "eth_chainId";
const GET_NONCE: &str = "eth_getTransactionCount";

/// The node's chain id.
pub async fn chain_id(pool: &RpcPool) -> Result<u64, RpcFault> {
    Ok(pool.read::<U64>(GET_CHAIN_ID, json!([])).await?.to())
}

/// The latest block.
pub async fn head(pool: &RpcPool) -> Result<Head, RpcFault> {
    head_at(pool, json!("latest")).await
}

/// The block of a number.
pub async fn block(pool: &RpcPool, number: u64) -> Result<Head, RpcFault> {
    head_at(pool, json!(U64::from(number))).await
}

/// The block of a number or tag.
pub(crate) async fn head_at(pool: &RpcPool, at: Value) -> Result<Head, RpcFault> {
    Ok(pool.read::<WireHead>(GET_BLOCK, json!([at, false])).await?.into())
}

/// What one endpoint has at a number, if anything.
pub(crate) async fn head_at_endpoint(
    pool: &RpcPool,
    index: usize,
    number: u64,
) -> Result<Option<Head>, RpcFault> {
    match pool.ask::<Option<WireHead>>(index, GET_BLOCK, &json!([U64::from(number), false])).await? {
        Reply::Result(head) => Ok(head.map(Head::from)),
        Reply::Error { code, .. } => Err(RpcFault::ErrorResponse { method: GET_BLOCK, code }),
    }
}

/// Whether these blocks are on one chain, by the word of one node that shows that it is ours: numbers, and the hashes they must have
/// (`None`: any). The first endpoint that has a block at every number decides; while nobody has, they are not.
///
/// Numbers and hashes that different nodes gave say nothing about each other until one node has confirmed them together.
pub async fn on_one_chain(pool: &RpcPool, blocks: &[(u64, Option<B256>)]) -> Result<bool, RpcFault> {
    let calls: Vec<_> =
        blocks.iter().map(|(number, _)| (GET_BLOCK, json!([U64::from(*number), false]))).collect();
    let mut fault = None;
    for index in pool.that_keep_up() {
        let heads = match pool.ask_proven(index, &calls).await {
            Ok(answers) => answers,
            Err(error) => {
                fault = Some(error);
                continue;
            }
        };
        let heads: Option<Vec<WireHead>> =
            heads.into_iter().map(|head| understood(GET_BLOCK, head).ok()).collect();
        if let Some(heads) = heads {
            let fits = |(head, (_, hash)): (&WireHead, &(u64, Option<B256>))| {
                hash.is_none_or(|hash| hash == head.hash)
            };
            return Ok(heads.iter().zip(blocks).all(fits));
        }
    }
    fault.map_or(Ok(false), Err)
}

/// How many transactions of `address` the latest block has consumed: its next nonce. By the word of one node that has shown that
/// it is of this chain, and that has not said less when it was asked again: to be believed without anything to compare it with.
pub async fn proven_nonce(pool: &RpcPool, address: Address) -> Result<LaneNonce, RpcFault> {
    let mut fault = pool.nobody(GET_NONCE);
    for index in pool.that_keep_up() {
        match nonce_proven_by(pool, index, address).await {
            Ok(nonce) => return Ok(nonce),
            Err(error) => fault = error,
        }
    }
    Err(fault)
}

async fn nonce_proven_by(pool: &RpcPool, index: usize, address: Address) -> Result<LaneNonce, RpcFault> {
    let ask = async |method, params| match pool.ask::<U64>(index, method, &params).await? {
        Reply::Result(number) => Ok(number.to::<u64>()),
        Reply::Error { code, .. } => Err(RpcFault::ErrorResponse { method, code }),
    };
    let (expected, actual) = (pool.network().chain_id(), ask(GET_CHAIN_ID, json!([])).await?);
    if actual != expected {
        return Err(RpcFault::WrongChain { expected, actual });
    }
    let first = ask(GET_NONCE, json!([address, "latest"])).await?;
    let second = ask(GET_NONCE, json!([address, "latest"])).await?;
    Ok(LaneNonce(first.min(second)))
}

/// The same by the word of whoever has seen most.
pub async fn mined_nonce_anywhere(pool: &RpcPool, address: Address) -> Result<LaneNonce, RpcFault> {
    let mut highest = None;
    let mut fault = pool.nobody(GET_NONCE);
    for index in pool.that_keep_up() {
        match pool.ask::<U64>(index, GET_NONCE, &json!([address, "latest"])).await {
            Ok(Reply::Result(count)) => highest = highest.max(Some(LaneNonce(count.to()))),
            Ok(Reply::Error { code, .. }) => fault = RpcFault::ErrorResponse { method: GET_NONCE, code },
            Err(error) => fault = error,
        }
    }
    highest.ok_or(fault)
}

/// The same as of block `number`.
pub async fn mined_nonce_at(pool: &RpcPool, address: Address, number: u64) -> Result<LaneNonce, RpcFault> {
    let count: U64 = pool.read(GET_NONCE, json!([address, U64::from(number)])).await?;
    Ok(LaneNonce(count.to()))
}

/// The same as of exactly this block.
pub async fn mined_nonce_in(pool: &RpcPool, address: Address, block: &Head) -> Result<LaneNonce, RpcFault> {
    let params = |at: &Value| json!([address, at]);
    let count = |reply: Reply<U64>| match reply {
        Reply::Result(count) => Ok(LaneNonce(count.to())),
        Reply::Error { code, .. } => Err(RpcFault::ErrorResponse { method: GET_NONCE, code }),
    };
    pinned(pool, GET_NONCE, block, params, count).await
}

/// Balance in wei.
pub async fn balance(pool: &RpcPool, address: Address) -> Result<U256, RpcFault> {
    pool.read("eth_getBalance", json!([address, "latest"])).await
}

/// Length of the code at an address.
pub async fn code_size(pool: &RpcPool, address: Address) -> Result<usize, RpcFault> {
    let code: Bytes = pool.read("eth_getCode", json!([address, "latest"])).await?;
    Ok(code.len())
}

/// Logs of `address` in a range of blocks, both ends included. `topics`: for each place, what may stand there.
pub async fn logs(
    pool: &RpcPool,
    address: Address,
    topics: &[&[B256]],
    from: u64,
    to: u64,
) -> Result<Vec<Log>, RpcFault> {
    let filter = json!({
        "address": address, "topics": topics, "fromBlock": U64::from(from), "toBlock": U64::from(to),
    });
    pool.read("eth_getLogs", json!([filter])).await
}

/// Asks one endpoint several things; what it answers with an error is `None`. In one round trip, or one by one where a node takes
/// no batches, or none so large.
async fn ask_each<T: RpcRecv>(
    pool: &RpcPool,
    index: usize,
    method: &'static str,
    params: &[Value],
) -> Result<Vec<Option<T>>, RpcFault> {
    if params.len() > 1 {
        match pool.ask_all(index, method, params).await {
            Err(RpcFault::Transport { .. } | RpcFault::Malformed { .. }) => {}
            answers => return answers,
        }
    }
    let ask = async |params: &Value| match pool.ask(index, method, params).await? {
        Reply::Result(answer) => Ok(Some(answer)),
        Reply::Error { .. } => Ok(None),
    };
    let Some((first, rest)) = params.split_first() else { return Ok(Vec::new()) };
    // If nobody is there, the first one finds out for all.
    let mut answers = vec![ask(first).await?];
    let others: Vec<Result<Option<T>, RpcFault>> = join_all(rest.iter().map(ask)).await;
    answers.extend(others.into_iter().map(|answer| answer.unwrap_or_default()));
    Ok(answers)
}

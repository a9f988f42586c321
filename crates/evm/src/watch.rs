//! What became of what was sent: heads, receipts, nonces, logs.

use crate::{
    RpcFault,
    pool::{Reply, RpcPool},
};
use alloy_primitives::{Address, B256, Bytes, U64, U128, U256, address};
use alloy_sol_types::{SolCall, sol};
use quittance_protocol::units::{LaneNonce, UnixSeconds};
use serde::Deserialize;
use serde_json::{Value, json};

/// Receipts asked for in one HTTP request.
const BATCH_MAX: usize = 50;

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

/// A receipt, as far as it matters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Receipt {
    /// Of which transaction.
    pub tx_hash: B256,
    /// It did not revert.
    pub success: bool,
    /// Block it is in.
    pub block_number: u64,
    /// Hash of that block.
    pub block_hash: B256,
    /// What it emitted.
    pub logs: Vec<Log>,
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
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct WireHead {
    number: U64,
    hash: B256,
    timestamp: U64,
    base_fee_per_gas: Option<U128>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct WireReceipt {
    transaction_hash: B256,
    status: U64,
    block_number: Option<U64>,
    block_hash: Option<B256>,
    logs: Vec<Log>,
}

/// The node's chain id.
pub async fn chain_id(pool: &RpcPool) -> Result<u64, RpcFault> {
    Ok(pool.read::<U64>("eth_chainId", json!([])).await?.to())
}

/// The latest block.
pub async fn head(pool: &RpcPool) -> Result<Head, RpcFault> {
    head_at(pool, json!("latest")).await
}

/// The block of a number or tag.
pub(crate) async fn head_at(pool: &RpcPool, at: Value) -> Result<Head, RpcFault> {
    let head: WireHead = pool.read("eth_getBlockByNumber", json!([at, false])).await?;
    Ok(Head {
        number: head.number.to(),
        hash: head.hash,
        timestamp: UnixSeconds(head.timestamp.to()),
        base_fee: head.base_fee_per_gas.map(|fee| fee.to()),
    })
}

/// What was learned about a receipt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReceiptRead {
    /// The transaction is in a block.
    Found(Receipt),
    /// It is in no block this node knows.
    Absent,
    /// The node answered with an error, or with nonsense. Not the same as absent: nothing may be concluded from it.
    Unread,
}

/// Receipts, in the order of `hashes`. One that cannot be read does not hide the others.
pub async fn receipts(pool: &RpcPool, hashes: &[B256]) -> Result<Vec<ReceiptRead>, RpcFault> {
    const METHOD: &str = "eth_getTransactionReceipt";
    let mut answers: Vec<Option<Option<WireReceipt>>> = Vec::with_capacity(hashes.len());
    if let [hash] = hashes {
        answers.push(Some(pool.read(METHOD, json!([hash])).await?));
    } else {
        for hashes in hashes.chunks(BATCH_MAX) {
            let params: Vec<Value> = hashes.iter().map(|hash| json!([hash])).collect();
            answers.extend(pool.batch(METHOD, &params).await?);
        }
    }
    Ok(answers
        .into_iter()
        .zip(hashes)
        .map(|(answer, hash)| match answer {
            None => ReceiptRead::Unread,
            Some(None) => ReceiptRead::Absent,
            Some(Some(receipt)) => match read_receipt(receipt, *hash) {
                Ok(Some(receipt)) => ReceiptRead::Found(receipt),
                Ok(None) => ReceiptRead::Absent,
                Err(_) => ReceiptRead::Unread,
            },
        })
        .collect())
}

/// The same question put to every endpoint: a lagging one says "none" for ever. The first receipt found counts; "none" only
/// when one that keeps up says so and nobody else may know better. An endpoint that has been out of order for some time is not
/// waited for: what it knows, the chain has told the others.
pub async fn receipt_anywhere(pool: &RpcPool, hash: B256) -> Result<Option<Receipt>, RpcFault> {
    const METHOD: &str = "eth_getTransactionReceipt";
    let mut absent = false;
    let mut fault = None;
    for index in pool.in_order() {
        let error = match pool.ask::<Option<WireReceipt>>(index, METHOD, &json!([hash])).await {
            Ok(Reply::Result(receipt)) => {
                match receipt.map_or(Ok(None), |receipt| read_receipt(receipt, hash)) {
                    Ok(Some(receipt)) => return Ok(Some(receipt)),
                    Ok(None) => {
                        absent |= pool.keeps_up(index);
                        continue;
                    }
                    Err(error) => error,
                }
            }
            Ok(Reply::Error { code, .. }) => RpcFault::ErrorResponse { method: METHOD, code },
            Err(_) if pool.is_out_of_order(index) => continue,
            Err(error) => error,
        };
        fault = Some(error);
    }
    match fault {
        Some(fault) => Err(fault),
        None if absent => Ok(None),
        None => Err(pool.nobody(METHOD)),
    }
}

fn read_receipt(receipt: WireReceipt, asked: B256) -> Result<Option<Receipt>, RpcFault> {
    if receipt.transaction_hash != asked {
        return Err(RpcFault::Malformed {
            method: "eth_getTransactionReceipt",
            what: "the receipt of another transaction",
        });
    }
    // Some nodes answer for transactions that are not in a block yet.
    let (Some(number), Some(block_hash)) = (receipt.block_number, receipt.block_hash) else {
        return Ok(None);
    };
    Ok(Some(Receipt {
        tx_hash: receipt.transaction_hash,
        success: receipt.status == U64::from(1),
        block_number: number.to(),
        block_hash,
        logs: receipt.logs,
    }))
}

/// How many transactions of `address` the latest block has consumed: its next nonce.
pub async fn mined_nonce(pool: &RpcPool, address: Address) -> Result<LaneNonce, RpcFault> {
    let count: U64 = pool.read("eth_getTransactionCount", json!([address, "latest"])).await?;
    Ok(LaneNonce(count.to()))
}

/// The same as of block `number`.
pub async fn mined_nonce_at(pool: &RpcPool, address: Address, number: u64) -> Result<LaneNonce, RpcFault> {
    let count: U64 = pool.read("eth_getTransactionCount", json!([address, U64::from(number)])).await?;
    Ok(LaneNonce(count.to()))
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

/// What nodes suggest as a tip, in wei per gas; zero where the method does not exist.
pub async fn suggested_tip(pool: &RpcPool) -> Result<u128, RpcFault> {
    match pool.read_reply::<U128>("eth_maxPriorityFeePerGas", json!([])).await? {
        Reply::Result(tip) => Ok(tip.to()),
        Reply::Error { .. } => Ok(0),
    }
}

/// What nodes of a chain without EIP-1559 suggest as gas price, in wei.
pub async fn gas_price(pool: &RpcPool) -> Result<u128, RpcFault> {
    Ok(pool.read::<U128>("eth_gasPrice", json!([])).await?.to())
}

sol! {
    interface GasPriceOracle {
        function getL1FeeUpperBound(uint256 unsignedTxSize) returns (uint256);
    }
}

/// Where chains of the OP stack keep their oracle.
const GAS_PRICE_ORACLE: Address = address!("420000000000000000000000000000000000000F");

/// What 1024 bytes of a transaction cost on L1 at most, in wei: chains of the OP stack take this fee beside gas, and it is in no
/// gas estimate. Zero on a chain without the oracle.
pub async fn l1_fee_per_kilobyte(pool: &RpcPool) -> Result<U256, RpcFault> {
    let question = GasPriceOracle::getL1FeeUpperBoundCall { unsignedTxSize: U256::from(1024) };
    let params = json!([{ "to": GAS_PRICE_ORACLE, "data": Bytes::from(question.abi_encode()) }, "latest"]);
    Ok(match pool.read_reply::<Bytes>("eth_call", params).await? {
        Reply::Result(word) if word.len() == 32 => U256::from_be_slice(&word),
        // No code there, or an oracle that does not know the question.
        Reply::Result(_) | Reply::Error { .. } => U256::ZERO,
    })
}

/// Logs of `address` with these topics in a range of blocks, both ends included.
pub async fn logs(
    pool: &RpcPool,
    address: Address,
    topics: &[Option<B256>],
    from: u64,
    to: u64,
) -> Result<Vec<Log>, RpcFault> {
    let filter = json!({
        "address": address, "topics": topics, "fromBlock": U64::from(from), "toBlock": U64::from(to),
    });
    pool.read("eth_getLogs", json!([filter])).await
}

/// `DOMAIN_SEPARATOR()` of a token; `None` when the contract does not answer with one word.
pub async fn domain_separator(pool: &RpcPool, token: Address) -> Result<Option<B256>, RpcFault> {
    const SELECTOR: Bytes = Bytes::from_static(&[0x36, 0x44, 0xe5, 0x15]);
    let params = json!([{ "to": token, "data": SELECTOR }, "latest"]);
    Ok(match pool.read_reply::<Bytes>("eth_call", params).await? {
        Reply::Result(word) if word.len() == 32 => Some(B256::from_slice(&word)),
        _ => None,
    })
}

/// `authorizationState(authorizer, nonce)` of a token at the latest block: used or canceled.
pub async fn authorization_state(
    pool: &RpcPool,
    token: Address,
    authorizer: Address,
    nonce: B256,
) -> Result<bool, RpcFault> {
    const SELECTOR: [u8; 4] = [0xe9, 0x4a, 0x01, 0x02];
    let data: Bytes = [&SELECTOR[..], authorizer.into_word().as_slice(), nonce.as_slice()].concat().into();
    let answer: Bytes = pool.read("eth_call", json!([{ "to": token, "data": data }, "latest"])).await?;
    match answer.as_ref() {
        word if word.len() == 32 && word[..31].iter().all(|b| *b == 0) && word[31] <= 1 => Ok(word[31] == 1),
        _ => Err(RpcFault::Malformed { method: "eth_call", what: "authorizationState is not a bool" }),
    }
}

//! Receipts of what was sent.

use super::{Log, ask_each};
use crate::{RpcFault, pool::RpcPool};
use alloy_primitives::{Address, B256, Bloom, U64};
use serde::Deserialize;
use serde_json::{Value, json};

const METHOD: &str = "eth_getTransactionReceipt";
/// Receipts asked for in one round trip.
const BATCH_MAX: usize = 50;

/// A receipt, as far as it matters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Receipt {
    /// Of which transaction.
    pub tx_hash: B256,
    /// Who signed it, if the node says so.
    pub sender: Option<Address>,
    /// It did not revert.
    pub success: bool,
    /// Block it is in.
    pub block_number: u64,
    /// Hash of that block.
    pub block_hash: B256,
    /// What it emitted.
    pub logs: Vec<Log>,
    /// The receipt's own bloom filter knows of no log that is not there. Nothing follows from a log that is missing in another.
    pub is_whole: bool,
}

/// What was learned about a receipt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReceiptRead {
    /// The transaction is in a block.
    Found(Receipt),
    /// It is in no block.
    Absent,
    /// Nobody could say, or not everybody who may know. Not the same as absent: nothing may be concluded from it.
    Unread,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct WireReceipt {
    transaction_hash: B256,
    from: Option<Address>,
    status: U64,
    block_number: Option<U64>,
    block_hash: Option<B256>,
    logs: Vec<Log>,
    logs_bloom: Option<Bloom>,
}

impl WireReceipt {
    /// Every log is of this transaction in this block, as far as it says.
    fn owns_its_logs(&self) -> bool {
        self.logs.iter().all(|log| {
            log.transaction_hash.is_none_or(|hash| hash == self.transaction_hash)
                && log.block_hash.is_none_or(|hash| Some(hash) == self.block_hash)
        })
    }

    fn has_all_its_logs(&self) -> bool {
        let mut bloom = Bloom::ZERO;
        self.logs.iter().for_each(|log| bloom.accrue_raw_log(log.address, &log.topics));
        self.logs_bloom.is_none_or(|of_all| bloom.contains(&of_all))
    }
}

/// A hash and what is known of its receipt.
struct Asked {
    hash: B256,
    read: ReceiptRead,
    /// An endpoint that keeps up has none.
    absent: bool,
    /// An endpoint that may have it did not say.
    in_doubt: bool,
}

impl Asked {
    fn about(hashes: &[B256]) -> Vec<Self> {
        let about =
            |hash: &B256| Self { hash: *hash, read: ReceiptRead::Unread, absent: false, in_doubt: false };
        hashes.iter().map(about).collect()
    }
}

/// Receipts, in the order of `hashes`. The first endpoint that answers for a hash counts; one that cannot be read does not hide
/// the others. A fault only when nothing could be read at all.
pub async fn receipts(pool: &RpcPool, hashes: &[B256]) -> Result<Vec<ReceiptRead>, RpcFault> {
    let mut asked = Asked::about(hashes);
    let mut fault = pool.nobody(METHOD);
    for index in pool.that_keep_up() {
        let mut open: Vec<&mut Asked> =
            asked.iter_mut().filter(|asked| asked.read == ReceiptRead::Unread).collect();
        for chunk in open.chunks_mut(BATCH_MAX) {
            match ask(pool, index, chunk).await {
                Ok(reads) => {
                    chunk.iter_mut().zip(reads).for_each(|(asked, read)| asked.read = read);
                    fault = RpcFault::Malformed { method: METHOD, what: "errors instead of receipts" };
                }
                Err(error) => {
                    fault = error;
                    break;
                }
            }
        }
    }
    let nothing = asked.iter().all(|asked| asked.read == ReceiptRead::Unread);
    if nothing && !asked.is_empty() {
        return Err(fault);
    }
    Ok(asked.into_iter().map(|asked| asked.read).collect())
}

/// The same question put to every endpoint: a lagging one says "none" for ever. The first receipt found counts; "none" only
/// when one that keeps up says so and nobody else may know better. An endpoint that has been out of order for some time is not
/// waited for: what it knows, the chain has told the others.
pub async fn receipts_anywhere(pool: &RpcPool, hashes: &[B256]) -> Vec<ReceiptRead> {
    let mut asked = Asked::about(hashes);
    for index in pool.in_order() {
        let mut open: Vec<&mut Asked> =
            asked.iter_mut().filter(|asked| asked.read == ReceiptRead::Unread).collect();
        let mut failed = false;
        for chunk in open.chunks_mut(BATCH_MAX) {
            let Ok(reads) = ask(pool, index, chunk).await else {
                failed = true;
                break;
            };
            for (asked, read) in chunk.iter_mut().zip(reads) {
                match read {
                    ReceiptRead::Found(_) => asked.read = read,
                    ReceiptRead::Absent => asked.absent |= pool.keeps_up(index),
                    ReceiptRead::Unread => asked.in_doubt = true,
                }
            }
        }
        if failed && !pool.is_out_of_order(index) {
            open.iter_mut().for_each(|asked| asked.in_doubt = true);
        }
    }
    let conclude = |asked: Asked| match asked.read {
        ReceiptRead::Unread if asked.absent && !asked.in_doubt => ReceiptRead::Absent,
        read => read,
    };
    asked.into_iter().map(conclude).collect()
}

/// A receipt that will do, of the first endpoint that has one: what one of them has lost of it, another may still have.
pub async fn receipt_that(pool: &RpcPool, hash: B256, will_do: impl Fn(&Receipt) -> bool) -> Option<Receipt> {
    for index in pool.in_order() {
        let mut asked = Asked::about(&[hash]);
        let asked: Vec<&mut Asked> = asked.iter_mut().collect();
        if let Ok(reads) = ask(pool, index, &asked).await
            && let Some(ReceiptRead::Found(receipt)) = reads.into_iter().next()
            && will_do(&receipt)
        {
            return Some(receipt);
        }
    }
    None
}

/// One endpoint's answers; a fault when it gave none.
async fn ask(pool: &RpcPool, index: usize, asked: &[&mut Asked]) -> Result<Vec<ReceiptRead>, RpcFault> {
    let params: Vec<Value> = asked.iter().map(|asked| json!([asked.hash])).collect();
    let answers: Vec<Option<Option<WireReceipt>>> = ask_each(pool, index, METHOD, &params).await?;
    Ok(answers.into_iter().zip(asked).map(|(answer, asked)| read(answer, asked.hash)).collect())
}

fn read(answer: Option<Option<WireReceipt>>, asked: B256) -> ReceiptRead {
    match answer {
        // An error, or the receipt of another transaction, or with logs of another.
        None => ReceiptRead::Unread,
        Some(Some(receipt)) if receipt.transaction_hash != asked || !receipt.owns_its_logs() => {
            ReceiptRead::Unread
        }
        Some(None) => ReceiptRead::Absent,
        Some(Some(receipt)) => match (receipt.block_number, receipt.block_hash) {
            (Some(number), Some(block_hash)) => ReceiptRead::Found(Receipt {
                tx_hash: receipt.transaction_hash,
                sender: receipt.from,
                is_whole: receipt.has_all_its_logs(),
                success: receipt.status == U64::from(1),
                block_number: number.to(),
                block_hash,
                logs: receipt.logs,
            }),
            // Some nodes answer for transactions that are not in a block yet.
            _ => ReceiptRead::Absent,
        },
    }
}

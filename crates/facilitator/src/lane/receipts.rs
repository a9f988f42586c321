//! What the chain says about every open attempt.

use crate::{fault::Fault, network::NetworkService};
use alloy_primitives::{Address, B256};
use quittance_evm::watch::{self, Head, Receipt, ReceiptRead};
use quittance_store::model::{OpenSlot, OpenWork};
use std::collections::{HashMap, HashSet, hash_map::Entry};

/// Receipts of one pass.
#[derive(Debug, Default)]
pub(crate) struct Receipts {
    known: HashMap<B256, Option<Receipt>>,
    in_doubt: HashSet<B256>,
}

impl Receipts {
    /// The receipt of an attempt, or that no node that could be asked has one. `None`: nobody could say.
    pub(crate) fn of(&self, hash: &B256) -> Option<&Option<Receipt>> {
        self.known.get(hash)
    }

    /// Whether that a slot has no receipt is proven as far as it can be: enough to say that a foreign transaction took its nonce.
    /// Without it the same bytes can be sent again, no more.
    pub(crate) fn are_complete(&self, slot: &OpenSlot) -> bool {
        slot.attempts.iter().all(|attempt| !self.in_doubt.contains(&attempt.signed.hash))
    }
}

/// Asks the preferred endpoint, and about lanes in doubt all others as well for what it does not have.
pub(crate) async fn read(
    service: &NetworkService,
    work: &OpenWork,
    head: Option<Head>,
    is_doubted: impl Fn(&Address) -> bool,
) -> Result<Receipts, Fault> {
    let hashes: Vec<B256> = work.slots.iter().flat_map(hashes_of).collect();
    let mut receipts = Receipts::default();
    for (hash, read) in hashes.iter().zip(watch::receipts(&service.pool, &hashes).await?) {
        match read {
            ReceiptRead::Found(receipt) => receipts.known.insert(*hash, Some(receipt)),
            ReceiptRead::Absent => receipts.known.insert(*hash, None),
            ReceiptRead::Unread => None,
        };
    }
    let mut contested = HashSet::new();
    if service.pool.len() > 1 {
        let doubted = work.slots.iter().filter(|slot| is_doubted(&slot.lane.address));
        let absent: Vec<B256> =
            doubted.flat_map(hashes_of).filter(|hash| receipts.of(hash) == Some(&None)).collect();
        for (hash, read) in absent.iter().zip(watch::receipts_anywhere(&service.pool, &absent).await) {
            match read {
                ReceiptRead::Found(receipt) => {
                    receipts.known.insert(*hash, Some(receipt));
                    contested.insert(*hash);
                }
                ReceiptRead::Absent => {}
                ReceiptRead::Unread => {
                    receipts.in_doubt.insert(*hash);
                }
            }
        }
    }
    drop_orphaned(service, &mut receipts, head, &contested).await;
    Ok(receipts)
}

fn hashes_of(slot: &OpenSlot) -> impl Iterator<Item = B256> {
    slot.attempts.iter().map(|attempt| attempt.signed.hash)
}

/// A receipt can be of a block that is no longer on the chain. With one confirmation it is evidence in itself, as long as no node
/// contradicts it. Beyond that the chain must still have its block, so deep as an outcome needs it, by the word of one node.
async fn drop_orphaned(
    service: &NetworkService,
    receipts: &mut Receipts,
    head: Option<Head>,
    contested: &HashSet<B256>,
) {
    let below = service.confirmations - 1;
    let mut on_chain: HashMap<(u64, B256), Option<bool>> = HashMap::new();
    let (mut gone, mut unread) = (Vec::new(), Vec::new());
    for (hash, receipt) in &receipts.known {
        let Some(receipt) = receipt else { continue };
        let block = (receipt.block_number, receipt.block_hash);
        let deep = receipt.block_number.saturating_add(below);
        let at_depth = head.is_some_and(|head| head.number >= deep);
        if !contested.contains(hash) && (below == 0 || !at_depth) {
            continue;
        }
        if let Entry::Vacant(entry) = on_chain.entry(block) {
            let mut blocks = vec![(receipt.block_number, Some(receipt.block_hash))];
            blocks.extend((at_depth && below > 0).then_some((deep, None)));
            entry.insert(watch::on_one_chain(&service.pool, &blocks).await.ok());
        }
        match on_chain.get(&block).copied().flatten() {
            Some(true) => {}
            Some(false) => gone.push(*hash),
            None => unread.push(*hash),
        }
    }
    for hash in gone {
        receipts.known.insert(hash, None);
        receipts.in_doubt.insert(hash);
    }
    for hash in unread {
        receipts.known.remove(&hash);
    }
}

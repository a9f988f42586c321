//! Which of several ways a node understands, from the best to the plainest, and remembering it.

use super::{METHOD, Questions, Reading, calls, lens, malformed, multicall, node::Node};
use crate::{RpcFault, pool::RpcPool};
use alloy_primitives::U64;
use quittance_protocol::payee::Block;
use serde_json::json;
use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};
use tokio::time::Instant;

/// How to ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// The lens, pinned to the hash (EIP-1898).
    LensByHash,
    /// The lens, where a node takes no hashes.
    LensByNumber,
    /// Multicall3, where it runs no creation code.
    Multicall,
    /// Call by call, where there is no Multicall3 either.
    Calls,
}

/// Which way the nodes of one registry's chain understood. It is believed for five minutes: long enough that a chain that
/// runs no creation code is not asked to for every agent, and short enough that one failure changes nothing for good.
#[derive(Debug, Default)]
pub struct Ways(Mutex<Option<(Way, Instant)>>);

impl Ways {
    const KEPT: Duration = Duration::from_secs(300);
    const ALL: [Way; 4] = [Way::LensByHash, Way::LensByNumber, Way::Multicall, Way::Calls];

    fn learned(&self, now: Instant) -> Option<Way> {
        let learned = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        learned.filter(|(_, since)| now.saturating_duration_since(*since) < Self::KEPT).map(|(way, _)| way)
    }

    /// The one that worked, then the others.
    fn in_order(&self, now: Instant) -> impl Iterator<Item = Way> {
        let first = self.learned(now);
        first.into_iter().chain(Self::ALL.into_iter().filter(move |way| Some(*way) != first))
    }

    /// From now on, and no longer for being used.
    fn learn(&self, way: Way, now: Instant) {
        if self.learned(now) != Some(way) {
            *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some((way, now));
        }
    }
}

/// What one node said.
pub(super) struct Attempt {
    pub(super) reading: Reading,
    /// Something is unread because the node failed, and not because of what a contract answered.
    pub(super) is_partial: bool,
}

/// Why a node said nothing.
enum Failed {
    /// It may understand another way.
    Way(RpcFault),
    /// It is of no use for this reading.
    Node(RpcFault),
}

impl From<RpcFault> for Failed {
    fn from(fault: RpcFault) -> Self {
        match fault {
            RpcFault::Timeout { .. } | RpcFault::WrongChain { .. } => Self::Node(fault),
            fault => Self::Way(fault),
        }
    }
}

/// Reads everything `questions` asks at `block`: each way on each node, until a node answers all of it.
pub async fn read(
    pool: &RpcPool,
    ways: &Ways,
    block: &Block,
    questions: &Questions,
    now: Instant,
) -> Result<Reading, RpcFault> {
    let mut nodes = Node::all(pool);
    let mut fault = pool.nobody(METHOD);
    for way in ways.in_order(now) {
        let mut partial = None;
        let mut useful = Vec::with_capacity(nodes.len());
        for node in nodes {
            match way.read(&node, block, questions).await {
                Ok(Attempt { reading, is_partial: false }) => {
                    ways.learn(way, now);
                    return Ok(reading);
                }
                Ok(attempt) => partial = partial.or(Some(attempt.reading)),
                Err(Failed::Way(error)) => {
                    fault = error;
                    useful.push(node);
                }
                Err(Failed::Node(error)) => fault = error,
            }
        }
        if let Some(reading) = partial {
            return Ok(reading);
        }
        nodes = useful;
    }
    Err(fault)
}

impl Way {
    async fn read(self, node: &Node<'_>, block: &Block, questions: &Questions) -> Result<Attempt, Failed> {
        let by_number = json!(U64::from(block.number));
        let attempt = match self {
            Self::LensByHash => {
                let by_hash = json!({ "blockHash": block.hash, "requireCanonical": true });
                return Ok(lens::read(node, &by_hash, questions).await?);
            }
            Self::LensByNumber => lens::read(node, &by_number, questions).await?,
            Self::Multicall => multicall::read(node, &by_number, questions).await?,
            Self::Calls => calls::read(node, &by_number, questions).await?,
        };
        // A number is not a block: this was read at it only if the number still has its hash.
        match node.hash_of(block.number).await {
            Ok(hash) if hash == Some(block.hash) => Ok(attempt),
            Ok(_) => Err(Failed::Node(malformed("the block was replaced while it was read"))),
            Err(fault) => Err(Failed::Node(fault)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_way_is_believed_for_five_minutes_from_when_it_was_found() {
        #[allow(clippy::disallowed_methods)] // a time to count from
        let start = Instant::now();
        let after = |seconds| start + Duration::from_secs(seconds);
        let (ways, first) = (Ways::default(), |ways: &Ways, now| ways.in_order(now).collect::<Vec<_>>());
        assert_eq!(first(&ways, start), Ways::ALL);
        ways.learn(Way::Multicall, start);
        ways.learn(Way::Multicall, after(200));
        let multicall = [Way::Multicall, Way::LensByHash, Way::LensByNumber, Way::Calls];
        assert_eq!(first(&ways, after(299)), multicall);
        assert_eq!(first(&ways, after(300)), Ways::ALL);
        ways.learn(Way::Multicall, after(300));
        assert_eq!(first(&ways, after(599)), multicall);
        ways.learn(Way::LensByHash, after(599));
        assert_eq!(first(&ways, after(600)), Ways::ALL);
    }
}

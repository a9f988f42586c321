//! What becomes of a payment: the real binary between a real node and a real database, on good days and on bad ones.
//!
//! Every test asserts what moved on chain, what callers were told, and what the row says.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail like tests")]

#[macro_use]
mod support;

mod ages;
mod clocks;
mod costs;
mod cover;
mod crash;
mod crash_matrix;
mod crowd;
mod endpoints;
mod evidence;
mod fairness;
mod foreign;
mod gone;
mod grants;
mod hashes;
mod identifiers;
mod kept;
mod lanes;
mod late;
mod mempool;
mod metrics;
mod next_block;
mod operator;
mod outages;
mod rebroadcast;
mod reorganisation;
mod replicas;
mod reservations;
mod rollup;
mod room;
mod round_trips;
mod severed;
mod shutdown;
mod stale_node;
mod strangers;
mod swarm;
mod tokens;
mod undone;
mod websocket;
mod wedges;

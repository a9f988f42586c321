//! Whom a payment is for, from the outside: the real binary, a registry on a real chain, and a real web server for
//! registration files.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails, in its helpers too")]

mod agents;
#[path = "../../../protocol/tests/payee/dag.rs"]
#[allow(dead_code, unreachable_pub, reason = "written for the tests of the protocol")]
mod dag;
mod files;
mod stage;
mod world;

mod blocks;
mod commands;
mod faults;
mod forbidden;
mod ipfs;
mod limits;
mod nodes;
mod origins;
mod outcomes;
mod pairs;
mod payments;
mod round_trips;
mod vectors;
mod web;

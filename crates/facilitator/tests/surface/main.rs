//! The server from the outside: what it makes of every bad input, of a chain that fails it, of hostile tokens and
//! wallets, and of bad settings. Everything goes through the real binary; the chain is the witness.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails, in its helpers too")]

mod support;

mod config;
mod faults;
mod input;
mod rules;
mod secrets;
mod transport;

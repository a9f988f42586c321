//! The x402 protocol as pure functions: wire types, rules, settlement state machine. No I/O, no clock.

pub mod code;
pub mod facts;
pub mod interop;
pub mod payee;
pub mod payment;
pub mod rules;
pub mod scheme;
pub mod settlement;
pub mod signature;
mod text;
pub mod units;
pub mod wire;

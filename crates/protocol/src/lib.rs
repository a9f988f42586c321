//! The x402 protocol as pure functions: wire types, rules, settlement state machine. No I/O, no clock.

pub mod code;
pub mod settlement;
pub mod units;

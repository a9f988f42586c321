//! The rules over HTTP, with the chain as witness: what is accepted executes when anybody sends it, and what is refused
//! as bad reverts.

pub(crate) mod cast;
mod factories;
mod five;
mod signatures;
mod starved;
mod time;
mod tokens;
mod undeployed;
mod wallets;

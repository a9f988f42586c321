//! An ERC-8004 registry on a real chain, read through nodes that understand less and less.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails, in its helpers too")]

mod stage;

mod hostile;
mod nodes;
mod ways;

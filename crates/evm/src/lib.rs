//! The only crate that speaks JSON-RPC.

//! Blocks of files on IPFS, their identifiers, and what they make together.
#![no_main]

#[path = "../../crates/protocol/tests/corpus/checks/mod.rs"]
#[allow(dead_code, reason = "each target makes one of the checks")]
mod checks;

libfuzzer_sys::fuzz_target!(|input: &[u8]| checks::ipfs::check(input));

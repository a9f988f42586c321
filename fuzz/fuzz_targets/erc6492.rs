//! Signature bytes.
#![no_main]

#[path = "../../crates/protocol/tests/corpus/checks/mod.rs"]
#[allow(dead_code, reason = "each target makes one of the checks")]
mod checks;

libfuzzer_sys::fuzz_target!(|input: &[u8]| checks::erc6492::check(input));

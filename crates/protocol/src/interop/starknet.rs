//! Starknet addresses: 32 bytes below 2^251, written with a mixed-case checksum of their own.

use alloy_primitives::{hex, keccak256};

/// Addresses live in the storage trie, which has 251 levels.
pub(super) fn is_address(bytes: &[u8; 32]) -> bool {
    bytes[0] < 0x08
}

/// `0x` and 64 digits; where the hash of the number has a nibble of 8 or more, the digit is upper case. The hash is
/// keccak of the number without leading zero bytes. Starknet cuts it to 250 bits, which takes nothing away here: the first
/// two digits of an address are never letters.
pub(super) fn to_text(bytes: &[u8; 32]) -> String {
    let first = bytes.iter().position(|byte| *byte != 0).unwrap_or(bytes.len() - 1);
    let digits = hex::encode(bytes);
    let marks = hex::encode(keccak256(&bytes[first..]));
    let marked = digits.chars().zip(marks.bytes()).map(|(digit, mark)| match mark {
        b'8'..=b'9' | b'a'..=b'f' => digit.to_ascii_uppercase(),
        _ => digit,
    });
    "0x".chars().chain(marked).collect()
}

//! Starknet addresses: 32 bytes below 2^251, written with a mixed-case checksum of their own.

use alloy_primitives::{hex, keccak256};

/// Addresses live in the storage trie, which has 251 levels.
pub(super) fn is_address(bytes: &[u8; 32]) -> bool {
    bytes[0] < 0x08
}

/// `0x` and 64 digits; where the hash of the number has a nibble of 8 or more, the digit is upper case. The hash is
/// Starknet's: keccak of the number without leading zero bytes, cut to 250 bits.
pub(super) fn to_text(bytes: &[u8; 32]) -> String {
    let first = bytes.iter().position(|byte| *byte != 0).unwrap_or(bytes.len() - 1);
    let mut hash = keccak256(&bytes[first..]);
    hash[0] &= 0x03;
    let digits = hex::encode(bytes);
    let marks = hex::encode(hash);
    let marked = digits.chars().zip(marks.bytes()).map(|(digit, mark)| match mark {
        b'8'..=b'9' | b'a'..=b'f' => digit.to_ascii_uppercase(),
        _ => digit,
    });
    "0x".chars().chain(marked).collect()
}

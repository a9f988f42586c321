//! Signature bytes: twins, wrappers, broken wrappers, and a second reader of wrappers.

use alloy_primitives::{Address, B256, U256, uint};

pub const ORDER: U256 = uint!(0xfffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141_U256);
pub const SUFFIX: [u8; 32] = {
    let mut suffix = [0x64; 32];
    let mut i = 1;
    while i < 32 {
        suffix[i] = 0x92;
        i += 2;
    }
    suffix
};

/// `(r, n - s)` and the other parity: the same key over the same digest.
pub fn high_s_twin(low: &[u8; 65]) -> [u8; 65] {
    let mut twin = *low;
    let s = U256::from_be_slice(&low[32..64]);
    twin[32..64].copy_from_slice(&(ORDER - s).to_be_bytes::<32>());
    twin[64] = if low[64] == 27 { 28 } else { 27 };
    twin
}

/// What the precompile answers: no opinion on the size of `s`, `v` must be 27 or 28.
pub fn ecrecover(digest: B256, signature: &[u8]) -> Option<Address> {
    let word = |at: usize| U256::from_be_slice(&signature[at..at + 32]);
    let (r, s, v) = (word(0), word(32), signature[64]);
    let in_range = |x: U256| !x.is_zero() && x < ORDER;
    if signature.len() != 65 || !matches!(v, 27 | 28) || !in_range(r) || !in_range(s) {
        return None;
    }
    alloy_primitives::Signature::new(r, s, v == 28).recover_address_from_prehash(&digest).ok()
}

fn word(n: usize) -> [u8; 32] {
    U256::from(n).to_be_bytes()
}

fn padded(bytes: &[u8]) -> Vec<u8> {
    let mut out = bytes.to_vec();
    out.resize(bytes.len().div_ceil(32) * 32, 0);
    out
}

/// `abi.encode(factory, calldata, inner)` without the suffix.
pub fn wrapper_body(factory: Address, calldata: &[u8], inner: &[u8]) -> Vec<u8> {
    let (calldata_tail, inner_tail) = (padded(calldata), padded(inner));
    [
        factory.into_word().as_slice(),
        &word(96),
        &word(128 + calldata_tail.len()),
        &word(calldata.len()),
        &calldata_tail,
        &word(inner.len()),
        &inner_tail,
    ]
    .concat()
}

/// A canonical ERC-6492 wrapper.
pub fn wrapper(factory: Address, calldata: &[u8], inner: &[u8]) -> Vec<u8> {
    [wrapper_body(factory, calldata, inner), SUFFIX.to_vec()].concat()
}

/// Ways to write a wrapper that a lenient decoder takes and a strict one does not.
pub fn miswritten(encoding: &str, factory: Address, calldata: &[u8], inner: &[u8]) -> Vec<u8> {
    let mut body = wrapper_body(factory, calldata, inner);
    let inner_offset = 128 + padded(calldata).len();
    match encoding {
        "canonical" => {}
        "suffix-only" => body.clear(),
        "trailing-byte" => body.push(0),
        "trailing-word" => body.extend([0; 32]),
        "truncated" => body.truncate(body.len() - 32),
        "dirty-address" => body[11] = 1,
        "dirty-padding" => *body.last_mut().expect("a body") = 1,
        "odd-offset" => {
            // The tail of the inner signature one byte later, which its offset says.
            body.insert(inner_offset, 0);
            body[64..96].copy_from_slice(&word(inner_offset + 1));
        }
        "gap" => {
            body.splice(inner_offset..inner_offset, [0; 32]);
            body[64..96].copy_from_slice(&word(inner_offset + 32));
        }
        "swapped-tails" => {
            let first = [word(inner.len()).to_vec(), padded(inner)].concat();
            let second = [word(calldata.len()).to_vec(), padded(calldata)].concat();
            body.truncate(32);
            body.extend(word(96 + first.len()));
            body.extend(word(96));
            body.extend(first);
            body.extend(second);
        }
        "shared-tail" => {
            // Both fields point at the inner signature.
            body[32..64].copy_from_slice(&word(inner_offset));
        }
        "huge-offset" => body[64..96].copy_from_slice(&[0xff; 32]),
        "huge-length" => body[inner_offset..inner_offset + 32].copy_from_slice(&[0xff; 32]),
        "tuple" => {
            // abi.encode of one dynamic tuple: everything behind an offset of 32.
            body.splice(0..0, word(32));
        }
        other => panic!("no such encoding: {other}"),
    }
    body.extend(SUFFIX);
    body
}

/// What a second reader makes of signature bytes.
#[derive(Debug, PartialEq, Eq)]
pub enum Read {
    Ecdsa,
    Wrapper { factory: Address, calldata: Vec<u8>, inner: Vec<u8> },
    Malformed,
    Opaque,
}

/// Reads signature bytes field by field, with no ABI library.
pub fn read(bytes: &[u8]) -> Read {
    match bytes.strip_suffix(&SUFFIX) {
        Some(body) => read_body(body).unwrap_or(Read::Malformed),
        None if bytes.len() == 65 => Read::Ecdsa,
        None => Read::Opaque,
    }
}

fn read_body(body: &[u8]) -> Option<Read> {
    let number = |at: usize| -> Option<usize> {
        usize::try_from(U256::from_be_slice(body.get(at..at.checked_add(32)?)?)).ok()
    };
    let tail = |at: usize| -> Option<(Vec<u8>, usize)> {
        let (length, start) = (number(at)?, at + 32);
        let bytes = body.get(start..start.checked_add(length)?)?;
        let end = start + length.checked_next_multiple_of(32)?;
        body.get(start + length..end)?.iter().all(|b| *b == 0).then(|| (bytes.to_vec(), end))
    };
    if body.get(..12)?.iter().any(|b| *b != 0) || number(32)? != 96 {
        return None;
    }
    let (calldata, calldata_end) = tail(96)?;
    if number(64)? != calldata_end {
        return None;
    }
    let (inner, inner_end) = tail(calldata_end)?;
    if inner_end != body.len() || inner.ends_with(&SUFFIX) {
        return None;
    }
    Some(Read::Wrapper { factory: Address::from_slice(&body[12..32]), calldata, inner })
}

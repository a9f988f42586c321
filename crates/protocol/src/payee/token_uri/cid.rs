//! Content identifiers: enough to tell one from a host name, and to check bytes against it.

use std::fmt;

/// A CID of version 0 or 1.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Cid {
    text: String,
    codec: u64,
    hash_code: u64,
    digest: Vec<u8>,
}

impl Cid {
    /// Multicodec `dag-pb`, the codec of version 0.
    pub const DAG_PB: u64 = 0x70;
    /// Multicodec `raw`.
    pub const RAW: u64 = 0x55;
    /// Multihash `sha2-256`, the hash of version 0.
    pub const SHA2_256: u64 = 0x12;

    const TEXT_BYTES_MAX: usize = 128;

    /// Version 0 in base58; version 1 in base32 or base58, the two in use.
    pub fn parse(text: &str) -> Option<Self> {
        if text.len() > Self::TEXT_BYTES_MAX {
            return None;
        }
        let (codec, multihash) = if text.len() == 46 && text.starts_with("Qm") {
            (Self::DAG_PB, base58(text)?)
        } else {
            let bytes = match text.split_at_checked(1)? {
                ("b", symbols) => base32(symbols.as_bytes())?,
                ("B", symbols) if !symbols.bytes().any(|b| b.is_ascii_lowercase()) => {
                    base32(symbols.to_ascii_lowercase().as_bytes())?
                }
                ("z", symbols) => base58(symbols)?,
                _ => return None,
            };
            let (version, rest) = varint(&bytes)?;
            let (codec, rest) = varint(rest)?;
            if version != 1 {
                return None;
            }
            (codec, rest.to_vec())
        };
        let (hash_code, rest) = varint(&multihash)?;
        let (length, digest) = varint(rest)?;
        let is_whole = usize::try_from(length) == Ok(digest.len()) && !digest.is_empty();
        is_whole.then(|| Self { text: text.into(), codec, hash_code, digest: digest.to_vec() })
    }

    /// As it was written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Multicodec of the block it names.
    pub fn codec(&self) -> u64 {
        self.codec
    }

    /// Multihash code of [`Self::digest`].
    pub fn hash_code(&self) -> u64 {
        self.hash_code
    }

    /// Hash of the block it names.
    pub fn digest(&self) -> &[u8] {
        &self.digest
    }
}

impl fmt::Debug for Cid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Display for Cid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

fn base58(text: &str) -> Option<Vec<u8>> {
    bs58::decode(text).into_vec().ok()
}

/// RFC 4648 in lower case, without padding; the bits left over must be zero.
fn base32(symbols: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(symbols.len() * 5 / 8);
    let (mut bits, mut count) = (0_u32, 0_u32);
    for symbol in symbols {
        let value = match symbol {
            b'a'..=b'z' => symbol - b'a',
            b'2'..=b'7' => symbol - b'2' + 26,
            _ => return None,
        };
        bits = (bits << 5) | u32::from(value);
        count += 5;
        if count >= 8 {
            count -= 8;
            let [.., byte] = (bits >> count).to_be_bytes();
            bytes.push(byte);
            bits &= (1 << count) - 1;
        }
    }
    (count < 5 && bits == 0).then_some(bytes)
}

/// An unsigned LEB128 number in its shortest form.
fn varint(bytes: &[u8]) -> Option<(u64, &[u8])> {
    const BYTES_MAX: usize = 9;
    let end = bytes.iter().take(BYTES_MAX).position(|byte| byte & 0x80 == 0)?;
    let (digits, rest) = bytes.split_at_checked(end + 1)?;
    if end > 0 && digits.last() == Some(&0) {
        return None;
    }
    let number = digits.iter().rev().fold(0_u64, |number, byte| (number << 7) | u64::from(byte & 0x7f));
    Some((number, rest))
}

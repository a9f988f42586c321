//! Content identifiers: enough to tell one from a host name, and to check bytes against it.

use sha2::{Digest, Sha256};
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
    /// Multihash `identity`: the digest is the block.
    pub const IDENTITY: u64 = 0;

    /// Room for 128 bytes of identity, which is as many as are in use.
    const TEXT_BYTES_MAX: usize = 256;

    /// Version 0 in base58; version 1 in base32 or base58, the two in use.
    pub fn parse(text: &str) -> Option<Self> {
        if text.len() > Self::TEXT_BYTES_MAX {
            return None;
        }
        if text.len() == 46 && text.starts_with("Qm") {
            return Self::of(text.into(), Self::DAG_PB, &base58(text)?);
        }
        let bytes = match text.split_at_checked(1)? {
            ("b", symbols) => base32(symbols.as_bytes())?,
            ("B", symbols) if !symbols.bytes().any(|b| b.is_ascii_lowercase()) => {
                base32(symbols.to_ascii_lowercase().as_bytes())?
            }
            ("z", symbols) => base58(symbols)?,
            _ => return None,
        };
        Self::version_1(text.into(), &bytes)
    }

    /// As it stands in a link.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        const VERSION_0_BYTES: usize = 34;
        if bytes.len() == VERSION_0_BYTES && bytes.starts_with(&[0x12, 32]) {
            return Self::of(bs58::encode(bytes).into_string(), Self::DAG_PB, bytes);
        }
        let text = format!("b{}", to_base32(bytes));
        if text.len() > Self::TEXT_BYTES_MAX { None } else { Self::version_1(text, bytes) }
    }

    fn version_1(text: String, bytes: &[u8]) -> Option<Self> {
        let (version, rest) = varint(bytes)?;
        let (codec, multihash) = varint(rest)?;
        if version == 1 { Self::of(text, codec, multihash) } else { None }
    }

    fn of(text: String, codec: u64, multihash: &[u8]) -> Option<Self> {
        let (hash_code, rest) = varint(multihash)?;
        let (length, digest) = varint(rest)?;
        let is_whole = usize::try_from(length) == Ok(digest.len()) && !digest.is_empty();
        is_whole.then(|| Self { text, codec, hash_code, digest: digest.to_vec() })
    }

    /// Whether this is the block it names. Never, if [`Self::is_provable`] is not.
    pub fn names(&self, block: &[u8]) -> bool {
        match self.hash_code {
            Self::SHA2_256 => Sha256::digest(block)[..] == self.digest,
            Self::IDENTITY => self.digest == block,
            _ => false,
        }
    }

    /// Whether hash and codec are among those that can be checked and read here.
    pub fn is_provable(&self) -> bool {
        [Self::SHA2_256, Self::IDENTITY].contains(&self.hash_code)
            && [Self::RAW, Self::DAG_PB].contains(&self.codec)
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

fn to_base32(bytes: &[u8]) -> String {
    const SYMBOLS: [char; 32] = [
        'a', 'b', 'c', 'd', 'e', 'f', 'g', 'h', 'i', 'j', 'k', 'l', 'm', 'n', 'o', 'p', 'q', 'r', 's', 't',
        'u', 'v', 'w', 'x', 'y', 'z', '2', '3', '4', '5', '6', '7',
    ];
    bytes
        .chunks(5)
        .flat_map(|bytes| {
            let bits = bytes.iter().fold(0_u64, |bits, byte| (bits << 8) | u64::from(*byte));
            let bits = bits << (8 * (5 - bytes.len()));
            let symbols = (bytes.len() * 8).div_ceil(5);
            (0..symbols).map(move |symbol| bits >> (35 - 5 * symbol) & 31)
        })
        .filter_map(|five| SYMBOLS.get(usize::try_from(five).ok()?))
        .collect()
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

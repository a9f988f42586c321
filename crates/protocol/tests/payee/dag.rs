//! Blocks of IPFS, written by hand: what other implementations write, and what none would.

use sha2::{Digest, Sha256};

pub const RAW: u8 = 0;
pub const DIRECTORY: u8 = 1;
pub const FILE: u8 = 2;
pub const METADATA: u8 = 3;
pub const SYMLINK: u8 = 4;
pub const SHARD: u8 = 5;

pub fn varint(mut number: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while number > 0x7f {
        bytes.push(number.to_le_bytes()[0] | 0x80);
        number >>= 7;
    }
    bytes.push(number.to_le_bytes()[0]);
    bytes
}

pub fn number(field: u8, number: u64) -> Vec<u8> {
    [vec![field << 3], varint(number)].concat()
}

pub fn bytes(field: u8, bytes: &[u8]) -> Vec<u8> {
    [vec![field << 3 | 2], varint(bytes.len().try_into().expect("short")), bytes.to_vec()].concat()
}

/// A UnixFS message; what is `None` or empty is left out.
pub fn unixfs(kind: u8, data: Option<&[u8]>, size: Option<u64>, parts: &[u64]) -> Vec<u8> {
    let mut message = number(1, kind.into());
    message.extend(data.into_iter().flat_map(|data| bytes(2, data)));
    message.extend(size.into_iter().flat_map(|size| number(3, size)));
    message.extend(parts.iter().flat_map(|part| number(4, *part)));
    message
}

pub fn link(cid: &[u8], name: &str) -> Vec<u8> {
    bytes(2, &[bytes(1, cid), bytes(2, name.as_bytes()), number(3, 0)].concat())
}

/// A `dag-pb` block.
pub fn node(links: &[(Vec<u8>, &str)], unixfs: &[u8]) -> Vec<u8> {
    let links: Vec<u8> = links.iter().flat_map(|(cid, name)| link(cid, name)).collect();
    [links, bytes(1, unixfs)].concat()
}

/// A file of one block.
pub fn leaf(data: &[u8]) -> Vec<u8> {
    node(&[], &unixfs(FILE, Some(data), Some(data.len().try_into().expect("short")), &[]))
}

/// A file of these parts, whose sizes are claimed.
pub fn file(parts: &[(Vec<u8>, u64)]) -> Vec<u8> {
    let links: Vec<_> = parts.iter().map(|(cid, _)| (cid.clone(), "")).collect();
    let sizes: Vec<_> = parts.iter().map(|(_, size)| *size).collect();
    node(&links, &unixfs(FILE, None, Some(sizes.iter().sum()), &sizes))
}

/// A directory.
pub fn directory(entries: &[(Vec<u8>, &str)]) -> Vec<u8> {
    node(entries, &unixfs(DIRECTORY, None, None, &[]))
}

/// Version 1, `dag-pb`, SHA-256.
pub fn cid(block: &[u8]) -> Vec<u8> {
    [&[1, 0x70, 0x12, 32], &Sha256::digest(block)[..]].concat()
}

/// Version 1, `raw`, SHA-256.
pub fn raw_cid(block: &[u8]) -> Vec<u8> {
    [&[1, 0x55, 0x12, 32], &Sha256::digest(block)[..]].concat()
}

/// Version 1, `raw`, of bytes that are their own hash.
pub fn inline_cid(block: &[u8]) -> Vec<u8> {
    [vec![1, 0x55, 0], varint(block.len().try_into().expect("short")), block.to_vec()].concat()
}

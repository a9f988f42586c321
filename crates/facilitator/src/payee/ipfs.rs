//! Whether bytes are those a content identifier names. Checked for files of one block hashed with SHA-256, which is nearly
//! every registration file; for the rest the gateway has to be believed, and the answer says so (spec/payee.md §2.7).

use quittance_protocol::payee::Cid;
use sha2::{Digest, Sha256};

/// What has to be asked of a gateway to be able to check its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Proof {
    /// The file is the block.
    File,
    /// The file is in the block.
    Block,
    /// None.
    None,
}

/// What can be proven of `cid/path`: below a root the way leads through other blocks.
pub(super) fn proof_of(cid: &Cid, path: &str) -> Proof {
    match (path, cid.hash_code(), cid.codec()) {
        ("", Cid::SHA2_256, Cid::RAW) => Proof::File,
        ("", Cid::SHA2_256, Cid::DAG_PB) => Proof::Block,
        _ => Proof::None,
    }
}

/// Whether this is the block.
pub(super) fn is_block(cid: &Cid, bytes: &[u8]) -> bool {
    cid.hash_code() == Cid::SHA2_256 && Sha256::digest(bytes)[..] == *cid.digest()
}

/// The file in a UnixFS block that has no further blocks.
pub(super) fn file_of(block: &[u8]) -> Option<Vec<u8>> {
    const NODE_DATA: u64 = 1;
    const NODE_LINKS: u64 = 2;
    const UNIXFS_TYPE: u64 = 1;
    const UNIXFS_DATA: u64 = 2;
    const RAW_OR_FILE: [u64; 2] = [0, 2];
    let node = fields(block)?;
    if node.iter().any(|(number, _)| *number == NODE_LINKS) {
        return None;
    }
    let unixfs = fields(bytes_of(&node, NODE_DATA)?)?;
    let kind = unixfs.iter().find_map(|(number, field)| match field {
        Field::Number(kind) if *number == UNIXFS_TYPE => Some(*kind),
        _ => None,
    })?;
    let data = bytes_of(&unixfs, UNIXFS_DATA).unwrap_or_default();
    RAW_OR_FILE.contains(&kind).then(|| data.to_vec())
}

enum Field<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

fn bytes_of<'a>(fields: &[(u64, Field<'a>)], wanted: u64) -> Option<&'a [u8]> {
    fields.iter().find_map(|(number, field)| match field {
        Field::Bytes(bytes) if *number == wanted => Some(*bytes),
        _ => None,
    })
}

/// The fields of a protobuf message of varints and byte strings, which is all UnixFS uses for files.
fn fields(mut message: &[u8]) -> Option<Vec<(u64, Field<'_>)>> {
    let mut fields = Vec::new();
    while !message.is_empty() {
        let (tag, rest) = varint(message)?;
        let (number, kind) = (tag >> 3, tag & 7);
        message = match kind {
            0 => {
                let (value, rest) = varint(rest)?;
                fields.push((number, Field::Number(value)));
                rest
            }
            2 => {
                let (length, rest) = varint(rest)?;
                let (bytes, rest) = rest.split_at_checked(usize::try_from(length).ok()?)?;
                fields.push((number, Field::Bytes(bytes)));
                rest
            }
            _ => return None,
        };
    }
    Some(fields)
}

fn varint(bytes: &[u8]) -> Option<(u64, &[u8])> {
    const BYTES_MAX: usize = 9;
    let end = bytes.iter().take(BYTES_MAX).position(|byte| byte & 0x80 == 0)?;
    let (digits, rest) = bytes.split_at_checked(end + 1)?;
    Some((digits.iter().rev().fold(0, |number, byte| (number << 7) | u64::from(byte & 0x7f)), rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `ipfs add` of "hello world\n", as in every tutorial.
    const HELLO: &str = "QmT78zSuBmuS4z925WZfrqQ1qHaJ56DQaTfyMUF7F8ff5o";
    const BLOCK: &[u8] = b"\x0a\x12\x08\x02\x12\x0chello world\n\x18\x0c";

    #[test]
    fn a_block_is_known_by_its_hash_and_holds_its_file() {
        let cid = Cid::parse(HELLO).unwrap();
        assert_eq!(proof_of(&cid, ""), Proof::Block);
        assert_eq!(proof_of(&cid, "agent.json"), Proof::None);
        assert!(is_block(&cid, BLOCK));
        assert!(!is_block(&cid, b"hello world\n"));
        assert_eq!(file_of(BLOCK).as_deref(), Some(&b"hello world\n"[..]));
    }

    #[test]
    fn a_raw_block_is_the_file() {
        let cid = Cid::parse("bafkreifzjut3te2nhyekklss27nh3k72ysco7y32koao5eei66wof36n5e").unwrap();
        assert_eq!(proof_of(&cid, ""), Proof::File);
        assert!(is_block(&cid, b"hello world"));
        assert!(!is_block(&cid, b"hello world\n"));
    }

    #[test]
    fn what_is_no_whole_file_is_none() {
        // A directory, a node with links, and what is no message at all.
        for block in [
            &b"\x0a\x02\x08\x01"[..],
            b"\x12\x00\x0a\x04\x08\x02\x12\x00",
            b"",
            b"\xff",
            b"\x0a\x05\x08",
            b"{}",
        ] {
            assert_eq!(file_of(block), None);
        }
    }
}

//! Files on IPFS: as JavaScript's own implementation builds and reads them, and as only an enemy would.

use crate::{
    dag::{
        DIRECTORY, FILE, METADATA, RAW, SHARD, SYMLINK, bytes, cid, directory, file, inline_cid, leaf, link,
        node, number, raw_cid, unixfs, varint,
    },
    support::{data, list, text},
};
use base64::{Engine, engine::general_purpose::STANDARD};
use quittance_protocol::payee::{BLOCK_BYTES_MAX, Cid, FILE_BYTES_MAX, IpfsError, IpfsFile};
use std::collections::{BTreeMap, BTreeSet};

/// Blocks by identifier.
type Store = BTreeMap<String, Vec<u8>>;

/// The file, and which blocks were asked for.
fn read(store: &Store, root: &Cid, path: &str) -> (Result<Vec<u8>, IpfsError>, Vec<String>) {
    let mut asked = Vec::new();
    let result = (|| {
        let mut file = IpfsFile::new(root, path)?;
        while let Some(cid) = file.wanted() {
            asked.push(cid.to_string());
            let block = store.get(cid.as_str()).unwrap_or_else(|| panic!("{cid} is not among the blocks"));
            file.give(block)?;
        }
        Ok(file.into_bytes().expect("whole"))
    })();
    (result, asked)
}

/// A store of these blocks, under the identifier that links to them have.
fn store<'a>(blocks: impl IntoIterator<Item = &'a [u8]>) -> Store {
    let named = |block: &[u8]| {
        [cid(block), raw_cid(block)].map(|cid| (Cid::from_bytes(&cid).unwrap().to_string(), block.to_vec()))
    };
    blocks.into_iter().flat_map(named).collect()
}

fn root_of(block: &[u8]) -> Cid {
    Cid::from_bytes(&cid(block)).unwrap()
}

/// What comes of a root and the blocks below it.
fn made(root: &[u8], below: &[&[u8]], path: &str) -> Result<Vec<u8>, IpfsError> {
    read(&store(below.iter().copied().chain([root])), &root_of(root), path).0
}

fn refused(root: &[u8]) -> IpfsError {
    made(root, &[], "").unwrap_err()
}

#[test]
fn what_another_implementation_builds_is_read_as_it_reads_it() {
    let facts = data("ipfs/blocks");
    let blocks: Store = facts["blocks"]
        .as_object()
        .unwrap()
        .iter()
        .map(|(cid, block)| (cid.clone(), STANDARD.decode(block.as_str().unwrap()).unwrap()))
        .collect();
    let cases = list(&facts, "cases");
    assert!(cases.len() > 20);
    for case in cases {
        let name = text(case, "/name").unwrap();
        let cid = Cid::parse(text(case, "/cid").unwrap()).unwrap();
        let (file, asked) = read(&blocks, &cid, text(case, "/path").unwrap());
        let expected = match text(case, "/reason") {
            None => Ok(text(case, "/file").unwrap().as_bytes().to_vec()),
            Some("nothing there") => Err(IpfsError::NothingThere),
            Some("a directory") => Err(IpfsError::Directory),
            Some("a symbolic link") => Err(IpfsError::Symlink),
            Some(_) => Err(IpfsError::Unprovable),
        };
        assert_eq!(file, expected, "{name}");
        // Nothing that is not needed is asked for, and in no other spelling.
        let needed: BTreeSet<_> = list(case, "needs").iter().map(|cid| cid.as_str().unwrap()).collect();
        let asked: BTreeSet<_> = asked.iter().map(String::as_str).collect();
        assert!(asked.is_subset(&needed), "{name}: {asked:?}");
        assert!(expected.is_err() || asked == needed, "{name}: {asked:?}");
    }
}

#[test]
fn a_block_is_the_one_that_was_asked_for_or_nothing_has_happened() {
    let (one, two) = (b"one".as_slice(), b"two".as_slice());
    let root = file(&[(raw_cid(one), 3), (raw_cid(two), 3)]);
    let mut file = IpfsFile::new(&root_of(&root), "").unwrap();
    for _ in 0..2 {
        assert_eq!(file.give(one), Err(IpfsError::NotTheBlock));
        assert_eq!(file.wanted(), Some(&root_of(&root)));
    }
    file.give(&root).unwrap();
    // Not even the next but one.
    for other in [two, b"", &root] {
        assert_eq!(file.give(other), Err(IpfsError::NotTheBlock));
    }
    file.give(one).unwrap();
    assert_eq!(file.wanted().unwrap(), &Cid::from_bytes(&raw_cid(two)).unwrap());
    file.give(two).unwrap();
    assert_eq!(file.wanted(), None);
    assert_eq!(file.give(two), Err(IpfsError::NotTheBlock));
    assert_eq!(file.into_bytes().unwrap(), b"onetwo");

    let unfinished = IpfsFile::new(&root_of(&root), "").unwrap();
    assert_eq!(unfinished.into_bytes(), None);
    let huge = vec![0; BLOCK_BYTES_MAX + 1];
    let mut file = IpfsFile::new(&Cid::from_bytes(&raw_cid(&huge)).unwrap(), "").unwrap();
    assert_eq!(file.give(&huge), Err(IpfsError::NotTheBlock));
}

#[test]
fn sizes_are_what_they_claim_to_be() {
    let (one, two) = (b"one".as_slice(), b"two!".as_slice());
    let links = [(raw_cid(one), ""), (raw_cid(two), "")];
    let root = |data, size, parts: &[u64]| node(&links, &unixfs(FILE, data, size, parts));
    let read = |root: &[u8]| made(root, &[one, two], "");
    assert_eq!(read(&root(None, Some(7), &[3, 4])).unwrap(), b"onetwo!");
    assert_eq!(read(&root(Some(b"zero"), Some(11), &[3, 4])).unwrap(), b"zeroonetwo!");
    // The whole need not be written down; the parts have to be.
    assert_eq!(read(&root(None, None, &[3, 4])).unwrap(), b"onetwo!");
    for (size, parts) in [
        (Some(8), &[3, 4][..]),
        (Some(6), &[3, 4]),
        (Some(7), &[4, 3]),
        (Some(7), &[7]),
        (Some(7), &[]),
        (Some(7), &[3, 4, 0]),
        (None, &[]),
        (Some(0), &[u64::MAX, 1]),
        (Some(5), &[1, 4]),
    ] {
        assert_eq!(read(&root(None, size, parts)), Err(IpfsError::Sizes), "{size:?} {parts:?}");
    }
    let lying_leaf = node(&[], &unixfs(FILE, Some(b"three"), Some(4), &[]));
    assert_eq!(refused(&lying_leaf), IpfsError::Sizes);
    // A part that is a file by itself, of another length than the whole says.
    let inner = leaf(b"three");
    for (size, expected) in
        [(5, Ok(b"three".to_vec())), (4, Err(IpfsError::Sizes)), (6, Err(IpfsError::Sizes))]
    {
        assert_eq!(made(&file(&[(cid(&inner), size)]), &[&inner], ""), expected);
    }
    // Packed, as some encoders would.
    let packed = [number(1, FILE.into()), bytes(4, &[3, 4])].concat();
    assert_eq!(read(&node(&links, &packed)).unwrap(), b"onetwo!");
}

#[test]
fn a_file_has_its_limits_however_it_is_built() {
    let full = vec![b'x'; FILE_BYTES_MAX];
    assert_eq!(made(&leaf(&full), &[], "").unwrap(), full);
    let over = vec![b'x'; FILE_BYTES_MAX + 1];
    assert_eq!(refused(&leaf(&over)), IpfsError::TooLarge);
    let mut raw = IpfsFile::new(&Cid::from_bytes(&raw_cid(&over)).unwrap(), "").unwrap();
    assert_eq!(raw.give(&over), Err(IpfsError::TooLarge));
    // By what it claims, before any part is asked for.
    for size in [u64::try_from(FILE_BYTES_MAX).unwrap() + 1, 1 << 40, u64::MAX] {
        assert_eq!(refused(&file(&[(raw_cid(b"x"), size)])), IpfsError::TooLarge);
    }
    // Nothing is asked for of ten thousand parts either, be they empty or not.
    for (part, size) in [(b"x".as_slice(), 1), (b"", 0)] {
        let many = vec![(raw_cid(part), size); 10_000];
        assert!(file(&many).len() < BLOCK_BYTES_MAX);
        assert_eq!(refused(&file(&many)), IpfsError::TooManyBlocks);
        let most = vec![(raw_cid(part), size); IpfsFile::BLOCKS_MAX - 1];
        let whole = made(&file(&most), &[part], "").unwrap();
        assert_eq!(whole, part.repeat(most.len()));
        let one_more = vec![(raw_cid(part), size); IpfsFile::BLOCKS_MAX];
        assert_eq!(refused(&file(&one_more)), IpfsError::TooManyBlocks);
    }
    // Parts of parts count as well.
    let half = file(&vec![(raw_cid(b"x"), 1); 80]);
    let whole = file(&[(cid(&half), 80), (cid(&half), 80)]);
    assert_eq!(made(&whole, &[&half, b"x"], ""), Err(IpfsError::TooManyBlocks));
}

#[test]
fn neither_files_nor_directories_go_on_for_ever() {
    let nested = |levels: usize| {
        let mut blocks = vec![leaf(b"deep")];
        for _ in 1..levels {
            blocks.push(file(&[(cid(blocks.last().unwrap()), 4)]));
        }
        let below: Vec<&[u8]> = blocks.iter().map(Vec::as_slice).collect();
        made(blocks.last().unwrap(), &below, "")
    };
    assert_eq!(nested(IpfsFile::LEVELS_MAX).unwrap(), b"deep");
    assert_eq!(nested(IpfsFile::LEVELS_MAX + 1), Err(IpfsError::TooDeep));
    assert_eq!(nested(100), Err(IpfsError::TooDeep));

    let down = |levels: usize| {
        let mut blocks = vec![leaf(b"deep")];
        for _ in 1..levels {
            blocks.push(directory(&[(cid(blocks.last().unwrap()), "a")]));
        }
        let below: Vec<&[u8]> = blocks.iter().map(Vec::as_slice).collect();
        made(blocks.last().unwrap(), &below, &vec!["a"; levels - 1].join("/"))
    };
    assert_eq!(down(IpfsFile::BLOCKS_MAX).unwrap(), b"deep");
    assert_eq!(down(IpfsFile::BLOCKS_MAX + 1), Err(IpfsError::TooManyBlocks));

    // A block may hold a megabyte of what nobody reads, but not one after the other.
    let padded = |child: &[u8]| {
        let unread = bytes(15, &vec![0; BLOCK_BYTES_MAX - 200]);
        node(&[(cid(child), "a")], &[unixfs(DIRECTORY, None, None, &[]), unread].concat())
    };
    let mut blocks = vec![leaf(b"deep")];
    for _ in 0..5 {
        blocks.push(padded(blocks.last().unwrap()));
    }
    let below: Vec<&[u8]> = blocks.iter().map(Vec::as_slice).collect();
    assert_eq!(made(&blocks[4], &below, "a/a/a/a").unwrap(), b"deep");
    assert_eq!(made(&blocks[5], &below, "a/a/a/a/a"), Err(IpfsError::TooMuch));
}

#[test]
fn paths_lead_to_one_file_or_to_none() {
    let agent = leaf(b"{}");
    let inner = directory(&[(cid(&agent), "agent.json"), (cid(&agent), "Agent.json")]);
    let root = directory(&[(cid(&inner), "agents"), (raw_cid(b"raw"), "raw")]);
    let read = |path| made(&root, &[&inner, &agent, b"raw"], path);
    assert_eq!(read("agents/agent.json").unwrap(), b"{}");
    assert_eq!(read("raw").unwrap(), b"raw");
    for (path, expected) in [
        ("", IpfsError::Directory),
        ("agents", IpfsError::Directory),
        ("agent.json", IpfsError::NothingThere),
        ("agents/AGENT.json", IpfsError::NothingThere),
        ("agents/agent.json/more", IpfsError::NothingThere),
        ("raw/more", IpfsError::NothingThere),
    ] {
        assert_eq!(read(path), Err(expected), "{path}");
    }
    // Two of a name, and readers would differ.
    let twice = directory(&[(cid(&agent), "a"), (raw_cid(b"raw"), "a")]);
    assert_eq!(made(&twice, &[&agent, b"raw"], "a"), Err(IpfsError::Malformed));
    // A link leads anywhere.
    let symlink = node(&[], &unixfs(SYMLINK, Some(b"/etc/passwd"), None, &[]));
    let root = directory(&[(cid(&symlink), "a")]);
    for path in ["a", "a/b"] {
        assert_eq!(made(&root, &[&symlink], path), Err(IpfsError::Symlink));
    }
    // What is in a file has to be one.
    for part in [&directory(&[]), &symlink] {
        assert_eq!(made(&file(&[(cid(part), 0)]), &[part], ""), Err(IpfsError::Malformed));
    }
}

#[test]
fn what_cannot_be_checked_is_said_to_be_so() {
    let digest = |code: &[u8]| [&[1, 0x55], code, &[32], &[7; 32]].concat();
    let unknown = [
        ("SHA-512, cut", digest(&[0x13])),
        ("BLAKE3", digest(&[0x1e])),
        ("Keccak-256", digest(&[0x1b])),
        ("BLAKE2b-256", digest(&[0xa0, 0xe4, 0x02])),
        ("dag-cbor", [&[1, 0x71, 0x12, 32], &[7; 32][..]].concat()),
        ("dag-json", [&[1, 0xa9, 0x02, 0x12, 32], &[7; 32][..]].concat()),
    ];
    for (what, cid_bytes) in unknown {
        let cid = Cid::from_bytes(&cid_bytes).unwrap();
        assert!(!cid.is_provable(), "{what}");
        assert_eq!(IpfsFile::new(&cid, "").map(|_| ()), Err(IpfsError::Unprovable), "{what}");
        // Nor below a block that could be.
        assert_eq!(refused(&file(&[(cid_bytes.clone(), 1)])), IpfsError::Unprovable, "{what}");
        assert_eq!(made(&directory(&[(cid_bytes, "a")]), &[], "a"), Err(IpfsError::Unprovable), "{what}");
    }
    assert_eq!(refused(&node(&[], &unixfs(METADATA, None, None, &[]))), IpfsError::Unprovable);
    let shard =
        |hash, fanout| [unixfs(SHARD, Some(&[]), None, &[]), number(5, hash), number(6, fanout)].concat();
    assert_eq!(made(&node(&[], &shard(0x12, 256)), &[], "a"), Err(IpfsError::Unprovable));
    for fanout in [0, 1, 3, 255, 2048, u64::MAX] {
        assert_eq!(made(&node(&[], &shard(0x22, fanout)), &[], "a"), Err(IpfsError::Malformed), "{fanout}");
    }
    // A table that never ends: each slot leads to the next table, until the hash has no bits left.
    let name = "a";
    let mut blocks: Vec<Vec<u8>> = vec![node(&[], &shard(0x22, 256))];
    for _ in 0..12 {
        let slots: Vec<String> = (0..256).map(|slot| format!("{slot:02X}")).collect();
        let links: Vec<_> = slots.iter().map(|slot| (cid(blocks.last().unwrap()), slot.as_str())).collect();
        blocks.push(node(&links, &shard(0x22, 256)));
    }
    let below: Vec<&[u8]> = blocks.iter().map(Vec::as_slice).collect();
    assert_eq!(made(blocks.last().unwrap(), &below, name), Err(IpfsError::Malformed));
}

#[test]
fn identifiers_that_are_their_block_need_nobody() {
    let inline = Cid::from_bytes(&inline_cid(b"{}")).unwrap();
    assert_eq!(inline, Cid::parse(inline.as_str()).unwrap());
    let file_of = |cid| IpfsFile::new(cid, "").unwrap();
    assert_eq!((file_of(&inline).wanted(), file_of(&inline).into_bytes().unwrap()), (None, b"{}".to_vec()));
    let nested = file(&[(inline_cid(b"one"), 3), (raw_cid(b"two"), 3), (inline_cid(b"three"), 5)]);
    assert_eq!(made(&nested, &[b"two"], "").unwrap(), b"onetwothree");
    // The sizes count for them as well.
    assert_eq!(refused(&file(&[(inline_cid(b"one"), 4)])), IpfsError::Sizes);
    // As long as they are in use, and no longer.
    assert!(Cid::from_bytes(&inline_cid(&[b'x'; 128])).is_some());
    assert!(Cid::from_bytes(&inline_cid(&[b'x'; 200])).is_none());
}

#[test]
fn only_blocks_that_everybody_reads_alike_are_read() {
    let one = raw_cid(b"one");
    let data = bytes(1, &unixfs(FILE, None, Some(3), &[3]));
    let good = [link(&one, ""), data.clone()].concat();
    assert_eq!(made(&good, &[b"one"], "").unwrap(), b"one");
    // Data in front, as the oldest encoders wrote it.
    assert_eq!(made(&[data.clone(), link(&one, "")].concat(), &[b"one"], "").unwrap(), b"one");
    let cases = [
        ("nothing", vec![]),
        ("JSON", b"{}".to_vec()),
        ("no data", link(&one, "")),
        ("data twice", [good.clone(), data.clone()].concat()),
        ("links on both sides of the data", [good.clone(), link(&one, "")].concat()),
        ("an unknown field", [good.clone(), number(3, 1)].concat()),
        ("a number for data", number(1, 2)),
        ("cut off", good[..good.len() - 1].to_vec()),
        ("a link without a hash", [bytes(2, &bytes(2, b"name")), data.clone()].concat()),
        (
            "a link's hash twice",
            [bytes(2, &[bytes(1, &one), bytes(1, &one)].concat()), data.clone()].concat(),
        ),
        (
            "a link in another order",
            [bytes(2, &[bytes(2, b""), bytes(1, &one)].concat()), data.clone()].concat(),
        ),
        ("an unknown field in a link", [bytes(2, &[bytes(1, &one), number(4, 1)].concat()), data].concat()),
        ("a link to no identifier", node(&[(b"nowhere".to_vec(), "")], &unixfs(FILE, None, Some(3), &[3]))),
        ("UnixFS without a kind", node(&[], &bytes(2, b"x"))),
        ("two kinds", node(&[], &[number(1, 2), number(1, 1)].concat())),
        ("data twice in UnixFS", node(&[], &[number(1, 2), bytes(2, b"x"), bytes(2, b"y")].concat())),
        ("a size that is text", node(&[], &[number(1, 2), bytes(3, b"x")].concat())),
        ("a field of four bytes", node(&[], &[number(1, 2), vec![0x3d, 0, 0, 0, 0]].concat())),
        ("a length beyond the end", [vec![0x0a], varint(u64::MAX)].concat()),
    ];
    for (what, block) in cases {
        assert_eq!(refused(&block), IpfsError::Malformed, "{what}");
    }
    // Mode and time of the last change say nothing about the bytes.
    let dated = [unixfs(RAW, Some(b"x"), Some(1), &[]), number(7, 0o644), bytes(8, &number(1, 5))].concat();
    assert_eq!(made(&node(&[], &dated), &[], "").unwrap(), b"x");
}

//! Blocks of a file on IPFS: any bytes as one of them, as an identifier, and as instructions for building a whole file.

use super::dag;
use quittance_protocol::payee::{BLOCK_BYTES_MAX, Cid, FILE_BYTES_MAX, IpfsError, IpfsFile};
use std::collections::BTreeMap;

/// The input as an identifier, as a block, and as a file to build.
pub fn check(input: &[u8]) {
    identifier(input);
    for path in ["", "a", "agents/1.json"] {
        block(input, path);
    }
    built(input);
}

fn identifier(input: &[u8]) {
    let texts = std::str::from_utf8(input).ok().and_then(|text| Cid::parse(text.trim_ascii()));
    for cid in texts.into_iter().chain(Cid::from_bytes(input)) {
        assert_eq!(Cid::parse(cid.as_str()).as_ref(), Some(&cid));
        assert!(!cid.digest().is_empty() && !cid.names(b"another block"));
        if cid.hash_code() == Cid::IDENTITY {
            assert!(cid.names(cid.digest()));
        }
    }
}

/// Whatever a block says, the next one that is wanted can be held against its name.
fn block(input: &[u8], path: &str) {
    let root = Cid::from_bytes(&dag::cid(input)).expect("an identifier");
    let mut file = IpfsFile::new(&root, path).expect("something to ask for");
    assert_eq!(file.wanted(), Some(&root));
    assert_eq!(file.give(&[input, b"x"].concat()), Err(IpfsError::NotTheBlock));
    match file.give(input) {
        Ok(()) => {
            if let Some(next) = file.wanted().cloned() {
                assert!(next.is_provable() && next.hash_code() != Cid::IDENTITY);
                assert_eq!(file.give(b"another block"), Err(IpfsError::NotTheBlock));
                assert_eq!(file.wanted(), Some(&next));
            } else {
                assert!(file.into_bytes().expect("whole").len() <= FILE_BYTES_MAX);
            }
        }
        Err(IpfsError::NotTheBlock) => assert!(input.len() > BLOCK_BYTES_MAX),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

/// A node as it was meant, beside the block that was made of it.
enum Meant {
    File { data: Vec<u8>, parts: Vec<usize>, is_true: bool },
    Directory(Vec<(usize, &'static str)>),
    Symlink,
}

struct Built {
    meant: Meant,
    cid: Vec<u8>,
    size: u64,
}

const NAMES: [&str; 4] = ["a", "b", "agent.json", "ä"];

/// Builds nodes of earlier nodes as the input says, and reads the last one along a path.
fn built(input: &[u8]) {
    const NODES_MAX: usize = 40;
    let mut input = input.iter().copied();
    let (mut nodes, mut store) = (Vec::<Built>::new(), BTreeMap::new());
    while nodes.len() < NODES_MAX
        && let Some(kind) = input.next()
    {
        let (node, block) = build(kind, &mut input, &nodes);
        if let Some(cid) = Cid::from_bytes(&node.cid) {
            store.insert(cid.to_string(), block);
            nodes.push(node);
        }
    }
    let Some(root) = nodes.last() else { return };
    let cid = Cid::from_bytes(&root.cid).expect("an identifier");
    for path in [&[][..], &["a"], &["agent.json"], &["a", "b"], &["ä", "ä", "ä"]] {
        let mut asked = 0;
        let read = (|| {
            let mut file = IpfsFile::new(&cid, &path.join("/"))?;
            while let Some(next) = file.wanted().map(Cid::to_string) {
                asked += 1;
                file.give(&store[&next])?;
            }
            file.into_bytes().ok_or(IpfsError::Malformed)
        })();
        assert!(asked <= IpfsFile::BLOCKS_MAX);
        assert_eq!(read.ok(), meant(&nodes, path), "{path:?}");
    }
}

fn build(kind: u8, input: &mut impl Iterator<Item = u8>, nodes: &[Built]) -> (Built, Vec<u8>) {
    let mut byte = || usize::from(input.next().unwrap_or_default());
    let count = byte();
    let mut chosen = || if nodes.is_empty() { 0 } else { byte() % nodes.len() };
    let leaf = |data: Vec<u8>, block: Vec<u8>, cid, is_true| {
        let size = u64::try_from(data.len()).expect("small");
        (Built { meant: Meant::File { data, parts: vec![], is_true }, cid, size }, block)
    };
    match kind % 8 {
        0 | 1 => {
            let data: Vec<u8> = input.by_ref().take(count).collect();
            let cid = if kind.is_multiple_of(8) { dag::raw_cid(&data) } else { dag::inline_cid(&data) };
            leaf(data.clone(), data, cid, true)
        }
        2 | 3 => {
            let data: Vec<u8> = input.by_ref().take(count).collect();
            let is_true = kind % 8 == 2;
            let claimed = u64::try_from(data.len()).expect("small") + u64::from(!is_true);
            let block = dag::node(&[], &dag::unixfs(dag::RAW, Some(&data), Some(claimed), &[]));
            leaf(data, block.clone(), dag::cid(&block), is_true)
        }
        // As many kilobytes as a byte says: some files are too large.
        4 => {
            let data = vec![b' '; count * 1024];
            let block = dag::leaf(&data);
            leaf(data, block.clone(), dag::cid(&block), true)
        }
        5 if !nodes.is_empty() => {
            let parts: Vec<usize> = (0..count).map(|_| chosen()).collect();
            let sizes: Vec<u64> = parts.iter().map(|part| nodes[*part].size).collect();
            let links: Vec<_> = parts.iter().map(|part| (nodes[*part].cid.clone(), "")).collect();
            let size = sizes.iter().fold(0, |sum: u64, size| sum.saturating_add(*size));
            let block = dag::node(&links, &dag::unixfs(dag::FILE, None, Some(size), &sizes));
            let is_true = sizes.iter().try_fold(0, |sum: u64, size| sum.checked_add(*size)).is_some();
            let meant = Meant::File { data: vec![], parts, is_true };
            (Built { meant, cid: dag::cid(&block), size }, block)
        }
        6 if !nodes.is_empty() => {
            let entries: Vec<_> = (0..count % 8).map(|_| (chosen(), NAMES[chosen() % 4])).collect();
            let links: Vec<_> =
                entries.iter().map(|(node, name)| (nodes[*node].cid.clone(), *name)).collect();
            let block = dag::directory(&links);
            let meant = Meant::Directory(entries);
            (Built { meant, cid: dag::cid(&block), size: 0 }, block)
        }
        _ => {
            let block = dag::node(&[], &dag::unixfs(dag::SYMLINK, Some(b"a"), None, &[]));
            (Built { meant: Meant::Symlink, cid: dag::cid(&block), size: 0 }, block)
        }
    }
}

/// The bytes that were meant, if they can be had within the limits.
fn meant(nodes: &[Built], path: &[&str]) -> Option<Vec<u8>> {
    let (mut at, mut blocks, mut bytes) = (nodes.len() - 1, 1, Vec::new());
    for name in path {
        let Meant::Directory(entries) = &nodes[at].meant else { return None };
        let mut named = entries.iter().filter(|(_, entry)| entry == name);
        at = named.next().filter(|_| named.next().is_none())?.0;
        blocks += 1;
    }
    append(nodes, at, nodes[at].size, 1, &mut blocks, &mut bytes)?;
    Some(bytes)
}

fn append(
    nodes: &[Built],
    at: usize,
    size: u64,
    level: usize,
    blocks: &mut usize,
    bytes: &mut Vec<u8>,
) -> Option<()> {
    let node = &nodes[at];
    let Meant::File { data, parts, is_true } = &node.meant else { return None };
    *blocks += parts.len();
    let fits = node.size <= FILE_BYTES_MAX.try_into().expect("a number") && *blocks <= IpfsFile::BLOCKS_MAX;
    let is_level = parts.is_empty() || level < IpfsFile::LEVELS_MAX;
    if !*is_true || node.size != size || !fits || !is_level {
        return None;
    }
    bytes.extend_from_slice(data);
    parts.iter().try_for_each(|part| append(nodes, *part, nodes[*part].size, level + 1, blocks, bytes))
}

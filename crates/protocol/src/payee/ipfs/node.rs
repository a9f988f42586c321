//! One block of a file or directory: a `dag-pb` node (links, and data) whose data is a UnixFS message.

use super::{
    IpfsError,
    protobuf::{Fields, Value, number},
};

/// A block that points to others.
#[derive(Debug)]
pub(super) struct Node<'a> {
    pub(super) kind: Kind<'a>,
    pub(super) links: Vec<Link<'a>>,
}

#[derive(Debug)]
pub(super) enum Kind<'a> {
    /// Its own bytes come first, then those of each link, of which there are so many.
    File {
        data: &'a [u8],
        parts: Vec<u64>,
        size: u64,
    },
    /// Links have names.
    Directory,
    /// A part of a directory that is a hash table: links have names behind the number of their slot.
    Shard {
        fanout: u64,
    },
    Symlink,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Link<'a> {
    /// A content identifier in binary.
    pub(super) cid: &'a [u8],
    pub(super) name: &'a [u8],
}

impl<'a> Node<'a> {
    /// A block that is nothing but bytes.
    pub(super) fn raw(block: &'a [u8]) -> Self {
        let size = u64::try_from(block.len()).unwrap_or(u64::MAX);
        Self { kind: Kind::File { data: block, parts: Vec::new(), size }, links: Vec::new() }
    }

    /// Reads what every decoder reads the same, and nothing else: no field twice, none that is not known to `dag-pb`.
    pub(super) fn of(block: &'a [u8]) -> Result<Self, IpfsError> {
        let (links, data) = links_and_data(block).ok_or(IpfsError::Malformed)?;
        let unixfs = UnixFs::of(data).ok_or(IpfsError::Malformed)?;
        let kind = match unixfs.kind {
            UnixFs::RAW | UnixFs::FILE => unixfs.file(links.len()).ok_or(IpfsError::Sizes)?,
            UnixFs::DIRECTORY => Kind::Directory,
            UnixFs::SHARD => unixfs.shard()?,
            UnixFs::SYMLINK => Kind::Symlink,
            _ => return Err(IpfsError::Unprovable),
        };
        Ok(Self { kind, links })
    }
}

/// Links and data, in either order, but not mixed.
fn links_and_data(block: &[u8]) -> Option<(Vec<Link<'_>>, &[u8])> {
    const DATA: u64 = 1;
    const LINKS: u64 = 2;
    let (mut links, mut data, mut links_ended) = (Vec::new(), None, false);
    for field in Fields::of(block) {
        match field? {
            (DATA, Value::Bytes(bytes)) if data.is_none() => {
                data = Some(bytes);
                links_ended = !links.is_empty();
            }
            (LINKS, Value::Bytes(link)) if !links_ended => links.push(Link::of(link)?),
            _ => return None,
        }
    }
    Some((links, data?))
}

impl<'a> Link<'a> {
    fn of(message: &'a [u8]) -> Option<Self> {
        const HASH: u64 = 1;
        const NAME: u64 = 2;
        const SIZE_IN_ALL: u64 = 3;
        let (mut cid, mut name, mut last) = (None, &[][..], 0);
        for field in Fields::of(message) {
            let (field, value) = field?;
            match (field, value) {
                (HASH, Value::Bytes(bytes)) => cid = Some(bytes),
                (NAME, Value::Bytes(bytes)) => name = bytes,
                // Of all blocks below: nobody can check it before they are read.
                (SIZE_IN_ALL, Value::Number(_)) => {}
                _ => return None,
            }
            if std::mem::replace(&mut last, field) >= field {
                return None;
            }
        }
        Some(Self { cid: cid?, name })
    }
}

#[derive(Default)]
struct UnixFs<'a> {
    kind: u64,
    data: Option<&'a [u8]>,
    size: Option<u64>,
    parts: Vec<u64>,
    hash: Option<u64>,
    fanout: Option<u64>,
}

impl<'a> UnixFs<'a> {
    const RAW: u64 = 0;
    const DIRECTORY: u64 = 1;
    const FILE: u64 = 2;
    const SYMLINK: u64 = 4;
    const SHARD: u64 = 5;

    fn of(message: &'a [u8]) -> Option<Self> {
        const KIND: u64 = 1;
        const DATA: u64 = 2;
        const SIZE: u64 = 3;
        const PARTS: u64 = 4;
        const HASH: u64 = 5;
        const FANOUT: u64 = 6;
        fn once<T>(slot: &mut Option<T>, value: T) -> Option<()> {
            slot.replace(value).is_none().then_some(())
        }
        let (mut unixfs, mut kind) = (Self::default(), None);
        for field in Fields::of(message) {
            match field? {
                (KIND, Value::Number(number)) => once(&mut kind, number)?,
                (DATA, Value::Bytes(bytes)) => once(&mut unixfs.data, bytes)?,
                (SIZE, Value::Number(number)) => once(&mut unixfs.size, number)?,
                (PARTS, Value::Number(number)) => unixfs.parts.push(number),
                (PARTS, Value::Bytes(mut packed)) => {
                    while !packed.is_empty() {
                        unixfs.parts.push(number(&mut packed)?);
                    }
                }
                (HASH, Value::Number(number)) => once(&mut unixfs.hash, number)?,
                (FANOUT, Value::Number(number)) => once(&mut unixfs.fanout, number)?,
                (KIND..=FANOUT, _) => return None,
                // Mode and time of the last change, and what is yet to come.
                _ => {}
            }
        }
        unixfs.kind = kind?;
        Some(unixfs)
    }

    /// If its sizes are true as far as this block goes: one for each link, and the whole is the sum.
    fn file(self, links: usize) -> Option<Kind<'a>> {
        let data = self.data.unwrap_or_default();
        let own = u64::try_from(data.len()).ok()?;
        let size = self.parts.iter().try_fold(own, |sum, part| sum.checked_add(*part))?;
        let is_true = self.parts.len() == links && self.size.is_none_or(|claimed| claimed == size);
        is_true.then_some(Kind::File { data, parts: self.parts, size })
    }

    /// Murmur3 is the only hash that was ever in use.
    fn shard(self) -> Result<Kind<'a>, IpfsError> {
        const MURMUR3_X64_64: u64 = 0x22;
        const FANOUT_MAX: u64 = 1024;
        if self.hash != Some(MURMUR3_X64_64) {
            return Err(IpfsError::Unprovable);
        }
        let fanout =
            self.fanout.filter(|fanout| fanout.is_power_of_two() && (2..=FANOUT_MAX).contains(fanout));
        Ok(Kind::Shard { fanout: fanout.ok_or(IpfsError::Malformed)? })
    }
}

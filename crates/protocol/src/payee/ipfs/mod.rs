//! Files on IPFS, as far as they prove themselves: from a content identifier through directories and parts to the bytes.
//!
//! Every block is held against the hash that named it, so whoever hands over the blocks can keep a file back, and not change it.
//! Asking for the blocks is the caller's; what is asked for is bounded, as strangers build the files.

mod cid;
mod node;
mod protobuf;
mod shard;

pub use cid::Cid;

use super::FILE_BYTES_MAX;
use node::{Kind, Link, Node};
use shard::Slots;

/// Largest block, in bytes. Nodes exchange blocks up to this size; a directory can be as large.
pub const BLOCK_BYTES_MAX: usize = 1 << 20;

/// Why a file cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IpfsError {
    /// These bytes are not the block that was asked for. Another may have it.
    #[error("the gateway's bytes are not those of the content identifier")]
    NotTheBlock,
    /// Something that is not understood here, so that nothing can be proven.
    #[error("the file on IPFS is of a kind that cannot be checked")]
    Unprovable,
    /// Neither a directory nor a file, though it is the block.
    #[error("a block of the file on IPFS is malformed")]
    Malformed,
    /// The sizes that its blocks claim contradict each other.
    #[error("the blocks of the file on IPFS contradict each other")]
    Sizes,
    /// The path leads to nothing.
    #[error("there is nothing on IPFS under that path")]
    NothingThere,
    /// The path ends at a directory.
    #[error("there is a directory on IPFS under that path")]
    Directory,
    /// Those could lead anywhere.
    #[error("there is a symbolic link on IPFS under that path")]
    Symlink,
    /// Longer than [`FILE_BYTES_MAX`].
    #[error("the file on IPFS is larger than 256 KiB")]
    TooLarge,
    /// More than [`IpfsFile::BYTES_MAX`].
    #[error("the blocks of the file on IPFS are larger than 4 MiB")]
    TooMuch,
    /// More than [`IpfsFile::BLOCKS_MAX`].
    #[error("the file on IPFS has more than {} blocks", IpfsFile::BLOCKS_MAX)]
    TooManyBlocks,
    /// More than [`IpfsFile::LEVELS_MAX`].
    #[error("the file on IPFS has more than {} levels", IpfsFile::LEVELS_MAX)]
    TooDeep,
}

/// A file while its blocks come in.
#[derive(Debug)]
pub struct IpfsFile {
    /// The next one last.
    wanted: Vec<Wanted>,
    /// What is left of the path, the next name last.
    names: Vec<String>,
    blocks: usize,
    bytes: usize,
    file: Vec<u8>,
}

#[derive(Debug)]
struct Wanted {
    cid: Cid,
    place: Place,
}

/// What a block is to be.
#[derive(Debug)]
enum Place {
    /// What the path leads to, or a directory on the way.
    OnPath,
    /// A part of a directory in which a name is looked for.
    Shard { name: String, slots: Slots },
    /// A part of the file, of so many bytes.
    Part { size: u64, level: usize },
}

impl IpfsFile {
    /// Blocks of one file and of the directories above it.
    pub const BLOCKS_MAX: usize = 128;
    /// All of these blocks together. They need not be file: what is not understood in a block is passed over.
    pub const BYTES_MAX: usize = 4 << 20;
    /// Levels of blocks of one file.
    pub const LEVELS_MAX: usize = 8;

    /// The file at `cid`, or at a path below it without empty names.
    pub fn new(cid: &Cid, path: &str) -> Result<Self, IpfsError> {
        let names = path.split('/').rev().filter(|name| !name.is_empty()).map(str::to_owned).collect();
        let mut file = Self { wanted: Vec::new(), names, blocks: 0, bytes: 0, file: Vec::new() };
        file.want(cid.clone(), Place::OnPath)?;
        file.take_what_is_inline()?;
        Ok(file)
    }

    /// The block to hand over next; `None`: the file is whole.
    pub fn wanted(&self) -> Option<&Cid> {
        self.wanted.last().map(|wanted| &wanted.cid)
    }

    /// Hands over [`Self::wanted`]. Nothing has happened if it is [`IpfsError::NotTheBlock`]; any other error is final.
    pub fn give(&mut self, block: &[u8]) -> Result<(), IpfsError> {
        match self.wanted.last() {
            Some(wanted) if block.len() <= BLOCK_BYTES_MAX && wanted.cid.names(block) => {}
            _ => return Err(IpfsError::NotTheBlock),
        }
        if let Some(wanted) = self.wanted.pop() {
            self.take(wanted, block)?;
        }
        self.take_what_is_inline()
    }

    /// The bytes, once nothing is wanted any more.
    pub fn into_bytes(self) -> Option<Vec<u8>> {
        self.wanted.is_empty().then_some(self.file)
    }

    /// Some identifiers are their block.
    fn take_what_is_inline(&mut self) -> Result<(), IpfsError> {
        while let Some(wanted) = self.wanted.pop_if(|wanted| wanted.cid.hash_code() == Cid::IDENTITY) {
            let block = wanted.cid.digest().to_vec();
            self.take(wanted, &block)?;
        }
        Ok(())
    }

    fn want(&mut self, cid: Cid, place: Place) -> Result<(), IpfsError> {
        if !cid.is_provable() {
            return Err(IpfsError::Unprovable);
        }
        if cid.codec() == Cid::RAW && matches!(place, Place::OnPath) && !self.names.is_empty() {
            return Err(IpfsError::NothingThere);
        }
        self.blocks = self.blocks.saturating_add(1);
        if self.blocks > Self::BLOCKS_MAX {
            return Err(IpfsError::TooManyBlocks);
        }
        self.wanted.push(Wanted { cid, place });
        Ok(())
    }

    fn take(&mut self, Wanted { cid, place }: Wanted, block: &[u8]) -> Result<(), IpfsError> {
        self.bytes = self.bytes.saturating_add(block.len());
        if self.bytes > Self::BYTES_MAX {
            return Err(IpfsError::TooMuch);
        }
        let Node { kind, links } = if cid.codec() == Cid::RAW { Node::raw(block) } else { Node::of(block)? };
        match (place, kind) {
            (Place::OnPath, Kind::File { .. }) if !self.names.is_empty() => Err(IpfsError::NothingThere),
            (Place::OnPath, Kind::File { data, parts, size }) => {
                if usize::try_from(size).is_ok_and(|size| size <= FILE_BYTES_MAX) {
                    self.take_file(data, &links, &parts, 1)
                } else {
                    Err(IpfsError::TooLarge)
                }
            }
            (Place::OnPath, Kind::Directory) => {
                let name = self.next_name()?;
                let entry = only(&links, name.as_bytes())?.ok_or(IpfsError::NothingThere)?;
                self.want(cid_of(entry)?, Place::OnPath)
            }
            (Place::OnPath, Kind::Shard { fanout }) => {
                let name = self.next_name()?;
                let slots = Slots::of(name.as_bytes());
                self.look_into_shard(&links, fanout, name, slots)
            }
            (Place::OnPath, Kind::Symlink) => Err(IpfsError::Symlink),
            (Place::Shard { name, slots }, Kind::Shard { fanout }) => {
                self.look_into_shard(&links, fanout, name, slots)
            }
            (Place::Part { size: expected, level }, Kind::File { data, parts, size }) => {
                if size == expected {
                    self.take_file(data, &links, &parts, level)
                } else {
                    Err(IpfsError::Sizes)
                }
            }
            (Place::Shard { .. } | Place::Part { .. }, _) => Err(IpfsError::Malformed),
        }
    }

    fn next_name(&mut self) -> Result<String, IpfsError> {
        self.names.pop().ok_or(IpfsError::Directory)
    }

    /// A node's own bytes, and then its parts in their order.
    fn take_file(
        &mut self,
        data: &[u8],
        links: &[Link<'_>],
        parts: &[u64],
        level: usize,
    ) -> Result<(), IpfsError> {
        self.append(data)?;
        if links.is_empty() {
            return Ok(());
        }
        if level >= Self::LEVELS_MAX {
            return Err(IpfsError::TooDeep);
        }
        // Before any of them is looked at: there can be tens of thousands.
        if links.len() > Self::BLOCKS_MAX {
            return Err(IpfsError::TooManyBlocks);
        }
        for (link, size) in links.iter().zip(parts).rev() {
            let place = Place::Part { size: *size, level: level.saturating_add(1) };
            self.want(cid_of(link)?, place)?;
        }
        Ok(())
    }

    /// The entry itself, or the part of the directory that has it.
    fn look_into_shard(
        &mut self,
        links: &[Link<'_>],
        fanout: u64,
        name: String,
        mut slots: Slots,
    ) -> Result<(), IpfsError> {
        let slot = slots.next(fanout).ok_or(IpfsError::Malformed)?;
        if let Some(entry) = only(links, [slot.as_bytes(), name.as_bytes()].concat().as_slice())? {
            return self.want(cid_of(entry)?, Place::OnPath);
        }
        let below = only(links, slot.as_bytes())?.ok_or(IpfsError::NothingThere)?;
        self.want(cid_of(below)?, Place::Shard { name, slots })
    }

    fn append(&mut self, bytes: &[u8]) -> Result<(), IpfsError> {
        if self.file.len().saturating_add(bytes.len()) > FILE_BYTES_MAX {
            return Err(IpfsError::TooLarge);
        }
        self.file.extend_from_slice(bytes);
        Ok(())
    }
}

/// The entry of that name; with two of them, readers would differ.
fn only<'a, 'b>(links: &'b [Link<'a>], name: &[u8]) -> Result<Option<&'b Link<'a>>, IpfsError> {
    let mut named = links.iter().filter(|link| link.name == name);
    let first = named.next();
    if named.next().is_some() { Err(IpfsError::Malformed) } else { Ok(first) }
}

fn cid_of(link: &Link<'_>) -> Result<Cid, IpfsError> {
    Cid::from_bytes(link.cid).ok_or(IpfsError::Malformed)
}

//! What must hold for any bytes from a stranger. The fuzz targets include this module, so that what a corpus file is
//! replayed through is what found it.

pub mod erc6492;
pub mod interop;
pub mod ipfs;
pub mod registration;
pub mod wire;

/// The second reader of wrappers, the one the other tests use.
#[path = "../../protocol/support/sig.rs"]
#[allow(dead_code, reason = "only the reader and the writer are used here")]
mod sig;

/// The writer of blocks that the other tests use.
#[path = "../../payee/dag.rs"]
#[allow(dead_code, reason = "not all of it is used here")]
mod dag;

/// Bytes that are text of `0x` and hex digits, as corpus files are where bytes alone would be unreadable.
fn from_hex(bytes: &[u8]) -> Option<Vec<u8>> {
    let digits = std::str::from_utf8(bytes).ok()?.trim_ascii().strip_prefix("0x")?;
    alloy_primitives::hex::decode(digits).ok()
}

//! `ipfs:` URIs.

use super::{TokenUri, TokenUriError};
use crate::payee::Cid;
use percent_encoding::percent_decode;

/// Behind `ipfs:`: `//CID[/path]`, or `//ipfs/CID[/path]` as some write it. Not for a URL parser, which would fold the
/// case of the CID.
pub(super) fn parse(uri: &str) -> Result<TokenUri, TokenUriError> {
    let rest = uri.strip_prefix("//").ok_or(TokenUriError::Cid)?;
    let rest = rest.strip_prefix("ipfs/").unwrap_or(rest);
    let (cid, path) = rest.split_once('/').unwrap_or((rest, ""));
    let cid = Cid::parse(cid).ok_or(TokenUriError::Cid)?;
    let path = path.trim_end_matches('/');
    let segments = match path {
        "" => Vec::new(),
        path => path.split('/').map(segment).collect::<Option<Vec<_>>>().ok_or(TokenUriError::CidPath)?,
    };
    Ok(TokenUri::Ipfs { cid, path: segments.join("/") })
}

/// One name in a directory, and never a way out of it, written plainly or percent-encoded.
fn segment(text: &str) -> Option<String> {
    const SEGMENT_BYTES_MAX: usize = 255;
    if text.contains(['?', '#']) {
        return None;
    }
    let name = percent_decode(text.as_bytes()).decode_utf8().ok()?;
    let is_plain = !["", ".", ".."].contains(&name.as_ref())
        && name.len() <= SEGMENT_BYTES_MAX
        && !name.chars().any(|c| c.is_control() || c == '/' || c == '\\');
    is_plain.then(|| name.into_owned())
}

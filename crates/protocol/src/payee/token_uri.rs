//! tokenURI in the forms seen in the wild (spec/payee.md §1.5).
//!
//! `data:` is taken apart by hand: a URL parser would cut the file off at the `#` that every registration file has in its
//! `type`. What has to be fetched is only classified; which addresses may be fetched from is for whoever fetches.

use super::{FILE_BYTES_MAX, FileError, Origin, json};
use base64::{
    Engine,
    alphabet::STANDARD,
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig},
};
use flate2::read::MultiGzDecoder;
use percent_encoding::percent_decode;
use serde_json::{Map, Value};
use std::{borrow::Cow, io::Read};
use url::Url;

pub use cid::Cid;

mod cid;

words! {
    /// How a file stands in its URI.
    InlineForm {
        /// `data:…;base64,…`.
        Base64 = "data-base64",
        /// Base64 by its own account, JSON in fact.
        Base64ButRaw = "data-base64-but-raw",
        /// `data:…,…`, percent-encoded or not.
        Plain = "data-plain",
        /// `data:…;enc=gzip;base64,…`.
        Gzip = "data-gzip",
        /// JSON without a scheme.
        Bare = "json-bare",
    }
}

/// Where a registration file is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TokenUri {
    /// In the URI.
    Inline {
        /// How.
        form: InlineForm,
        /// The file.
        file: Map<String, Value>,
    },
    /// To be fetched.
    Https(Url),
    /// On IPFS.
    Ipfs {
        /// Root.
        cid: Cid,
        /// Path below it, percent-decoded, without leading or trailing slash; empty for the root itself.
        path: String,
    },
}

/// Why a tokenURI leads to no file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenUriError {
    /// Nothing, or blanks.
    #[error("the tokenURI is empty")]
    Empty,
    /// Longer than [`FILE_BYTES_MAX`].
    #[error("the tokenURI is longer than 256 KiB")]
    TooLarge,
    /// Not UTF-8.
    #[error("the tokenURI is not UTF-8")]
    Utf8,
    /// Neither a URI nor JSON.
    #[error("the tokenURI is neither a URI nor a JSON object")]
    NotAUri,
    /// `http`, which anybody on the way can rewrite.
    #[error("the tokenURI is http, only https is fetched")]
    InsecureScheme,
    /// Another scheme.
    #[error("the tokenURI has a scheme that is not supported")]
    UnsupportedScheme,
    /// `https` with user information.
    #[error("the tokenURI carries credentials")]
    Userinfo,
    /// `data:` without a comma.
    #[error("the tokenURI is a data URI without a comma")]
    DataMalformed,
    /// `data:` of another media type than JSON.
    #[error("the tokenURI is a data URI of another media type than application/json")]
    DataMediaType,
    /// A compression or character set that is not supported.
    #[error("the tokenURI is a data URI in an encoding that is not supported")]
    UnsupportedEncoding,
    /// Not base64.
    #[error("the tokenURI's data is not base64")]
    Base64,
    /// Not gzip.
    #[error("the tokenURI's data is not gzip")]
    Gzip,
    /// `ipfs:` without a content identifier.
    #[error("the tokenURI is ipfs without a valid content identifier")]
    Cid,
    /// `ipfs:` with a path that could lead elsewhere.
    #[error("the tokenURI is ipfs with a path that is not plain")]
    CidPath,
    /// There is a file, and it cannot be used.
    #[error(transparent)]
    File(#[from] FileError),
}

impl TokenUriError {
    /// The word for it.
    pub fn code(self) -> &'static str {
        match self {
            Self::Empty => "empty",
            Self::TooLarge => "too-large",
            Self::Utf8 => "utf8",
            Self::NotAUri => "not-a-uri",
            Self::InsecureScheme => "insecure-scheme",
            Self::UnsupportedScheme => "unsupported-scheme",
            Self::Userinfo => "userinfo",
            Self::DataMalformed => "data-malformed",
            Self::DataMediaType => "data-media-type",
            Self::UnsupportedEncoding => "unsupported-encoding",
            Self::Base64 => "base64",
            Self::Gzip => "gzip",
            Self::Cid => "cid",
            Self::CidPath => "cid-path",
            Self::File(error) => error.code(),
        }
    }
}

impl TokenUri {
    /// Classifies the bytes a registry answers, and decodes the file if it is among them.
    pub fn parse(uri: &[u8]) -> Result<Self, TokenUriError> {
        if uri.len() > FILE_BYTES_MAX {
            return Err(TokenUriError::TooLarge);
        }
        let uri = std::str::from_utf8(uri).map_err(|_| TokenUriError::Utf8)?.trim_ascii();
        if uri.is_empty() {
            return Err(TokenUriError::Empty);
        }
        if uri.starts_with('{') {
            return inline(InlineForm::Bare, uri.as_bytes());
        }
        let (scheme, rest) = split_scheme(uri).ok_or(TokenUriError::NotAUri)?;
        match scheme.to_ascii_lowercase().as_str() {
            "data" => data(rest),
            "https" => https(uri),
            "ipfs" => ipfs(rest),
            "http" => Err(TokenUriError::InsecureScheme),
            _ => Err(TokenUriError::UnsupportedScheme),
        }
    }
}

/// RFC 3986.
fn split_scheme(uri: &str) -> Option<(&str, &str)> {
    let (scheme, rest) = uri.split_once(':')?;
    let is_scheme = scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme.bytes().all(|b| b.is_ascii_alphanumeric() || b"+-.".contains(&b));
    is_scheme.then_some((scheme, rest))
}

fn inline(form: InlineForm, file: &[u8]) -> Result<TokenUri, TokenUriError> {
    Ok(TokenUri::Inline { form, file: json::object(file)? })
}

/// Behind `data:`: a media type, parameters, a comma, the data.
fn data(uri: &str) -> Result<TokenUri, TokenUriError> {
    let (header, data) = uri.split_once(',').ok_or(TokenUriError::DataMalformed)?;
    let mut words = header.split(';').map(|word| word.trim_ascii().to_ascii_lowercase());
    if !matches!(words.next().as_deref(), None | Some("" | "application/json")) {
        return Err(TokenUriError::DataMediaType);
    }
    let (mut is_base64, mut is_gzip) = (false, false);
    for word in words {
        match word.split_once('=').unwrap_or((&word, "")) {
            ("base64", "") => is_base64 = true,
            ("enc", "gzip") => is_gzip = true,
            ("enc", _) => return Err(TokenUriError::UnsupportedEncoding),
            ("charset", charset) if !["utf-8", "utf8", "us-ascii"].contains(&charset) => {
                return Err(TokenUriError::UnsupportedEncoding);
            }
            _ => {}
        }
    }
    match (is_base64, is_gzip) {
        (false, false) => inline(InlineForm::Plain, &Cow::from(percent_decode(data.as_bytes()))),
        (false, true) => Err(TokenUriError::UnsupportedEncoding),
        (true, false) if data.trim_ascii_start().starts_with('{') => {
            inline(InlineForm::Base64ButRaw, data.as_bytes())
        }
        (true, false) => inline(InlineForm::Base64, &base64(data)?),
        (true, true) => inline(InlineForm::Gzip, &gunzip(&base64(data)?)?),
    }
}

/// Either alphabet, padded or not, percent-encoded or not, with line breaks or not.
fn base64(data: &str) -> Result<Vec<u8>, TokenUriError> {
    const CONFIG: GeneralPurposeConfig = GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true);
    const ENGINE: GeneralPurpose = GeneralPurpose::new(&STANDARD, CONFIG);
    let symbols: Vec<u8> = percent_decode(data.as_bytes())
        .filter(|byte| !byte.is_ascii_whitespace())
        .map(|byte| match byte {
            b'-' => b'+',
            b'_' => b'/',
            byte => byte,
        })
        .collect();
    ENGINE.decode(symbols).map_err(|_| TokenUriError::Base64)
}

/// Stops one byte behind the limit: 256 KiB of gzip can hold 256 MiB of zeros.
fn gunzip(data: &[u8]) -> Result<Vec<u8>, TokenUriError> {
    let limit = u64::try_from(FILE_BYTES_MAX).unwrap_or(u64::MAX).saturating_add(1);
    let mut file = Vec::new();
    MultiGzDecoder::new(data).take(limit).read_to_end(&mut file).map_err(|_| TokenUriError::Gzip)?;
    Ok(file)
}

fn https(uri: &str) -> Result<TokenUri, TokenUriError> {
    // The same refusals as for origins: what is fetched must be what everybody reads in the URI.
    if Origin::of_url(uri).is_none() {
        return Err(TokenUriError::NotAUri);
    }
    let mut url = Url::parse(uri).map_err(|_| TokenUriError::NotAUri)?;
    if !url.username().is_empty() || url.password().is_some() {
        return Err(TokenUriError::Userinfo);
    }
    url.set_fragment(None);
    Ok(TokenUri::Https(url))
}

/// Behind `ipfs:`: `//CID[/path]`, or `//ipfs/CID[/path]` as some write it. Not for a URL parser, which would fold the
/// case of the CID.
fn ipfs(uri: &str) -> Result<TokenUri, TokenUriError> {
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

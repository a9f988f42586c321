//! tokenURI in the forms seen in the wild (spec/payee.md §1.5).
//!
//! `data:` is taken apart by hand: a URL parser would cut the file off at the `#` that every registration file has in its
//! `type`. What has to be fetched is only classified; which addresses may be fetched from is for whoever fetches.

mod data;
mod ipfs;

use super::{Cid, FILE_BYTES_MAX, FileError, Origin, json};
use serde_json::{Map, Value};
use url::Url;

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
            "data" => data::parse(rest),
            "https" => https(uri),
            "ipfs" => ipfs::parse(rest),
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

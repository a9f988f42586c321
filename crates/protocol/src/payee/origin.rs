//! Origins: WHATWG tuples of scheme, host and port, for the four schemes a payment can be asked over.
//!
//! The check says "this server is listed", so two readers of one URL must not see two servers. What parsers are known to
//! read differently (controls, spaces, backslashes, missing or surplus slashes) is no origin (spec/payee.md §2.4).

use std::fmt;
use url::Url;

/// A URL scheme that has a host and a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Scheme {
    /// `http`, port 80.
    Http,
    /// `https`, port 443.
    Https,
    /// `ws`, port 80.
    Ws,
    /// `wss`, port 443.
    Wss,
}

impl Scheme {
    /// As URLs write it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
            Self::Ws => "ws",
            Self::Wss => "wss",
        }
    }

    /// The port when none is written.
    pub fn default_port(self) -> u16 {
        match self {
            Self::Http | Self::Ws => 80,
            Self::Https | Self::Wss => 443,
        }
    }

    fn parse(text: &str) -> Option<Self> {
        [Self::Http, Self::Https, Self::Ws, Self::Wss]
            .into_iter()
            .find(|scheme| scheme.as_str().eq_ignore_ascii_case(text))
    }
}

/// Scheme, host and port of a URL. `Display` leaves the default port out.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Origin {
    scheme: Scheme,
    host: String,
    port: u16,
}

impl Origin {
    /// User information, host and port, in bytes: what comes before the path is never this long, and internationalised
    /// names are expensive to read.
    const AUTHORITY_BYTES_MAX: usize = 1_024;

    /// The origin of a URL, if it has one that all readers agree on.
    pub fn of_url(url: &str) -> Option<Self> {
        split(url).and_then(|(scheme, authority, _)| Self::new(scheme, authority))
    }

    /// An origin written alone, `scheme://host[:port]`: no user information, and not even the path `/`.
    pub fn parse_bare(text: &str) -> Option<Self> {
        let (scheme, authority, path) = split(text)?;
        if !path.is_empty() || authority.contains('@') {
            return None;
        }
        Self::new(scheme, authority)
    }

    /// Its scheme.
    pub fn scheme(&self) -> Scheme {
        self.scheme
    }

    /// Its host: lower case, ASCII form, IPv6 in brackets.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Its port, written or not.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The path is not handed to the parser: it cannot change the origin.
    fn new(scheme: Scheme, authority: &str) -> Option<Self> {
        if authority.is_empty() || authority.len() > Self::AUTHORITY_BYTES_MAX {
            return None;
        }
        let url = Url::parse(&format!("{}://{authority}", scheme.as_str())).ok()?;
        let host = url.host_str().filter(|host| !host.is_empty())?.to_owned();
        Some(Self { scheme, host, port: url.port_or_known_default()? })
    }
}

/// Scheme, authority and the rest.
fn split(url: &str) -> Option<(Scheme, &str, &str)> {
    if url.chars().any(|c| c.is_control() || c.is_whitespace() || c == '\\') {
        return None;
    }
    let (scheme, rest) = url.split_once("://")?;
    let scheme = Scheme::parse(scheme)?;
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    Some((scheme, authority, path))
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", self.scheme.as_str(), self.host)?;
        if self.port != self.scheme.default_port() {
            write!(f, ":{}", self.port)?;
        }
        Ok(())
    }
}

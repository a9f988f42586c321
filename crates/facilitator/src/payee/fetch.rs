//! Registration files from the web, under the rules of spec/payee.md §2.7. A stranger chose the URL: it must not reach what
//! only this machine reaches, and must not cost more than its cap of bytes, seconds and places.

use super::{
    ipfs::Gateway,
    places::Places,
    public::is_public,
    resolve::{Lookup, NotPublic, System, Vetted},
};
use crate::clock;
use flate2::read::MultiGzDecoder;
use quittance_protocol::payee::{FILE_BYTES_MAX, FileSource, IpfsError};
use reqwest::{
    Client, Response, StatusCode,
    header::{ACCEPT, ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, LOCATION},
    redirect::Policy,
};
use std::{
    io::{self, Read},
    net::{IpAddr, Ipv4Addr},
    sync::Arc,
    time::Duration,
};
use tokio::time::Instant;
use url::{Host, Url};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// Waiting for a place, names, redirects and body together.
const FETCH_TIMEOUT: Duration = Duration::from_secs(5);
const REDIRECTS_MAX: usize = 3;
/// Longest time a file from a web server is kept.
const KEEP_MAX: Duration = Duration::from_secs(60);
const USER_AGENT: &str = concat!("quittance/", env!("CARGO_PKG_VERSION"), " (ERC-8478 payee check)");

/// What may be fetched.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rules {
    /// `http`, and other ports than 443.
    pub(super) any_scheme_and_port: bool,
    /// Addresses that may be connected to.
    pub(super) may: fn(IpAddr) -> bool,
}

impl Rules {
    /// The rules; `private_hosts` lifts those that no local test could keep.
    pub(super) fn new(private_hosts: bool) -> Self {
        if private_hosts {
            Self { any_scheme_and_port: true, may: |_| true }
        } else {
            Self { any_scheme_and_port: false, may: is_public }
        }
    }
}

/// Why a file could not be fetched. Names no URL and no text of the server's.
#[derive(Debug, thiserror::Error)]
pub(super) enum FetchError {
    #[error("only https is fetched")]
    Scheme,
    #[error("URLs with credentials are not fetched")]
    Userinfo,
    #[error("only port 443 is fetched from")]
    Port,
    #[error("the host's address is not a public one")]
    NotPublic,
    #[error("no connection to the host could be made")]
    Connect,
    #[error("the host's certificate is not trusted")]
    Untrusted,
    #[error("the host did not answer in time")]
    Timeout,
    #[error("too many files are being fetched from this host or in all")]
    Busy,
    #[error("the host redirects more than {REDIRECTS_MAX} times")]
    Redirects,
    #[error("the host redirects to nowhere")]
    Location,
    #[error("the host answered with status {0}, not 200")]
    Status(u16),
    #[error("the answer is larger than {0} KiB")]
    TooLarge(usize),
    #[error("the file has a Content-Encoding that is not supported")]
    Encoding,
    #[error("the answer ended early")]
    Broken,
    #[error("ipfs files need a gateway, and payee.ipfs_gateway is not set")]
    NoGateway,
    #[error("the gateway gives no blocks")]
    NoBlocks,
    #[error(transparent)]
    Ipfs(#[from] IpfsError),
}

/// A file.
#[derive(Debug)]
pub(super) struct Fetched {
    pub(super) bytes: Vec<u8>,
    pub(super) source: FileSource,
    /// How long it may be kept; `None`: it can never change.
    pub(super) keep: Option<Duration>,
}

/// Fetches files.
#[derive(Debug)]
pub(super) struct Fetcher {
    rules: Rules,
    strangers: Client,
    /// The operator's, the first asked first.
    pub(super) gateways: Vec<Gateway>,
    places: Places,
}

impl Fetcher {
    pub(super) fn new(rules: Rules, gateways: &[Url]) -> Result<Self, reqwest::Error> {
        Self::with_lookup(rules, gateways, Arc::new(System::new()))
    }

    pub(super) fn with_lookup(
        rules: Rules,
        gateways: &[Url],
        lookup: Arc<dyn Lookup>,
    ) -> Result<Self, reqwest::Error> {
        // No connection is used twice: each one is to an address that was looked at.
        let strangers = client()
            .pool_max_idle_per_host(0)
            .dns_resolver(Arc::new(Vetted { lookup, may: rules.may }))
            .build()?;
        let gateways = gateways.iter().map(|url| Ok(Gateway { url: url.clone(), client: client().build()? }));
        Ok(Self { rules, strangers, gateways: gateways.collect::<Result<_, _>>()?, places: Places::new() })
    }

    /// A file from a web server.
    pub(super) async fn https(&self, url: Url, deadline: Instant) -> Result<Fetched, FetchError> {
        let response = self.get(url, None, &JSON, within(deadline)).await?;
        let keep = keep(&response.headers);
        Ok(Fetched { bytes: response.bytes, source: FileSource::Https, keep: Some(keep) })
    }

    /// One answer with status 200, over redirects that are each looked at like the first URL.
    pub(super) async fn get(
        &self,
        mut url: Url,
        gateway: Option<&Gateway>,
        wanted: &Wanted,
        deadline: Instant,
    ) -> Result<Answer, FetchError> {
        for _ in 0..=REDIRECTS_MAX {
            let client = self.client_for(&url, gateway)?;
            let host = url.host_str().unwrap_or_default();
            let _place = tokio::time::timeout_at(deadline, self.places.take(host))
                .await
                .ok()
                .flatten()
                .ok_or(FetchError::Busy)?;
            let once = tokio::time::timeout_at(deadline, once(client, &url, wanted));
            match once.await.map_err(|_| FetchError::Timeout)?? {
                Once::Answer(answer) => return Ok(answer),
                Once::Redirect(to) => url = url.join(&to).map_err(|_| FetchError::Location)?,
            }
        }
        Err(FetchError::Redirects)
    }

    /// A gateway's own client only for what began there: a stranger's redirect must not lead to it.
    fn client_for<'a>(&'a self, url: &Url, gateway: Option<&'a Gateway>) -> Result<&'a Client, FetchError> {
        if let Some(gateway) = gateway
            && gateway.url.origin() == url.origin()
        {
            return Ok(&gateway.client);
        }
        match url.scheme() {
            "https" => {}
            "http" if self.rules.any_scheme_and_port => {}
            _ => return Err(FetchError::Scheme),
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(FetchError::Userinfo);
        }
        if !self.rules.any_scheme_and_port && url.port_or_known_default() != Some(443) {
            return Err(FetchError::Port);
        }
        // A host that is an address is not looked up, so the resolver does not see it.
        let literal = match url.host() {
            Some(Host::Ipv4(address)) => Some(IpAddr::V4(address)),
            Some(Host::Ipv6(address)) => Some(IpAddr::V6(address)),
            Some(Host::Domain(name)) => name.trim_end_matches('.').parse::<Ipv4Addr>().ok().map(IpAddr::V4),
            None => return Err(FetchError::Scheme),
        };
        if literal.is_some_and(|address| !(self.rules.may)(address)) {
            return Err(FetchError::NotPublic);
        }
        Ok(&self.strangers)
    }
}

/// No proxy, cookie, referrer or credential.
fn client() -> reqwest::ClientBuilder {
    Client::builder()
        .no_proxy()
        .redirect(Policy::none())
        .referer(false)
        .connect_timeout(CONNECT_TIMEOUT)
        .timeout(FETCH_TIMEOUT)
        .user_agent(USER_AGENT)
}

/// When a fetch that begins now has to be over.
pub(super) fn within(deadline: Instant) -> Instant {
    deadline.min(clock::instant() + FETCH_TIMEOUT)
}

/// What is asked for.
pub(super) struct Wanted {
    pub(super) media_type: &'static str,
    pub(super) bytes_max: usize,
}

pub(super) const JSON: Wanted = Wanted { media_type: "application/json", bytes_max: FILE_BYTES_MAX };

pub(super) struct Answer {
    pub(super) headers: reqwest::header::HeaderMap,
    pub(super) bytes: Vec<u8>,
}

enum Once {
    Answer(Answer),
    Redirect(String),
}

async fn once(client: &Client, url: &Url, wanted: &Wanted) -> Result<Once, FetchError> {
    let request =
        client.get(url.clone()).header(ACCEPT, wanted.media_type).header(ACCEPT_ENCODING, "gzip, identity");
    let response = request.send().await.map_err(|error| classify(&error))?;
    match response.status() {
        StatusCode::OK => {
            let headers = response.headers().clone();
            Ok(Once::Answer(Answer { headers, bytes: body(response, wanted.bytes_max).await? }))
        }
        StatusCode::MOVED_PERMANENTLY
        | StatusCode::FOUND
        | StatusCode::SEE_OTHER
        | StatusCode::TEMPORARY_REDIRECT
        | StatusCode::PERMANENT_REDIRECT => {
            let to = response.headers().get(LOCATION).and_then(|to| to.to_str().ok());
            Ok(Once::Redirect(to.ok_or(FetchError::Location)?.to_owned()))
        }
        status => Err(FetchError::Status(status.as_u16())),
    }
}

fn classify(error: &reqwest::Error) -> FetchError {
    let mut source: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(cause) = source {
        if cause.is::<NotPublic>() {
            return FetchError::NotPublic;
        }
        if error.is_connect() && cause.downcast_ref::<io::Error>().is_some_and(is_handshake) {
            return FetchError::Untrusted;
        }
        source = cause.source();
    }
    match error {
        error if error.is_timeout() => FetchError::Timeout,
        error if error.is_connect() => FetchError::Connect,
        _ => FetchError::Broken,
    }
}

/// How a failed handshake is told, within the error of the connection or as it.
fn is_handshake(error: &io::Error) -> bool {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<io::Error>());
    error.kind() == io::ErrorKind::InvalidData || inner.is_some_and(is_handshake)
}

/// At most so many bytes, on the wire and out of their compression.
async fn body(mut response: Response, bytes_max: usize) -> Result<Vec<u8>, FetchError> {
    let too_large = || FetchError::TooLarge(bytes_max / 1024);
    let gzip = match response.headers().get(CONTENT_ENCODING).map(|encoding| encoding.as_bytes()) {
        None | Some(b"" | b"identity") => false,
        Some(b"gzip" | b"x-gzip") => true,
        Some(_) => return Err(FetchError::Encoding),
    };
    let mut bytes = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(|error| classify(&error))? {
        if bytes.len().saturating_add(chunk.len()) > bytes_max {
            return Err(too_large());
        }
        bytes.extend_from_slice(&chunk);
    }
    if !gzip {
        return Ok(bytes);
    }
    // One byte more than allowed is enough to know.
    let limit = u64::try_from(bytes_max).unwrap_or(u64::MAX).saturating_add(1);
    let mut file = Vec::new();
    MultiGzDecoder::new(bytes.as_slice())
        .take(limit)
        .read_to_end(&mut file)
        .map_err(|_| FetchError::Encoding)?;
    if file.len() > bytes_max { Err(too_large()) } else { Ok(file) }
}

/// A minute at most, less if the server says so, and not at all if it says that.
pub(super) fn keep(headers: &reqwest::header::HeaderMap) -> Duration {
    let directives = headers
        .get_all(CACHE_CONTROL)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(|directive| directive.trim().to_ascii_lowercase());
    directives.fold(KEEP_MAX, |keep, directive| match directive.split_once('=') {
        None if directive == "no-store" || directive == "no-cache" => Duration::ZERO,
        Some(("max-age", seconds)) => {
            seconds.trim_matches('"').parse().map_or(keep, |seconds| keep.min(Duration::from_secs(seconds)))
        }
        _ => keep,
    })
}

#[cfg(test)]
mod tests;

//! Files on IPFS, over the operator's gateways. They are asked for blocks that prove themselves (spec/payee.md §2.7); only where
//! none of them gives blocks, or there is something in them that cannot be checked, a gateway is believed, and the answer says
//! so.

use super::fetch::{Answer, FetchError, Fetched, Fetcher, JSON, Wanted, keep, within};
use crate::clock;
use quittance_protocol::payee::{BLOCK_BYTES_MAX, Cid, FileSource, IpfsError, IpfsFile};
use reqwest::{Client, header::CONTENT_TYPE};
use tokio::time::Instant;
use url::Url;

const BLOCK: Wanted = Wanted { media_type: "application/vnd.ipld.raw", bytes_max: BLOCK_BYTES_MAX };

/// Below whose URL `/ipfs/CID` is. It may be on a private address, so it has a client of its own.
#[derive(Debug)]
pub(super) struct Gateway {
    pub(super) url: Url,
    pub(super) client: Client,
}

impl Gateway {
    fn at(&self, cid: &Cid, path: &str) -> Result<Url, FetchError> {
        let mut url = self.url.clone();
        url.path_segments_mut()
            .map_err(|()| FetchError::NoGateway)?
            .pop_if_empty()
            .extend(["ipfs", cid.as_str()])
            .extend(path.split('/').filter(|name| !name.is_empty()));
        Ok(url)
    }
}

impl Fetcher {
    /// A file on IPFS.
    pub(super) async fn ipfs(&self, cid: &Cid, path: &str, deadline: Instant) -> Result<Fetched, FetchError> {
        let deadline = within(deadline);
        match self.proven(cid, path, deadline).await? {
            Some(bytes) => Ok(Fetched { bytes, source: FileSource::Ipfs, keep: None }),
            None => self.believed(cid, path, deadline).await,
        }
    }

    /// The file from its blocks; `None`: nothing could be proven, and nothing was found false.
    async fn proven(&self, cid: &Cid, path: &str, deadline: Instant) -> Result<Option<Vec<u8>>, FetchError> {
        let mut file = match IpfsFile::new(cid, path) {
            Err(IpfsError::Unprovable) => return Ok(None),
            file => file?,
        };
        let mut gateways: Vec<&Gateway> = self.gateways.iter().collect();
        let mut is_root = true;
        while let Some(cid) = file.wanted().cloned() {
            match self.block(&mut file, &cid, &mut gateways, deadline).await {
                Ok(()) => is_root = false,
                Err(FetchError::Ipfs(IpfsError::Unprovable)) => return Ok(None),
                Err(error @ FetchError::Ipfs(_)) => return Err(error),
                // Who gives the first block gives blocks.
                Err(_) if is_root => return Ok(None),
                Err(error) => return Err(error),
            }
        }
        Ok(file.into_bytes())
    }

    /// One block, from the first gateway that has it, which is asked first for the next one. A gateway that gives another block
    /// is passed over; if nobody has the right one, it was not for want of an answer.
    async fn block(
        &self,
        file: &mut IpfsFile,
        cid: &Cid,
        gateways: &mut [&Gateway],
        deadline: Instant,
    ) -> Result<(), FetchError> {
        let (mut failed, mut another) = (FetchError::NoGateway, false);
        for index in 0..gateways.len() {
            let left = gateways.get(index..).unwrap_or_default();
            let Some(gateway) = left.first() else { break };
            let mut url = gateway.at(cid, "")?;
            url.set_query(Some("format=raw"));
            match self.get(url, Some(gateway), &BLOCK, share(deadline, left.len())).await {
                Ok(answer) => match file.give(&answer.bytes) {
                    Err(IpfsError::NotTheBlock) if is_block(&answer) => another = true,
                    Err(IpfsError::NotTheBlock) => failed = FetchError::NoBlocks,
                    given => {
                        gateways.swap(0, index);
                        return Ok(given?);
                    }
                },
                Err(error) => failed = error,
            }
        }
        Err(if another { IpfsError::NotTheBlock.into() } else { failed })
    }

    /// The file as the first gateway gives it that has it.
    async fn believed(&self, cid: &Cid, path: &str, deadline: Instant) -> Result<Fetched, FetchError> {
        // Such a file is a block by itself, so it can be checked all the same.
        let is_block = path.is_empty() && cid.codec() == Cid::RAW && cid.is_provable();
        let mut failed = FetchError::NoGateway;
        for (index, gateway) in self.gateways.iter().enumerate() {
            let deadline = share(deadline, self.gateways.len().saturating_sub(index));
            match self.get(gateway.at(cid, path)?, Some(gateway), &JSON, deadline).await {
                Ok(Answer { bytes, .. }) if is_block && cid.names(&bytes) => {
                    return Ok(Fetched { bytes, source: FileSource::Ipfs, keep: None });
                }
                Ok(_) if is_block => failed = IpfsError::NotTheBlock.into(),
                Ok(Answer { bytes, headers }) => {
                    let keep = Some(keep(&headers));
                    return Ok(Fetched { bytes, source: FileSource::IpfsGateway, keep });
                }
                Err(error) => failed = error,
            }
        }
        Err(failed)
    }
}

/// Whether a gateway says that it gives a block. Many give the file instead, and say so.
fn is_block(answer: &Answer) -> bool {
    let media_type = answer.headers.get(CONTENT_TYPE).map_or(&[][..], |media_type| media_type.as_bytes());
    media_type.starts_with(BLOCK.media_type.as_bytes())
}

/// An equal share of the time for each gateway that is left, so that a silent one does not use up the others'.
fn share(deadline: Instant, left: usize) -> Instant {
    let now = clock::instant();
    let left = u32::try_from(left).unwrap_or(u32::MAX).max(1);
    now + deadline.saturating_duration_since(now) / left
}

//! One check: plan, read, decide.

use super::{
    cache::Cache,
    fetch::{FetchError, Fetched, Fetcher, Rules},
    origins::Origins,
    places::ByName,
    registry::Registry,
    time::in_time,
};
use crate::{clock, config::PayeeSettings, metrics, names::log_unjudged};
use alloy_primitives::{B256, keccak256};
use futures::future;
use quittance_evm::registry::Reading;
use quittance_protocol::{
    payee::{
        Answer, Block, Claim, Context, Fact, Facts, FileSource, Identity, Named, Plan, Policy, Questions,
        Registration, RegistrationFile, RegistryId, TokenUri, UnreadReason, decide, plan,
    },
    wire::Refusal,
};
use quittance_store::Store;
use serde_json::Value;
use std::{collections::BTreeMap, fmt, sync::Arc, time::Duration};
use tokio::{sync::Mutex, time::Instant};
use url::Url;

/// Longest time one check may take, all in all.
const CHECK_TIMEOUT: Duration = Duration::from_secs(8);
const LATE: &str = "the registry's chain was not read in time";
/// How long a file that could not be had is not asked for again.
const FAILURE_KEPT: Duration = Duration::from_secs(5);
/// Room for what was read, and for files.
const CACHE_BYTES_MAX: usize = 16 << 20;

/// Runs payee checks.
#[derive(Debug)]
pub(crate) struct Checker {
    policy: Policy,
    registries: BTreeMap<RegistryId, Registry>,
    v1_networks: BTreeMap<String, String>,
    private_hosts: bool,
    fetcher: Fetcher,
    readings: Cache<ReadingKey, Reading>,
    files: Cache<B256, Fact<RegistrationFile>>,
    /// Of checks that need the same file, one fetches it.
    fetching: ByName<Mutex<()>>,
    origins: Origins,
}

/// Everything a reading depends on. The same at a block's hash for ever.
#[derive(Clone, PartialEq, Eq, Hash)]
struct ReadingKey {
    block: B256,
    identity: Identity,
    question: Option<B256>,
}

impl Checker {
    /// Remembers identities of origins in `store`, or without one for as long as it lives.
    pub(crate) fn new(
        settings: &PayeeSettings,
        store: Option<Arc<dyn Store>>,
    ) -> Result<Self, reqwest::Error> {
        let registries: BTreeMap<_, _> = settings
            .registries
            .iter()
            .enumerate()
            .map(|(position, registry)| Ok((registry.id, Registry::new(position, registry)?)))
            .collect::<Result<_, reqwest::Error>>()?;
        Ok(Self {
            policy: Policy {
                registries: registries.keys().copied().collect(),
                eip7702_is_eoa: settings.eip7702_is_eoa,
            },
            registries,
            v1_networks: settings.v1_networks.clone(),
            private_hosts: settings.allow_private_hosts,
            fetcher: Fetcher::new(Rules::new(settings.allow_private_hosts), &settings.ipfs_gateways)?,
            readings: Cache::new(CACHE_BYTES_MAX),
            files: Cache::new(CACHE_BYTES_MAX),
            fetching: ByName::default(),
            origins: Origins::new(store),
        })
    }

    /// What a payment requirement claims.
    pub(crate) fn claim(
        &self,
        requirements: &Value,
        payload: Option<&Value>,
        requested_url: Option<&str>,
        known: Named,
    ) -> Result<Claim, Refusal> {
        let context = Context { payload, requested_url, known, v1_networks: &self.v1_networks };
        let claim = Claim::read(requirements, &context)?;
        log_unjudged(&claim.network);
        Ok(claim)
    }

    /// The outcome. Never an error: what cannot be read is an outcome as well.
    pub(crate) async fn check(&self, claim: &Claim) -> Answer {
        let deadline = clock::instant() + CHECK_TIMEOUT;
        let read = async {
            match plan(claim, &self.policy) {
                Plan::Nothing => Facts::none(),
                Plan::Read(questions) => self.read(&questions, deadline).await,
            }
        };
        let (mut facts, remembered) = future::join(read, self.remembered(claim, deadline)).await;
        facts.remembered = remembered;
        let now = clock::now();
        let mut answer = decide(claim, &facts, &self.policy, now);
        let learned = self.origins.learn(&answer, deadline).await;
        if learned.is_some() && learned != remembered {
            facts.remembered = learned;
            answer = decide(claim, &facts, &self.policy, now);
        }
        metrics::payee_checked(answer.outcome.as_str());
        if let Some((read, reason)) = answer.outcome.failed_read() {
            tracing::debug!(%read, %reason, "a payee check did not read everything");
        }
        answer
    }

    /// Only where an identity is named can it differ from an earlier one.
    async fn remembered(&self, claim: &Claim, deadline: Instant) -> Option<Identity> {
        match (claim.identity(), &claim.origin) {
            ((Named::Identity(_), _), Some(origin)) => self.origins.first_identity(origin, deadline).await,
            _ => None,
        }
    }

    async fn read(&self, questions: &Questions, deadline: Instant) -> Facts {
        let Some(registry) = self.registries.get(&questions.identity.registry) else { return Facts::none() };
        let block = match in_time(deadline, LATE, registry.block()).await {
            Fact::Read(block) => block,
            unread => return Facts { block: unread, ..Facts::none() },
        };
        let reading = match self.reading(registry, &block, questions, deadline).await {
            Fact::Read(reading) => reading,
            Fact::Unread(reason) => {
                return Facts { block: Fact::Read(block), registry: Fact::Unread(reason), ..Facts::none() };
            }
            Fact::NotAsked => return Facts { block: Fact::Read(block), ..Facts::none() },
        };
        let file = match &reading.token_uri {
            Fact::Read(uri) => self.file(uri, deadline).await,
            Fact::Unread(reason) => Fact::Unread(reason.clone()),
            Fact::NotAsked => Fact::NotAsked,
        };
        Facts {
            block: Fact::Read(block),
            registry: reading.registry,
            file,
            code: reading.code,
            erc1271: reading.erc1271,
            remembered: None,
        }
    }

    async fn reading(
        &self,
        registry: &Registry,
        block: &Block,
        questions: &Questions,
        deadline: Instant,
    ) -> Fact<Reading> {
        let question = questions
            .signature
            .as_ref()
            .map(|q| keccak256([q.wallet.as_slice(), q.digest.as_slice(), q.signature.as_ref()].concat()));
        let key = ReadingKey { block: block.hash, identity: questions.identity, question };
        if let Some(reading) = self.readings.get(&key, clock::instant()) {
            return Fact::Read(reading);
        }
        let reading = in_time(deadline, LATE, registry.read(block, questions)).await;
        if let Fact::Read(reading) = &reading
            && is_complete(reading)
        {
            let bytes = reading.token_uri.value().map_or(0, |uri| uri.len());
            self.readings.put(key, reading.clone(), bytes, None, clock::instant());
        }
        reading
    }

    /// The registration file behind a tokenURI.
    async fn file(&self, uri: &[u8], deadline: Instant) -> Fact<RegistrationFile> {
        let place = match self.locate(uri) {
            Ok(Place::Here(file)) => return file,
            Ok(place) => place,
            Err(reason) => return Fact::Unread(reason),
        };
        let key = keccak256(uri);
        if let Some(file) = self.files.get(&key, clock::instant()) {
            return file;
        }
        let one = self.fetching.get(&key.to_string(), Mutex::default);
        let Ok(_turn) = tokio::time::timeout_at(deadline, one.lock()).await else {
            return unread(FetchError::Busy);
        };
        if let Some(file) = self.files.get(&key, clock::instant()) {
            return file;
        }
        let fetched = match &place {
            Place::Web(url) => self.fetcher.https(url.clone(), deadline).await,
            Place::Ipfs(cid, path) => self.fetcher.ipfs(cid, path, deadline).await,
            Place::Here(file) => return file.clone(),
        };
        let (file, bytes, keep) = match fetched {
            Ok(fetched) => understand(&fetched),
            // Our own limit says nothing about the host.
            Err(error @ FetchError::Busy) => return unread(error),
            Err(error) => (unread(error), 0, Some(FAILURE_KEPT)),
        };
        if keep != Some(Duration::ZERO) {
            self.files.put(key, file.clone(), bytes, keep, clock::instant());
        }
        file
    }

    fn locate(&self, uri: &[u8]) -> Result<Place, UnreadReason> {
        if self.private_hosts
            && let Some(url) = http_url(uri)
        {
            return Ok(Place::Web(url));
        }
        Ok(match TokenUri::parse(uri).map_err(UnreadReason::new)? {
            TokenUri::Inline { file, .. } => Place::Here(match Registration::from_object(&file) {
                Ok(registration) => Fact::Read(RegistrationFile {
                    registration,
                    source: FileSource::Inline,
                    fetched_at: None,
                }),
                Err(error) => unread(error),
            }),
            TokenUri::Https(url) => Place::Web(url),
            TokenUri::Ipfs { cid, path } => Place::Ipfs(cid, path),
        })
    }
}

/// Where a file is.
enum Place {
    Here(Fact<RegistrationFile>),
    Web(Url),
    Ipfs(quittance_protocol::payee::Cid, String),
}

/// For tests, which have no certificate that the world would believe.
fn http_url(uri: &[u8]) -> Option<Url> {
    let text = std::str::from_utf8(uri).ok().filter(|text| text.starts_with("http://"))?;
    Url::parse(text).ok()
}

/// Whether every answer is in; what a node did not manage is worth another try.
fn is_complete(reading: &Reading) -> bool {
    !matches!(reading.registry, Fact::Unread(_))
        && !matches!(reading.token_uri, Fact::Unread(_))
        && !matches!(reading.code, Fact::Unread(_))
        && !matches!(reading.erc1271, Fact::Unread(_))
}

/// The file, about how much room it takes, and how long it may be kept.
fn understand(fetched: &Fetched) -> (Fact<RegistrationFile>, usize, Option<Duration>) {
    match Registration::parse(&fetched.bytes) {
        Ok(registration) => {
            let fetched_at = Some(clock::now());
            let file = RegistrationFile { registration, source: fetched.source, fetched_at };
            (Fact::Read(file), fetched.bytes.len(), fetched.keep)
        }
        Err(error) => (unread(error), 0, Some(FAILURE_KEPT)),
    }
}

fn unread<T>(reason: impl fmt::Display) -> Fact<T> {
    Fact::Unread(UnreadReason::new(reason))
}

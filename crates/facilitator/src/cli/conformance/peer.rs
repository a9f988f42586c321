//! The facilitator under test: what it says it is, and what it says about payments.

use super::{args::Conformance, terms::Names};
use crate::config;
use alloy_primitives::Address;
use anyhow::{Context as _, bail, ensure};
use quittance_testkit::{Answer, Facilitator, payment::legacy_network};
use serde_json::Value;
use std::{collections::BTreeSet, time::Duration};
use url::Url;

/// As long as the official clients wait.
const ANSWER_DEADLINE: Duration = Duration::from_secs(90);
/// Longest text of a facilitator that goes into a report.
const TEXT_CHARS_MAX: usize = 300;

/// Who answers, for the report.
#[derive(Clone, Debug)]
pub(super) struct Product {
    pub(super) name: String,
    pub(super) version: String,
    /// Without path, query and password.
    pub(super) url: String,
}

/// The two questions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Endpoint {
    Verify,
    Settle,
}

impl Endpoint {
    pub(super) fn path(self) -> &'static str {
        match self {
            Self::Verify => "/verify",
            Self::Settle => "/settle",
        }
    }
}

/// What came back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Valid,
    /// With the reason code, empty if there is none.
    Refused(String),
    /// No answer, or none that says yes or no.
    None,
}

/// One answer.
#[derive(Clone, Debug)]
pub(super) struct Said {
    pub(super) verdict: Verdict,
    /// 0 if there was no HTTP answer.
    pub(super) http_status: u16,
    /// Its own explanation, or ours of why there is no verdict.
    pub(super) message: String,
    /// The hash in an answer of `/settle`.
    pub(super) transaction: String,
}

/// The facilitator.
#[derive(Debug)]
pub(super) struct Peer {
    client: Facilitator,
    pub(super) product: Product,
    pub(super) names: Names,
    pub(super) signers: Vec<Address>,
    /// Its clock is this machine's.
    pub(super) same_clock: bool,
}

impl Peer {
    /// Reads `/supported`.
    pub(super) async fn meet(arguments: &Conformance, chain_id: u64) -> anyhow::Result<Self> {
        let url = arguments.url.as_deref().context("--url is missing")?;
        let parsed = Url::parse(url).context("--url")?;
        let mut client = Facilitator::with_timeout(url, ANSWER_DEADLINE)?;
        if let Some(reference) = &arguments.api_key {
            client = client.api_key(config::secret("--api-key", reference)?.expose());
        }
        let answer = client.get("/supported").await?;
        ensure!(answer.status == 200, "GET /supported answered HTTP {}", answer.status);
        let supported = &answer.json;
        let kinds = supported["kinds"].as_array().context("GET /supported has no list of kinds")?;
        let serves = |version: u64, network: &str| {
            kinds.iter().any(|kind| {
                kind["x402Version"] == version && kind["scheme"] == "exact" && kind["network"] == network
            })
        };
        let v2 = arguments.network.clone().unwrap_or_else(|| format!("eip155:{chain_id}"));
        ensure!(v2 == format!("eip155:{chain_id}"), "--network is {v2}, but --rpc has chain {chain_id}");
        let v1 = arguments.v1_name.clone().or_else(|| legacy_network(chain_id).map(str::to_owned));
        let names = Names {
            chain_id,
            v1: v1.filter(|name| serves(1, name)),
            v2: Some(v2.clone()).filter(|name| serves(2, name)),
        };
        if names.v1.is_none() && names.v2.is_none() {
            bail!("GET /supported lists no kind \"exact\" on {v2}, nor on its name in version 1");
        }
        Ok(Self {
            product: product(arguments, &answer, &parsed),
            names,
            signers: signers(supported),
            same_clock: arguments.same_clock || is_loopback(&parsed),
            client,
        })
    }

    /// Presents a payment.
    pub(super) async fn ask(&self, endpoint: Endpoint, body: &Value) -> Said {
        match self.client.post(endpoint.path(), body, &[]).await {
            Ok(answer) => understand(endpoint, &answer),
            Err(error) => Said {
                verdict: Verdict::None,
                http_status: 0,
                message: short(&format!("{error:#}")),
                transaction: String::new(),
            },
        }
    }
}

/// A verdict is a yes with HTTP 200, or a no that is not a failure of the server or of the caller's rights.
fn understand(endpoint: Endpoint, answer: &Answer) -> Said {
    let body = &answer.json;
    let text = |field: &str| short(body[field].as_str().unwrap_or_default());
    let (verdict, reason, message) = match endpoint {
        Endpoint::Verify => (&body["isValid"], "invalidReason", "invalidMessage"),
        Endpoint::Settle => (&body["success"], "errorReason", "errorMessage"),
    };
    let status = answer.status;
    let decides = matches!(status, 200..=299 | 400 | 402 | 409 | 412 | 422);
    let (verdict, message) = match verdict.as_bool() {
        Some(true) if (200..=299).contains(&status) => (Verdict::Valid, text(message)),
        Some(false) if decides => (Verdict::Refused(text(reason)), text(message)),
        _ => {
            let excerpt: String = answer.text.split_whitespace().collect::<Vec<_>>().join(" ");
            (Verdict::None, short(&format!("HTTP {status}: {excerpt}")))
        }
    };
    Said { verdict, http_status: status, message, transaction: text("transaction") }
}

/// What it says itself unless the caller knows better.
fn product(arguments: &Conformance, answer: &Answer, url: &Url) -> Product {
    let own = |field: &str| answer.json[field].as_str().map(short);
    let (mut name, mut version) = (own("name"), own("version"));
    if let (None, Some(server)) = (&name, answer.header("server")) {
        // "product/version comment", as RFC 9110 has it.
        let first = server.split_whitespace().next().unwrap_or_default();
        let (product, number) = first.split_once('/').unwrap_or((first, ""));
        name = Some(short(product)).filter(|name| !name.is_empty());
        version = version.or(Some(short(number)).filter(|number| !number.is_empty()));
    }
    let unknown = || "unknown".to_owned();
    Product {
        name: arguments.name.clone().or(name).unwrap_or_else(unknown),
        version: arguments.product_version.clone().or(version).unwrap_or_else(unknown),
        url: url.origin().ascii_serialization(),
    }
}

/// Addresses under any family of chains that could be this one.
fn signers(supported: &Value) -> Vec<Address> {
    let families = supported["signers"].as_object().into_iter().flatten();
    let addresses: BTreeSet<Address> = families
        .filter(|(family, _)| family.starts_with("eip155:"))
        .filter_map(|(_, addresses)| addresses.as_array())
        .flatten()
        .filter_map(|address| address.as_str()?.parse().ok())
        .collect();
    addresses.into_iter().collect()
}

fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(url::Host::Domain(name)) => name == "localhost",
        Some(url::Host::Ipv4(address)) => address.is_loopback(),
        Some(url::Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    }
}

fn short(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(TEXT_CHARS_MAX).collect()
}

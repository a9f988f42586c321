//! `quittance payee`: the payee check of a 402 answer or of one payment requirement, before anything is signed.

use crate::{config, names::named_on, payee::Checker};
use quittance_protocol::{
    interop::{InteropAddress, coherent},
    payee::{Answer, Claim, Named, RegistryId},
};
use serde::Serialize;
use serde_json::Value;
use std::{
    io::Read,
    path::{Path, PathBuf},
    process::ExitCode,
};

#[derive(Debug, clap::Args)]
pub(super) struct Payee {
    /// A 402 answer, one payment requirement, or a body of POST /payee, as JSON; - is standard input.
    file: PathBuf,
    /// The URL that was asked for.
    #[arg(long, value_name = "URL")]
    resource: Option<String>,
    /// The registry of the agent that is meant, eip155:CHAIN:0xADDRESS. It wins over the one in FILE.
    #[arg(long, value_name = "ID", requires = "agent_id")]
    registry: Option<String>,
    /// The agent that is meant.
    #[arg(long, value_name = "N", requires = "registry")]
    agent_id: Option<String>,
    /// Configuration file; else $QUITTANCE_CONFIG, else ./quittance.toml. Only [payee] and the endpoints of [[networks]]
    /// are read: no signer is needed.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

/// Anything but a finding: nothing was read, or the call makes no sense.
const NOT_READ: u8 = 2;

pub(super) async fn run(arguments: Payee) -> ExitCode {
    match check(&arguments).await {
        Ok(answers) => {
            let shown: Vec<Shown<'_>> = answers.iter().map(Shown::new).collect();
            let printed = match shown.as_slice() {
                [answer] => serde_json::to_string_pretty(answer),
                answers => serde_json::to_string_pretty(answers),
            };
            println!("{}", printed.unwrap_or_default());
            exit_code(&answers)
        }
        Err(error) => {
            eprintln!("quittance: {error:#}");
            ExitCode::from(NOT_READ)
        }
    }
}

/// What `POST /payee` answers, and for the eye the names of its addresses beside the bare ones that scripts take.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Shown<'a> {
    #[serde(flatten)]
    answer: &'a Answer,
    registry_name: Option<String>,
    agent_wallet_name: Option<String>,
    pay_to_name: Option<String>,
}

impl<'a> Shown<'a> {
    fn new(answer: &'a Answer) -> Self {
        let registry = answer.identity.map(|(identity, _)| identity.registry);
        // The zero address says that there is no wallet; nobody is to copy it as one.
        let wallet = answer.agent_wallet.filter(|wallet| !wallet.is_zero());
        let on_registry_chain = |wallet| Some(named_on(registry?.chain_id(), wallet));
        Self {
            answer,
            registry_name: registry.as_ref().map(registry_name),
            agent_wallet_name: wallet.and_then(on_registry_chain),
            pay_to_name: name(&answer.network, &answer.pay_to),
        }
    }
}

/// An address as a requirement writes it, with its network and a checksum over both; `None` if the network has no such address.
pub(super) fn name(network: &str, address: &str) -> Option<String> {
    InteropAddress::payee(network, address).ok().map(|name| name.to_string())
}

pub(super) fn registry_name(registry: &RegistryId) -> String {
    named_on(registry.chain_id(), registry.address())
}

/// 0 only if each way to pay is verified; 2 as soon as one was not read.
fn exit_code(answers: &[Answer]) -> ExitCode {
    if answers.iter().any(|answer| answer.outcome.failed_read().is_some()) {
        ExitCode::from(NOT_READ)
    } else if answers.iter().all(|answer| answer.outcome.is_verified()) {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

async fn check(arguments: &Payee) -> anyhow::Result<Vec<Answer>> {
    let settings = config::load_payee(arguments.config.as_deref())?;
    let checker = Checker::new(&settings, None)?;
    let body = read_json(&arguments.file)?;
    let part = |name: &str| body.get(name).filter(|value| !value.is_null());
    let requirements: Vec<&Value> = match (part("accepts"), part("paymentRequirements")) {
        (Some(accepts), _) => {
            accepts.as_array().ok_or_else(|| anyhow::anyhow!("accepts must be a list"))?.iter().collect()
        }
        (None, Some(requirements)) => vec![requirements],
        (None, None) => vec![&body],
    };
    anyhow::ensure!(!requirements.is_empty(), "accepts is empty: there is nobody to pay");
    // A version 2 answer names its resource beside `accepts`, where a payment does as well.
    let payload = part("paymentPayload").or(Some(&body));
    let resource = arguments.resource.as_deref().or_else(|| match part("paymentRequirements") {
        Some(_) => part("resource")?.as_str(),
        None => None,
    });
    let known = match (&arguments.registry, &arguments.agent_id) {
        (None, None) if part("paymentRequirements").is_some() => {
            Named::read(part("registry"), part("agentId"))
        }
        (registry, agent_id) => {
            let text = |text: &Option<String>| text.clone().map(Value::String);
            Named::read(text(registry).as_ref(), text(agent_id).as_ref())
        }
    };
    let mut answers = Vec::with_capacity(requirements.len());
    for requirement in requirements {
        let claim = checker
            .claim(requirement, payload, resource, known)
            .map_err(|refusal| anyhow::anyhow!("{}", refusal.message))?;
        warn(&claim);
        answers.push(checker.check(&claim).await);
    }
    Ok(answers)
}

/// An address that its network cannot have. The outcome is about the agent and its word, so this stands beside it.
fn warn(claim: &Claim) {
    for (field, address) in [("payTo", &claim.pay_to), ("asset", &claim.asset)] {
        if let Err(refusal) = coherent(&claim.network, field, address) {
            eprintln!("warning: {}", refusal.message);
        }
    }
}

/// JSON from a file or, for `-`, from standard input.
pub(super) fn read_json(path: &Path) -> anyhow::Result<Value> {
    let text = if path == Path::new("-") {
        let mut text = String::new();
        std::io::stdin().read_to_string(&mut text)?;
        text
    } else {
        std::fs::read_to_string(path)
            .map_err(|error| anyhow::anyhow!("{}: {}", path.display(), error.kind()))?
    };
    serde_json::from_str(&text).map_err(|_| anyhow::anyhow!("{}: not JSON", path.display()))
}

//! `quittance delegation`: a seller lets another address be paid for its agent (ERC-8478 §3).

use super::payee::{name, read_json, registry_name};
use crate::{clock, config, names::named_on};
use alloy_primitives::{Address, B256};
use clap::Subcommand;
use k256::ecdsa::SigningKey;
use quittance_protocol::{
    interop::{InteropAddress, InteropError},
    payee::{
        Carried, Delegation, Fact, Identity, Message, Named, Origin, RegistryId, Subject,
        VALIDITY_SECONDS_MAX, Verdict, recover,
    },
    units::parse_decimal_u256,
    wire::parse_address,
};
use serde_json::{Value, json};
use std::{path::PathBuf, process::ExitCode};
use uuid::Uuid;

const DAY_SECONDS: u64 = 86_400;
const CLOCK_SECONDS: u64 = 60;
/// Nothing but a new agent wallet takes a delegation back before its end.
const DAYS_WITHOUT_WARNING: u64 = 90;
/// Exit code of a check that came to no verdict.
const NO_VERDICT: u8 = 2;

#[derive(Debug, clap::Args)]
pub(super) struct DelegationCommand {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Sign one with the agent wallet's key. Prints what goes into extra.erc8004, and the entry for `payees` in the
    /// registration file.
    Sign(Box<Sign>),
    /// Judge one without a chain: everything but what the registry says. Exit 0 valid, 1 not, 2 if it cannot be told.
    Check {
        /// A payment requirement with extra.erc8004.delegation, what `sign` printed, or the delegation alone; - is
        /// standard input.
        file: PathBuf,
    },
}

#[derive(Debug, clap::Args)]
struct Sign {
    /// The identity registry, eip155:CHAIN:0xADDRESS.
    #[arg(long)]
    registry: String,
    /// The agent.
    #[arg(long)]
    agent_id: String,
    /// Network of the payments, CAIP-2.
    #[arg(long)]
    network: String,
    /// Who is to be paid, exactly as payment requirements write it.
    #[arg(long)]
    pay_to: String,
    /// The asset, exactly as payment requirements write it; * is any on the network.
    #[arg(long)]
    asset: String,
    /// https://host[:port] of the resources; * is every origin of the registration file.
    #[arg(long)]
    origin: String,
    /// Days it is valid (at most 365).
    #[arg(long, default_value_t = 30)]
    days: u64,
    /// Unix second from which it is valid; a minute ago, if not given, as checkers' clocks differ.
    #[arg(long)]
    valid_after: Option<u64>,
    /// The agent wallet, if it is a contract that accepts this key's signatures; else it is the key's own address.
    #[arg(long)]
    agent_wallet: Option<String>,
    /// The key, env:NAME or file:PATH.
    #[arg(long)]
    key: String,
}

pub(super) fn run(arguments: DelegationCommand) -> anyhow::Result<ExitCode> {
    match arguments.action {
        Action::Sign(arguments) => sign(&arguments),
        // A file that cannot be read says nothing about a delegation.
        Action::Check { file } => Ok(check(&file).unwrap_or_else(|error| {
            eprintln!("quittance: {error:#}");
            ExitCode::from(NO_VERDICT)
        })),
    }
}

fn sign(arguments: &Sign) -> anyhow::Result<ExitCode> {
    let key = config::secret("--key", &arguments.key)?;
    let digits = key.expose().strip_prefix("0x").unwrap_or(key.expose());
    let key =
        alloy_primitives::hex::decode(digits).ok().and_then(|bytes| SigningKey::from_slice(&bytes).ok());
    let key = key.ok_or_else(|| anyhow::anyhow!("--key: must be a secp256k1 key of 64 hex digits"))?;
    let signer = Address::from_private_key(&key);

    let registry: RegistryId =
        arguments.registry.parse().map_err(|error| anyhow::anyhow!("--registry: {error}"))?;
    let agent_id = parse_decimal_u256(&arguments.agent_id)
        .ok_or_else(|| anyhow::anyhow!("--agent-id: must be a decimal number without leading zeros"))?;
    let agent_wallet = match &arguments.agent_wallet {
        None => signer,
        Some(text) => {
            parse_address(text).ok_or_else(|| anyhow::anyhow!("--agent-wallet: must be an address"))?
        }
    };
    anyhow::ensure!(
        arguments.origin == "*" || Origin::parse_bare(&arguments.origin).is_some(),
        "--origin: must be https://host[:port] without a path, or *"
    );
    for (option, error) in mismatches(arguments) {
        // It may be right where nobody here can judge it. What is wrong is equal to no requirement that is ever paid.
        let may_be_right = error.needs_profile() || error == InteropError::AddressChecksum;
        anyhow::ensure!(may_be_right, "--network and {option}: the pair {error}");
    }
    let seconds = arguments.days.saturating_mul(DAY_SECONDS);
    anyhow::ensure!((1..=VALIDITY_SECONDS_MAX).contains(&seconds), "--days: must be 1 to 365");
    let valid_after = arguments.valid_after.unwrap_or_else(|| clock::now().0.saturating_sub(CLOCK_SECONDS));

    let identity = Identity { registry, agent_id };
    let message = Message {
        chain_id: registry.chain_id(),
        registry: registry.address(),
        agent_id,
        agent_wallet,
        network: arguments.network.clone(),
        pay_to: arguments.pay_to.clone(),
        asset: arguments.asset.clone(),
        origin: arguments.origin.clone(),
        valid_after,
        valid_until: valid_after.saturating_add(seconds),
        nonce: nonce(),
    };
    let digest = message.digest(&identity);
    let (signature, recovery) = key.sign_prehash_recoverable(digest.as_slice())?;
    let mut bytes = signature.to_bytes().to_vec();
    bytes.push(27 + recovery.to_byte());
    let delegation = Delegation { message, signature: bytes.into() };
    warn(arguments, &registry, signer, agent_wallet);
    let shown = json!({
        "erc8004": {
            "registry": registry.to_string(),
            "agentId": agent_id.to_string(),
            "delegation": delegation.to_json(),
        },
        "payee": {
            "network": arguments.network,
            "payTo": arguments.pay_to,
            "delegation": delegation.to_json(),
        },
        // For the eye, beside what is copied from here: names with their chain and a checksum.
        "registryName": registry_name(&registry),
        "agentWalletName": named_on(registry.chain_id(), agent_wallet),
        "payToName": name(&arguments.network, &arguments.pay_to),
        "assetName": name(&arguments.network, &arguments.asset),
    });
    println!("{}", serde_json::to_string_pretty(&shown)?);
    Ok(ExitCode::SUCCESS)
}

/// Digests must differ, nothing more: no nonce is ever consumed.
fn nonce() -> B256 {
    let (a, b) = (Uuid::new_v4(), Uuid::new_v4());
    let mut nonce = [0; 32];
    nonce[..16].copy_from_slice(a.as_bytes());
    nonce[16..].copy_from_slice(b.as_bytes());
    B256::from(nonce)
}

/// What does not fit together, or cannot be judged here.
fn mismatches(arguments: &Sign) -> impl Iterator<Item = (&'static str, InteropError)> {
    let pairs = [("--pay-to", &arguments.pay_to), ("--asset", &arguments.asset)];
    pairs.into_iter().filter(|(_, address)| *address != "*").filter_map(|(option, address)| {
        Some((option, InteropAddress::payee(&arguments.network, address).err()?))
    })
}

fn warn(arguments: &Sign, registry: &RegistryId, signer: Address, agent_wallet: Address) {
    if arguments.days > DAYS_WITHOUT_WARNING {
        eprintln!(
            "warning: {} days is long: until then, only a new agent wallet takes this delegation back",
            arguments.days
        );
    }
    if arguments.asset == "*" {
        eprintln!("warning: --asset * allows every token of the network, also ones that do not exist yet");
    }
    if arguments.origin == "*" {
        eprintln!("warning: --origin * allows every server of the registration file, also ones added later");
    }
    for (option, error) in mismatches(arguments) {
        eprintln!("warning: --network and {option}: the pair {error}");
    }
    if signer != agent_wallet {
        let named = |address| named_on(registry.chain_id(), address);
        eprintln!(
            "warning: {} has to be a contract that accepts signatures of {} (ERC-1271)",
            named(agent_wallet),
            named(signer)
        );
    }
}

/// Exit 0 valid, 1 not, 2 if it cannot be told here.
fn check(file: &std::path::Path) -> anyhow::Result<ExitCode> {
    let input = read_json(file)?;
    let (erc8004, requirement) = match (input.pointer("/extra/erc8004"), input.get("erc8004")) {
        (Some(erc8004), _) => (Some(erc8004), Some(&input)),
        (None, Some(erc8004)) => (Some(erc8004), None),
        (None, None) => (None, None),
    };
    let carried = erc8004.map_or(Some(&input), |erc8004| erc8004.get("delegation"));
    let Carried::Delegation(delegation) = Carried::read(carried) else {
        return shown(json!({ "valid": false, "rule": "malformed", "failedRead": null }), Some(false));
    };
    let message = &delegation.message;
    let named = erc8004.map(|erc8004| Named::read(erc8004.get("registry"), erc8004.get("agentId")));
    let identity = match named {
        Some(Named::Identity(identity)) => identity,
        Some(Named::Malformed(why)) => anyhow::bail!("extra.erc8004: {why}"),
        // The delegation alone: it is its own claim.
        Some(Named::Nothing) | None => Identity {
            registry: RegistryId::new(message.chain_id, message.registry)
                .ok_or_else(|| anyhow::anyhow!("the delegation names chain 0"))?,
            agent_id: message.agent_id,
        },
    };
    let field = |name: &str, own: &'_ str| {
        let given = requirement.and_then(|r| r.get(name)).and_then(Value::as_str);
        given.unwrap_or(own).to_owned()
    };
    let (network, pay_to) = (field("network", &message.network), field("payTo", &message.pay_to));
    let asset = field("asset", &message.asset);
    let resource = requirement.and_then(|r| r.get("resource")).and_then(Value::as_str);
    let origin = resource.map_or_else(|| Origin::parse_bare(&message.origin), Origin::of_url);
    let subject = Subject {
        identity: &identity,
        network: &network,
        pay_to: &pay_to,
        asset: &asset,
        origin: origin.as_ref(),
    };
    // Without a chain nobody knows whether the wallet is a contract, and what it would say to a signature that is not its key's.
    let verdict =
        delegation.check(&subject, message.agent_wallet, &Fact::NotAsked, &Fact::NotAsked, clock::now());
    let (valid, rule, failed_read) = match verdict {
        Verdict::Valid => (Some(true), None, None),
        Verdict::Invalid(rule) => (Some(false), Some(rule), None),
        Verdict::Unread(read, _) => (None, None, Some(read)),
    };
    let signer = recover(&delegation.signature, message.digest(&identity));
    let on_registry_chain = |address| named_on(identity.registry.chain_id(), address);
    shown(
        json!({
            "valid": valid,
            "rule": rule,
            "failedRead": failed_read,
            "identity": { "registry": identity.registry.to_string(), "agentId": identity.agent_id.to_string() },
            "agentWallet": message.agent_wallet.to_checksum(None),
            "signer": signer.map(|signer| signer.to_checksum(None)),
            "network": message.network,
            "payTo": message.pay_to,
            "asset": message.asset,
            "origin": message.origin,
            // For the eye, beside the bare addresses that scripts take.
            "registryName": registry_name(&identity.registry),
            "agentWalletName": on_registry_chain(message.agent_wallet),
            "signerName": signer.map(on_registry_chain),
            "payToName": name(&message.network, &message.pay_to),
            "assetName": name(&message.network, &message.asset),
            "secondsLeft": message.valid_until.saturating_sub(clock::now().0),
            "notChecked": "whether the registry still names agentWallet; and, if it is a contract, what it says to the signature",
        }),
        valid,
    )
}

fn shown(verdict: Value, valid: Option<bool>) -> anyhow::Result<ExitCode> {
    println!("{}", serde_json::to_string_pretty(&verdict)?);
    Ok(match valid {
        Some(true) => ExitCode::SUCCESS,
        Some(false) => ExitCode::FAILURE,
        None => ExitCode::from(NO_VERDICT),
    })
}

//! `quittance payments`: what an operator can see and do about payments, on the store and the chain, without the server.
//!
//! Every action is one the keeper could take itself: nothing here can double a payment.

use crate::{
    config,
    facilitator::Facilitator,
    http::shape,
    lane::{
        keeper::{Keeper, NotReplaced},
        sent::send_attempt_again,
    },
    names::named,
};
use clap::Subcommand;
use quittance_evm::send::SendOutcome;
use quittance_protocol::{settlement::Status, units::Network};
use quittance_store::{
    Store, StoreError,
    model::{Attempt, AttemptKind, Payment, PaymentFilter, SettlementId},
};
use std::{path::PathBuf, process::ExitCode, sync::Arc, time::Duration};

/// How many rows can be asked for.
const ROWS: std::ops::RangeInclusive<i64> = 1..=1000;

#[derive(Debug, clap::Args)]
pub(super) struct Payments {
    /// Configuration file; else $QUITTANCE_CONFIG, else ./quittance.toml.
    #[arg(long, value_name = "FILE", global = true)]
    config: Option<PathBuf>,
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Newest payments first.
    List {
        /// Only this status: reserved, signed, mined, settled, settled_elsewhere, failed, refused.
        #[arg(long)]
        status: Option<String>,
        /// At most this many rows (1 to 1000).
        #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(ROWS))]
        limit: u32,
    },
    /// One payment with every transaction ever signed for it, as JSON.
    Show {
        /// Settlement id.
        id: String,
    },
    /// Payments that are signed and not final for longer than this, the oldest first. Exit 1 if there is one.
    Stuck {
        /// Seconds since they were first signed.
        #[arg(long, default_value_t = 120)]
        seconds: u64,
        /// At most this many rows (1 to 1000).
        #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(ROWS))]
        limit: u32,
    },
    /// Send the newest signed bytes of a payment again. Identical bytes are the identical transaction.
    Rebroadcast {
        /// Settlement id.
        id: String,
    },
    /// Replace a payment's unmined transaction by one that does nothing, so that its lane moves on. The payment may still win.
    Cancel {
        /// Settlement id.
        id: String,
    },
}

pub(super) async fn run(arguments: Payments) -> anyhow::Result<ExitCode> {
    let settings = config::load(arguments.config.as_deref())?;
    let store = open(settings.store_url.expose(), &arguments.action).await?;
    let facilitator = Facilitator::new(&settings, store)?;
    match arguments.action {
        Action::List { status, limit } => list(&facilitator, status.as_deref(), limit).await,
        Action::Show { id } => show(&facilitator, &id).await,
        Action::Stuck { seconds, limit } => stuck(&facilitator, seconds, limit).await,
        Action::Rebroadcast { id } => rebroadcast(&facilitator, &id).await,
        Action::Cancel { id } => cancel(&facilitator, &id).await,
    }
}

/// Whatever only reads does so beside the server, and leaves the schema as that wants it.
async fn open(url: &str, action: &Action) -> anyhow::Result<Arc<dyn Store>> {
    match action {
        Action::List { .. } | Action::Show { .. } | Action::Stuck { .. } | Action::Rebroadcast { .. } => {
            Ok(quittance_store::open_to_read(url).await?)
        }
        Action::Cancel { .. } => quittance_store::open(url).await.map_err(|error| match error {
            StoreError::Locked => anyhow::anyhow!(
                "cancel writes to the store, and a server has the SQLite file open: stop the server, cancel, and start it \
                 again; or use PostgreSQL, where both run at once"
            ),
            other => other.into(),
        }),
    }
}

fn row(payment: &Payment) -> String {
    let terms = &payment.terms;
    format!(
        "{}  {:17}  {} {}  to {}  {}",
        payment.id,
        payment.status.as_str(),
        terms.amount,
        named(terms.key.network, terms.key.verifying_contract),
        named(terms.key.network, terms.pay_to),
        crate::settle::shown_hash(payment),
    )
}

async fn list(facilitator: &Facilitator, status: Option<&str>, limit: u32) -> anyhow::Result<ExitCode> {
    let status = status.map(str::parse::<Status>).transpose()?;
    let filter = PaymentFilter { status, ..PaymentFilter::default() };
    let mut newest = facilitator.store.find(&filter, limit + 1).await?;
    let more = newest.split_off(newest.len().min(usize::try_from(limit)?));
    for payment in &newest {
        println!("{}", row(payment));
    }
    if !more.is_empty() {
        eprintln!("these are the newest {limit}; there are more");
    }
    Ok(ExitCode::SUCCESS)
}

async fn find(facilitator: &Facilitator, id: &str) -> anyhow::Result<Payment> {
    let id = SettlementId(id.parse().map_err(|_| anyhow::anyhow!("the settlement id must be a UUID"))?);
    facilitator.store.payment(id).await?.ok_or_else(|| anyhow::anyhow!("no payment has this settlement id"))
}

async fn show(facilitator: &Facilitator, id: &str) -> anyhow::Result<ExitCode> {
    let payment = find(facilitator, id).await?;
    let mut body = shape::settlement(&payment);
    let terms = &payment.terms;
    let attempts: Vec<_> = facilitator
        .store
        .attempts(payment.id)
        .await?
        .iter()
        .map(|attempt| {
            serde_json::json!({
                "kind": kind(attempt),
                "transaction": attempt.signed.hash,
                "laneNonce": attempt.lane_nonce.0,
                "maxFeePerGas": attempt.signed.max_fee_per_gas.to_string(),
                "maxPriorityFeePerGas": attempt.signed.max_priority_fee_per_gas.to_string(),
                "gasLimit": attempt.signed.gas_limit,
                "signedAt": attempt.created_at,
            })
        })
        .collect();
    if let Some(object) = body.as_object_mut() {
        // For the eye, beside the bare addresses that scripts take.
        for (key, address) in [
            ("assetName", terms.key.verifying_contract),
            ("payerName", terms.key.authorizer),
            ("payToName", terms.pay_to),
        ] {
            object.insert(key.into(), named(terms.key.network, address).into());
        }
        object.insert("attempts".into(), attempts.into());
    }
    println!("{}", serde_json::to_string_pretty(&body)?);
    Ok(ExitCode::SUCCESS)
}

/// What a transaction of a payment's slot was signed for: the payment, the same at a higher price, or nothing in its place.
fn kind(attempt: &Attempt) -> &'static str {
    match (attempt.signed.kind, attempt.sequence) {
        (AttemptKind::Payment, 0) => "payment",
        (AttemptKind::Payment, _) => "replacement",
        (AttemptKind::Filler, _) => "cancel",
    }
}

/// What the nodes said of bytes that were sent again, as a sentence goes on.
fn said(outcome: SendOutcome) -> &'static str {
    match outcome {
        SendOutcome::Accepted => "sent: a node took it",
        SendOutcome::AlreadyKnown => "sent: a node has it, or one of its nonce, already",
        SendOutcome::NonceConsumed => "sent: the chain has used its nonce; the server will find out by what",
        SendOutcome::NonceTooHigh => "refused: the node lacks a transaction of a lower nonce",
        SendOutcome::Underpriced => "refused: it offers too little; the server replaces it",
        SendOutcome::InsufficientFunds => "refused: the signer cannot pay for gas",
        SendOutcome::FeeAboveCap => {
            "refused: it offers more than the node lets through (geth: --rpc.txfeecap)"
        }
        SendOutcome::GasLimit => "refused: no node takes a transaction of its gas limit",
        SendOutcome::PoolFull => "refused: the node has no room for it now",
        SendOutcome::Unknown => "sent: no node gave an answer that is known here; the bytes may have arrived",
    }
}

/// Exit 1 when something is stuck, so that a monitor can call it.
async fn stuck(facilitator: &Facilitator, seconds: u64, limit: u32) -> anyhow::Result<ExitCode> {
    let mut stuck = facilitator.store.stuck(Duration::from_secs(seconds), limit + 1).await?;
    let more = stuck.split_off(stuck.len().min(usize::try_from(limit)?));
    for found in &stuck {
        println!("{}  signed {} s ago", row(&found.payment), found.signed_ago.as_secs());
    }
    if !more.is_empty() {
        eprintln!("these are the oldest {limit}; there are more");
    }
    Ok(if stuck.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

async fn rebroadcast(facilitator: &Arc<Facilitator>, id: &str) -> anyhow::Result<ExitCode> {
    let payment = find(facilitator, id).await?;
    anyhow::ensure!(
        !payment.status.is_terminal(),
        "this payment is {}: there is nothing to send",
        payment.status
    );
    let service = facilitator
        .service(payment.terms.key.network)
        .ok_or_else(|| anyhow::anyhow!("the payment's network is not in this configuration"))?;
    let attempts = facilitator.store.attempts(payment.id).await?;
    let newest = attempts.last().ok_or_else(|| anyhow::anyhow!("nothing was signed for this payment"))?;
    let outcome = send_attempt_again(service, newest).await;
    println!("{}  {}", newest.signed.hash, said(outcome));
    Ok(ExitCode::SUCCESS)
}

async fn cancel(facilitator: &Arc<Facilitator>, id: &str) -> anyhow::Result<ExitCode> {
    let payment = find(facilitator, id).await?;
    anyhow::ensure!(
        payment.status == Status::Signed,
        "only a signed payment can be canceled; this one is {}",
        payment.status
    );
    let service = facilitator
        .service(payment.terms.key.network)
        .ok_or_else(|| anyhow::anyhow!("the payment's network is not in this configuration"))?;
    let canceled = Keeper::new(facilitator, service).cancel(payment.id).await?;
    let hash = canceled.map_err(|why| not_canceled(service.network(), why))?;
    println!("{hash}  sent; the payment ends when one of its transactions is mined");
    Ok(ExitCode::SUCCESS)
}

fn not_canceled(network: Network, why: NotReplaced) -> anyhow::Error {
    match why {
        NotReplaced::NothingOpen => anyhow::anyhow!(
            "nothing to cancel: none of its transactions waits for a block; the server finds out what took its nonce"
        ),
        NotReplaced::NoSigner(signer) => anyhow::anyhow!(
            "not canceled: its signer {} is not in this configuration, and only that one can replace its transaction",
            named(network, signer)
        ),
        NotReplaced::CapLeavesNoRoom => anyhow::anyhow!(
            "not canceled: nodes take an eighth more than what its transaction offers, and policy.fee_per_settlement_wei_max \
             allows less"
        ),
        NotReplaced::BalanceLeavesNoRoom(signer) => anyhow::anyhow!(
            "not canceled: nodes take an eighth more than what its transaction offers, and its signer {} has less",
            named(network, signer)
        ),
        NotReplaced::BeyondReason => anyhow::anyhow!(
            "not canceled: its transaction offers ten times the market price or more already; `rebroadcast` sends it again"
        ),
        NotReplaced::Overtaken => anyhow::anyhow!(
            "not canceled: another process has replaced its transaction, or seen it mined, in the meantime; look again with `show`"
        ),
    }
}

//! `quittance payments`: what an operator can see and do about payments, on the store and the chain, without the server.
//!
//! Every action is one the keeper could take itself: nothing here can double a payment.

use crate::{
    clock, config,
    facilitator::Facilitator,
    http::shape,
    lane::keeper::{self, Keeper},
    names::named,
};
use clap::Subcommand;
use quittance_protocol::settlement::Status;
use quittance_store::model::{Payment, PaymentFilter, SettlementId};
use std::{path::PathBuf, process::ExitCode, sync::Arc};

/// Rows `list` shows at most.
const ROWS_MAX: u32 = 1000;

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
        #[arg(long, default_value_t = 50)]
        limit: u32,
    },
    /// One payment with every transaction ever signed for it, as JSON.
    Show {
        /// Settlement id.
        id: String,
    },
    /// Payments that are signed and not final for longer than this.
    Stuck {
        /// Seconds since they were signed.
        #[arg(long, default_value_t = 120)]
        seconds: u64,
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
    let store = quittance_store::open(settings.store_url.expose()).await?;
    let facilitator = Facilitator::new(&settings, store)?;
    match arguments.action {
        Action::List { status, limit } => list(&facilitator, status.as_deref(), limit).await,
        Action::Show { id } => show(&facilitator, &id).await,
        Action::Stuck { seconds } => stuck(&facilitator, seconds).await,
        Action::Rebroadcast { id } => rebroadcast(&facilitator, &id).await,
        Action::Cancel { id } => cancel(&facilitator, &id).await,
    }
}

fn print_row(payment: &Payment) {
    let terms = &payment.terms;
    println!(
        "{}  {:17}  {} {}  to {}  {}",
        payment.id,
        payment.status.as_str(),
        terms.amount,
        named(terms.key.network, terms.key.verifying_contract),
        named(terms.key.network, terms.pay_to),
        crate::settle::shown_hash(payment),
    );
}

async fn list(facilitator: &Facilitator, status: Option<&str>, limit: u32) -> anyhow::Result<ExitCode> {
    let status = status.map(str::parse::<Status>).transpose()?;
    let filter = PaymentFilter { status, ..PaymentFilter::default() };
    for payment in facilitator.store.find(&filter, limit.clamp(1, ROWS_MAX)).await? {
        print_row(&payment);
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
    let attempts: Vec<_> = facilitator
        .store
        .attempts(payment.id)
        .await?
        .iter()
        .map(|attempt| {
            serde_json::json!({
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
        object.insert("attempts".into(), attempts.into());
    }
    println!("{}", serde_json::to_string_pretty(&body)?);
    Ok(ExitCode::SUCCESS)
}

/// Exit 1 when something is stuck, so that a monitor can call it.
async fn stuck(facilitator: &Facilitator, seconds: u64) -> anyhow::Result<ExitCode> {
    let before = i64::try_from(clock::now().0.saturating_sub(seconds))?;
    let mut found = false;
    for status in [Status::Signed, Status::Mined] {
        let filter = PaymentFilter { status: Some(status), ..PaymentFilter::default() };
        for payment in facilitator.store.find(&filter, ROWS_MAX).await? {
            if payment.updated_at <= before {
                found = true;
                print_row(&payment);
            }
        }
    }
    Ok(if found { ExitCode::FAILURE } else { ExitCode::SUCCESS })
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
    let outcome = keeper::send_attempt_again(service, newest).await;
    println!("{}  {outcome:?}", newest.signed.hash);
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
    match canceled {
        Some(hash) => println!("{hash}  sent; the payment ends when one of its transactions is mined"),
        None => println!("nothing to cancel: its slot is consumed, or another process was faster"),
    }
    Ok(ExitCode::SUCCESS)
}

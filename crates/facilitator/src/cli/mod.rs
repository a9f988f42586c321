//! The command line. Results go to stdout, everything else to stderr.

mod address;
mod check;
mod conformance;
mod delegation;
mod demo;
mod payee;
mod payments;
mod serve;

use crate::config;
use clap::{Parser, Subcommand};
use std::{path::PathBuf, process::ExitCode};

/// x402 facilitator: tells sellers whether a signed stablecoin payment is good, and moves the money.
#[derive(Debug, Parser)]
#[command(name = "quittance", version = VERSION)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

/// Version and commit.
const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), " (", env!("QUITTANCE_GIT_COMMIT"), ")");

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the facilitator.
    Serve(ConfigFile),
    /// Check a configuration: store, RPC endpoints, contracts, signers.
    Check(ConfigFile),
    /// Look at payments and act on stuck ones.
    Payments(payments::Payments),
    /// Whom is this payment for? The ERC-8478 check of a 402 answer or one payment requirement. Exit 0 verified, 1 any
    /// other outcome, 2 not read.
    Payee(payee::Payee),
    /// Payee delegations, with which a seller's agent lets another address be paid.
    Delegation(delegation::DelegationCommand),
    /// Addresses with their chain: ERC-7930 bytes and ERC-7828 text.
    Address(address::Address),
    /// Point the tables of the five rules and of ERC-6492 at any facilitator on a development chain.
    Conformance(Box<conformance::Conformance>),
    /// No configuration needed: start a local chain and the facilitator on it, and make real payments.
    Demo {
        /// Exit when the payments are made: 0 if all went as expected, else 1.
        #[arg(long)]
        once: bool,
    },
}

impl Command {
    /// How much is logged unless `RUST_LOG` says otherwise. The demo tells its own story.
    fn log_level(&self) -> &'static str {
        match self {
            Self::Demo { .. } => "warn",
            Self::Payments(_)
            | Self::Conformance(_)
            | Self::Payee(_)
            | Self::Delegation(_)
            | Self::Address(_) => "warn",
            _ => "info",
        }
    }
}

#[derive(Debug, clap::Args)]
struct ConfigFile {
    /// Configuration file; else $QUITTANCE_CONFIG, else ./quittance.toml.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

impl Cli {
    /// Runs the command.
    pub fn run(self) -> anyhow::Result<ExitCode> {
        crate::fault_point::arm(config::fault_point().as_deref())?;
        crate::telemetry::start(self.command.log_level());
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        runtime.block_on(async {
            match self.command {
                Command::Serve(file) => serve::run(file.config.as_deref()).await,
                Command::Payments(arguments) => payments::run(arguments).await,
                Command::Check(file) => check::run(file.config.as_deref()).await,
                Command::Payee(arguments) => Ok(payee::run(arguments).await),
                Command::Delegation(arguments) => delegation::run(arguments),
                Command::Address(arguments) => address::run(arguments),
                Command::Conformance(arguments) => conformance::run(*arguments).await,
                Command::Demo { once } => demo::run(once).await,
            }
        })
    }
}

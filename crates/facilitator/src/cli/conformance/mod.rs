//! `quittance conformance`: the rule tables of testdata/rules, pointed at any facilitator on a development chain.

mod abi;
mod args;
mod case;
mod contracts;
mod effect;
mod judge;
mod keys;
mod load;
mod node;
mod peer;
mod probe;
mod report;
mod run;
mod signature;
mod stage;
mod terms;
mod word;

pub(super) use args::Conformance;

use crate::clock;
use alloy_primitives::U256;
use anyhow::{Context as _, ensure};
use args::Format;
use contracts::{Contracts, Factories};
use keys::Seed;
use node::Node;
use peer::Peer;
use report::{Report, Rows};
use run::{Facts, Run};
use stage::Stage;
use std::{
    io::{self, Write as _},
    process::ExitCode,
};

/// Something differs.
const DIFFERS: u8 = 1;
/// The tables could not be run.
const COULD_NOT_RUN: u8 = 2;
/// Farther than this ahead of the wall clock, a chain makes nonsense of windows of time.
const CHAIN_AHEAD_SECONDS_MAX: u64 = 2;

/// 0 if all is as expected, 1 if something differs, 2 if the tables could not be run.
pub(super) async fn run(arguments: Conformance) -> anyhow::Result<ExitCode> {
    let outcome = if arguments.print_allow_list {
        print_allow_list(arguments.format).map(|()| ExitCode::SUCCESS)
    } else {
        judge(&arguments).await
    };
    Ok(outcome.unwrap_or_else(|error| {
        eprintln!("quittance: {error:#}");
        ExitCode::from(COULD_NOT_RUN)
    }))
}

/// The factories' addresses are the same on every chain.
fn print_allow_list(format: Format) -> anyhow::Result<()> {
    let factories = Factories::known()?;
    let mut out = io::stdout().lock();
    if format == Format::Json {
        let list: Vec<_> = factories
            .allow_list()
            .map(|(contract, address)| serde_json::json!({"contract": contract, "address": address.to_string()}))
            .collect();
        writeln!(out, "{}", serde_json::to_string_pretty(&list)?)?;
    } else {
        for (contract, address) in factories.allow_list() {
            writeln!(out, "{address} {contract}")?;
        }
    }
    Ok(())
}

async fn judge(arguments: &Conformance) -> anyhow::Result<ExitCode> {
    let tables = load::tables(arguments.only.as_deref())?;
    let node = Node::connect(arguments.rpc.as_deref().context("--rpc is missing")?).await?;
    let peer = Peer::meet(arguments, node.chain_id).await?;
    let date = clock::now().0;
    let ahead = node.time().await?.saturating_sub(date);
    ensure!(
        ahead <= CHAIN_AHEAD_SECONDS_MAX,
        "the chain's newest block is {ahead} s ahead of the wall clock"
    );
    let ether = U256::from(10).pow(U256::from(18));
    for signer in &peer.signers {
        node.fund(*signer, ether.saturating_mul(U256::from(arguments.signer_funds))).await?;
    }
    let contracts = Contracts::deploy(&node, date.max(node.time().await?)).await?;
    let stage = Stage {
        names: peer.names.clone(),
        seed: Seed::random(),
        facilitator_signer: peer.signers.first().copied(),
        contracts,
        node,
    };
    let mut run = Run {
        stage,
        peer,
        settle_all: arguments.settle,
        without_allow_list: arguments.without_allow_list,
        facts: Facts::default(),
    };
    let rows = run.tables(&tables).await?;
    let tables = tables.iter().zip(rows);
    let report = Report {
        product: run.peer.product,
        names: run.stage.names,
        node: run.stage.node.version,
        date,
        only: arguments.only.clone(),
        settle_all: arguments.settle,
        facts: run.facts,
        tables: tables.map(|(table, rows)| Rows { name: table.name, title: table.title, rows }).collect(),
    };
    publish(&report, arguments)?;
    Ok(if report.totals().differences() == 0 { ExitCode::SUCCESS } else { ExitCode::from(DIFFERS) })
}

fn publish(report: &Report, arguments: &Conformance) -> anyhow::Result<()> {
    for file in &arguments.output {
        report.save(file, arguments.format)?;
    }
    let text = if arguments.output.is_empty() { report.write(arguments.format) } else { report.summary() };
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()?;
    Ok(())
}

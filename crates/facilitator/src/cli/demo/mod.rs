//! `quittance demo`: a local chain, the facilitator on it, real payments, and what the chain says about them.

mod payments;
mod report;
mod stage;
mod witness;

use report::Report;
use stage::Stage;
use std::{
    io::{self, Write},
    path::Path,
    process::ExitCode,
};
use tokio::signal::unix::{Signal, SignalKind, signal};

pub(super) async fn run(once: bool) -> anyhow::Result<ExitCode> {
    // Before anything is started, so that nothing is left behind.
    let mut stop = Stop::listen()?;
    let stage = tokio::select! {
        stage = Stage::set_up() => stage?,
        () = stop.asked() => return Err(stopped()),
    };
    let ended = tokio::select! {
        ended = play(&stage) => ended,
        () = stop.asked() => Err(stopped()),
    };
    let ended = match ended {
        Ok(good) if !once => invite(&stage, &mut stop).await.map(|()| good),
        ended => ended,
    };
    stage.strike().await;
    Ok(if ended? { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Every payment, then the books. True if all went as expected.
async fn play(stage: &Stage) -> anyhow::Result<bool> {
    let mut report = Report::new(io::stdout());
    report.facts(
        concat!("quittance ", env!("CARGO_PKG_VERSION"), ": real payments on a chain of this machine"),
        &stage.facts(),
    )?;
    payments::play(stage, &mut report).await?;
    report.verdict()
}

/// Keeps everything up for the reader's own calls.
async fn invite(stage: &Stage, stop: &mut Stop) -> anyhow::Result<()> {
    let file = payments::for_the_reader(stage).await?;
    invitation(&mut io::stdout(), stage.url(), &file)?;
    stop.asked().await;
    Ok(())
}

fn invitation(out: &mut impl Write, url: &str, file: &Path) -> io::Result<()> {
    let file = file.display();
    writeln!(out, "\nStill up at {url} until you press Ctrl-C. Ask it yourself:\n")?;
    writeln!(out, "  curl -sw '\\n' {url}/supported\n")?;
    for path in ["/verify", "/settle"] {
        writeln!(out, "  curl -sw '\\n' -H 'Content-Type: application/json' \\")?;
        writeln!(out, "    -d '@{file}' \\")?;
        writeln!(out, "    {url}{path}\n")?;
    }
    writeln!(
        out,
        "The file holds a payment nobody has sent yet, good for a day. A second /verify of it is refused by"
    )?;
    writeln!(out, "rule 5, and a second /settle is told duplicate_settlement with the hash of the first.")?;
    out.flush()
}

/// The ways a terminal, a supervisor or a script asks a process to end.
struct Stop([Signal; 3]);

impl Stop {
    fn listen() -> io::Result<Self> {
        Ok(Self([
            signal(SignalKind::interrupt())?,
            signal(SignalKind::terminate())?,
            signal(SignalKind::hangup())?,
        ]))
    }

    async fn asked(&mut self) {
        let [interrupt, terminate, hangup] = &mut self.0;
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
            _ = hangup.recv() => {}
        }
    }
}

fn stopped() -> anyhow::Error {
    anyhow::anyhow!("the demo was stopped before its end")
}

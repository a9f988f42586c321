//! `quittance serve`.

use crate::{config, server::Server};
use std::{path::Path, process::ExitCode};
use tokio::signal::unix::{SignalKind, signal};

pub(super) async fn run(path: Option<&Path>) -> anyhow::Result<ExitCode> {
    let settings = config::load(path)?;
    // Before anything starts, so that no signal is missed.
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let server = Server::start(&settings).await?;
    let stopper = server.stopper();
    tokio::spawn(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        tracing::info!("stopping");
        stopper.cancel();
    });
    if let Some(address) = server.address() {
        tracing::info!(%address, version = super::VERSION, "Facilitator listening");
    }
    server.run().await;
    Ok(ExitCode::SUCCESS)
}

//! `quittance check`.

use crate::{config, preflight};
use std::{path::Path, process::ExitCode};

pub(super) async fn run(path: Option<&Path>) -> anyhow::Result<ExitCode> {
    let settings = config::load(path)?;
    let findings = preflight::check(&settings).await;
    let width = findings.iter().map(|f| f.subject.len()).max().unwrap_or_default();
    for f in &findings {
        let mark = if f.ok { "ok  " } else { "FAIL" };
        println!("{mark}  {:width$}  {}", f.subject, f.finding);
    }
    Ok(if findings.iter().all(|f| f.ok) { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

//! `quittance demo`.

use std::process::ExitCode;

pub(super) async fn run(_once: bool) -> anyhow::Result<ExitCode> {
    Ok(ExitCode::FAILURE)
}

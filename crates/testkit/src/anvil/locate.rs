//! Where the Anvil binary is.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};

use crate::edge::env_var;

/// Names the binary outright; beats every other place.
const OVERRIDE: &str = "QUITTANCE_ANVIL";
/// Where `scripts/setup` puts it, below the repository's root: one package per platform.
fn installed() -> String {
    let os = if std::env::consts::OS == "macos" { "darwin" } else { std::env::consts::OS };
    let cpu = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    format!(".tools/node_modules/@foundry-rs/anvil-{os}-{cpu}/bin/anvil")
}

/// The binary: `QUITTANCE_ANVIL`, else what `scripts/setup` installed in this directory or one above, else `PATH`.
pub fn find_anvil() -> Result<PathBuf> {
    if let Some(path) = env_var(OVERRIDE) {
        let path = PathBuf::from(path);
        if path.is_file() {
            return Ok(path);
        }
        bail!("{OVERRIDE} names {}, which is not a file", path.display());
    }
    let starts = [std::env::current_dir().ok(), env_var("CARGO_MANIFEST_DIR").map(PathBuf::from)];
    let installed = starts.iter().flatten().find_map(|start| above(start));
    match installed.or_else(on_path) {
        Some(path) => Ok(path),
        None => bail!("anvil not found: run scripts/setup, put it on PATH, or name it in {OVERRIDE}"),
    }
}

fn above(start: &Path) -> Option<PathBuf> {
    start.ancestors().map(|dir| dir.join(installed())).find(|path| path.is_file())
}

fn on_path() -> Option<PathBuf> {
    let path = env_var("PATH")?;
    std::env::split_paths(&path).map(|dir| dir.join("anvil")).find(|path| path.is_file())
}

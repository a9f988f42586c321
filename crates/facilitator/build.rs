//! Names the commit in `--version`: from the build's environment, else from git, else "unknown".

use std::process::Command;

fn main() {
    println!("cargo:rerun-if-env-changed=QUITTANCE_GIT_COMMIT");
    println!("cargo:rerun-if-changed=../../.git/HEAD");
    println!("cargo:rerun-if-changed=../../.git/refs/heads");
    let commit = given().or_else(from_git).unwrap_or_else(|| "unknown".to_owned());
    println!("cargo:rustc-env=QUITTANCE_GIT_COMMIT={commit}");
}

#[allow(clippy::disallowed_methods)] // a build script has no other way to be told
fn given() -> Option<String> {
    std::env::var("QUITTANCE_GIT_COMMIT").ok().filter(|commit| !commit.is_empty())
}

fn from_git() -> Option<String> {
    let output = Command::new("git").args(["rev-parse", "--short=12", "HEAD"]).output().ok()?;
    let commit = String::from_utf8(output.stdout).ok()?.trim().to_owned();
    (output.status.success() && !commit.is_empty()).then_some(commit)
}

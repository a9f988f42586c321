//! The `quittance` binary.

use clap::Parser;
use std::process::ExitCode;

fn main() -> ExitCode {
    match quittance::cli::Cli::parse().run() {
        Ok(code) => code,
        Err(error) => {
            eprintln!("quittance: {error:#}");
            ExitCode::FAILURE
        }
    }
}

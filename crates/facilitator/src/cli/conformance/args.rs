//! The command line of `quittance conformance`.

use clap::ValueEnum;
use std::path::PathBuf;

/// Options.
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct Conformance {
    /// Base URL of the facilitator.
    #[arg(long, value_name = "URL", required_unless_present = "print_allow_list")]
    pub(super) url: Option<String>,
    /// RPC of the Anvil node the facilitator works on. Its state is changed at will: never a chain that matters.
    #[arg(long, value_name = "URL", required_unless_present = "print_allow_list")]
    pub(super) rpc: Option<String>,
    /// The network's name in version 2; default eip155:ID of the node's chain.
    #[arg(long, value_name = "eip155:ID")]
    pub(super) network: Option<String>,
    /// The network's name in version 1; default the usual name of the chain.
    #[arg(long, value_name = "NAME")]
    pub(super) v1_name: Option<String>,
    /// Ether that each signer named in /supported has at least; 0 leaves them as they are.
    #[arg(long, value_name = "ETHER", default_value_t = 10)]
    pub(super) signer_funds: u64,
    /// Sent as `Authorization: Bearer …`; "env:NAME" or "file:PATH".
    #[arg(long, value_name = "env:NAME")]
    pub(super) api_key: Option<String>,
    /// Only the cases, or tables, whose name this fits; * is any text, ? any character.
    #[arg(long, value_name = "GLOB")]
    pub(super) only: Option<String>,
    /// Form of the report on standard output, and in --output files without an ending that says otherwise.
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub(super) format: Format,
    /// Where the report goes, .json and .xml in that form; can be given again. Standard output then has the summary alone.
    #[arg(long, value_name = "FILE")]
    pub(super) output: Vec<PathBuf>,
    /// Send every case to /settle as well, not only a sample.
    #[arg(long)]
    pub(super) settle: bool,
    /// Print the factories that the facilitator has to allow, and exit.
    #[arg(long)]
    pub(super) print_allow_list: bool,
    /// The facilitator cannot allow factories: cases that need it are reported as such.
    #[arg(long)]
    pub(super) without_allow_list: bool,
    /// The facilitator's clock is this machine's, although it is not reached by loopback.
    #[arg(long)]
    pub(super) same_clock: bool,
    /// The product's name in the report; default what it says itself.
    #[arg(long, value_name = "NAME")]
    pub(super) name: Option<String>,
    /// The product's version in the report; default what it says itself.
    #[arg(long, value_name = "VERSION")]
    pub(super) product_version: Option<String>,
}

/// Forms of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Format {
    /// Markdown that reads well as plain text.
    Table,
    /// See docs/CONFORMANCE.md.
    Json,
    /// What CI systems show.
    Junit,
}

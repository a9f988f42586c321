//! `quittance address`: between a network with an address, ERC-7930's bytes and ERC-7828's text.

use clap::Subcommand;
use quittance_protocol::interop::InteropAddress;
use serde_json::json;
use std::process::ExitCode;

#[derive(Debug, clap::Args)]
pub(super) struct Address {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// The bytes and the text of an address on a network.
    Encode {
        /// CAIP-2, such as eip155:8453.
        network: String,
        /// The address as its network writes it.
        address: String,
    },
    /// What bytes (0x…) or a text (address@network#CHECKSUM) stand for.
    Decode {
        /// Either.
        value: String,
    },
}

pub(super) fn run(arguments: Address) -> anyhow::Result<ExitCode> {
    let parsed = match &arguments.action {
        Action::Encode { network, address } => InteropAddress::from_pair(network, address),
        Action::Decode { value } if value.contains('@') => value.parse(),
        Action::Decode { value } => InteropAddress::from_hex(value),
    };
    let parsed = parsed.map_err(|error| anyhow::anyhow!("it {error} ({})", error.code()))?;
    let shown = json!({
        "network": parsed.network(),
        "address": parsed.address(),
        "bytes": alloy_primitives::hex::encode_prefixed(parsed.encode()),
        "text": parsed.to_string(),
    });
    println!("{}", serde_json::to_string_pretty(&shown)?);
    Ok(ExitCode::SUCCESS)
}

//! Every key outside `[[networks]]`, with values that make no sense.

use crate::support::cli::{Cli, absent};
use quittance_testkit::{dev_accounts::dev_key, harness::free_port};
use std::net::TcpListener;

/// A configuration nothing is wrong with, with one line before it.
pub(super) fn toml(line: &str) -> String {
    format!("server.operator_listen = \"\"\n{}", without_operator(line))
}

/// The same with the operator's address left to the test.
fn without_operator(line: &str) -> String {
    let listen = if line.contains("server.listen =") { "" } else { "server.listen = \"127.0.0.1:0\"\n" };
    format!(
        "{listen}{line}\n[[networks]]\nid = \"eip155:84532\"\nrpc_urls = [\"http://127.0.0.1:1\"]\nsigners = [\"env:SIGNER\"]\n"
    )
}

/// Starts the server with `key = value`, which it must refuse.
pub(super) async fn refuses(key: &str, value: &str, named: &str) {
    let line = format!("{key} = {value}");
    let own = if key == "server.operator_listen" { without_operator(&line) } else { toml(&line) };
    let cli = Cli::with_file(&own).env("SIGNER", dev_key(0));
    let ended = cli.run(&["serve"]).await;
    ended.refused(named, &format!("{key} = {value}"));
    assert!(absent(cli.dir.path(), "quittance.db"), "{key} = {value}: a store was made");
}

async fn each(key: &str, values: &[&str]) {
    for value in values {
        refuses(key, value, key).await;
    }
}

#[tokio::test]
async fn addresses() {
    for key in ["server.listen", "server.operator_listen"] {
        each(
            key,
            &[
                "4021",
                "true",
                "[]",
                "\"4021\"",
                "\":4021\"",
                "\"127.0.0.1\"",
                "\"127.0.0.1:\"",
                "\"127.0.0.1:65536\"",
                "\"127.0.0.1:-1\"",
                "\"localhost:4021\"",
                "\"http://127.0.0.1:4021\"",
                "\"::1:4021\"",
                "\"127.0.0.1:4021 \"",
            ],
        )
        .await;
    }
    each("server.listen", &["\"\""]).await;
}

#[tokio::test]
async fn an_address_that_is_taken() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("\"{}\"", taken.local_addr().unwrap());
    for key in ["server.listen", "server.operator_listen"] {
        let free = format!("\"127.0.0.1:{}\"", free_port().unwrap());
        let other = if key == "server.listen" { "server.operator_listen" } else { "server.listen" };
        let own = without_operator(&format!("{key} = {address}\n{other} = {free}"));
        Cli::with_file(&own).env("SIGNER", dev_key(0)).run(&["serve"]).await.refused(key, "taken");
    }
    // Both cannot have the same.
    let free = format!("\"127.0.0.1:{}\"", free_port().unwrap());
    let both = without_operator(&format!("server.listen = {free}\nserver.operator_listen = {free}"));
    Cli::with_file(&both).env("SIGNER", dev_key(0)).run(&["serve"]).await.refused("listen", "the same twice");
}

#[tokio::test]
async fn the_outside_world() {
    for address in ["0.0.0.0:4021", "[::]:4021", "192.0.2.1:4021", "[2001:db8::1]:4021"] {
        refuses("server.listen", &format!("\"{address}\""), "server.listen").await;
    }
    each("server.public", &["\"true\"", "1", "[]"]).await;
}

#[tokio::test]
async fn sizes_and_times() {
    let never = ["-1", "1.5", "\"1\"", "true", "[]", "{}", "99999999999999999999"];
    for key in [
        "server.connections_max",
        "server.body_bytes_max",
        "server.request_timeout_ms",
        "policy.validity_margin_seconds",
        "policy.authorization_lifetime_seconds_max",
        "policy.gas_per_settlement_max",
        "settle.wait_seconds",
    ] {
        for value in never {
            refuses(key, value, key).await;
        }
    }
    // Below its section's name.
    let below = "server.operator_listen = \"\"\n[policy]\ngas_per_settlement_max = 9223372036854775808\n";
    let ended = Cli::with_file(below).env("SIGNER", dev_key(0)).run(&["serve"]).await;
    ended.refused("gas_per_settlement_max", "below its section's name");
    each("server.connections_max", &["0", "1048577"]).await;
    each("server.body_bytes_max", &["0", "1", "1023"]).await;
    each("server.request_timeout_ms", &["0", "600001", "9223372036854775807"]).await;
    each("policy.gas_per_settlement_max", &["0", "20999", "99999"]).await;
    each("settle.wait_seconds", &["0", "601", "9223372036854775807"]).await;
}

/// Bounds between which nothing fits.
#[tokio::test]
async fn bounds_that_refuse_every_payment() {
    let both = "policy.validity_margin_seconds = 60\npolicy.authorization_lifetime_seconds_max";
    refuses(both, "59", "policy.authorization_lifetime_seconds_max").await;
    // Longer than any authorization is valid.
    each("policy.validity_margin_seconds", &["86401", "9223372036854775807", "\"18446744073709551615\""])
        .await;
    // More gas than any block has: every question about a payment would ask for it, and no node gives it.
    each("policy.gas_per_settlement_max", &["9223372036854775807", "1000000000000"]).await;
}

#[tokio::test]
async fn wei() {
    each(
        "policy.fee_per_settlement_wei_max",
        &[
            "\"\"",
            "\"-1\"",
            "\"0x10\"",
            "\"1e18\"",
            "\"1.5\"",
            "\"01\"",
            "\" 1\"",
            "\"1 ETH\"",
            "\"115792089237316195423570985008687907853269984665640564039457584007913129639936\"",
            "-1",
            "1.5",
            "true",
            "[\"1\"]",
            "9223372036854775808",
        ],
    )
    .await;
}

#[tokio::test]
async fn origins() {
    each(
        "server.cors_origins",
        &[
            "\"https://shop.example\"",
            "true",
            "[1]",
            "[\"*\"]",
            "[\"null\"]",
            "[\"\"]",
            "[\"shop.example\"]",
            "[\"https://\"]",
            "[\"https://shop.example/\"]",
            "[\"https://shop.example/pay\"]",
            "[\"https://shop.example?x\"]",
            "[\"https://shop.example#x\"]",
            "[\"https://*.shop.example\"]",
            "[\"https://SHOP.example\"]",
            "[\"https://shop.example:443\"]",
            "[\"https://user:SECRETKEYMARKER@shop.example\"]",
            "[\"https://shop.example\", \"*\"]",
            "[\"ftp://shop.example\"]",
            "[\"ws://shop.example\"]",
            "[\"wss://shop.example\"]",
            "[\"file:///shop\"]",
        ],
    )
    .await;
}

#[tokio::test]
async fn the_store() {
    each(
        "store.url",
        &[
            "1",
            "true",
            "[]",
            "\"\"",
            "\"quittance.db\"",
            "\"mysql://user@host/db\"",
            "\"sqlite:///no/such/directory/quittance.db\"",
            "\"env:MISSING\"",
            "\"env:\"",
            "\"file:/no/such/file\"",
            "\"file:\"",
            "\"postgres://quittance:SECRETKEYMARKER@127.0.0.1:1/quittance\"",
            "\"postgres://quittance:SECRETKEYMARKER@no-such-host.invalid/quittance\"",
            "\"postgres://\"",
        ],
    )
    .await;
    each("replay.reserve_on_verify", &["\"true\"", "0", "[]"]).await;
}

#[tokio::test]
async fn the_payee_check() {
    each("payee.mode", &["\"\"", "\"on\"", "\"OFF\"", "\"refuse\"", "true", "1"]).await;
    each("payee.registry_allow_private_hosts", &["\"yes\"", "1"]).await;
    each("payee.eip7702_is_eoa", &["\"true\"", "0", "[]"]).await;
    each("payee.ipfs_gateway", &["1", "true", "[]"]).await;
}

//! `[[networks]]`, key by key.

use crate::support::cli::Cli;
use quittance_testkit::dev_accounts::dev_key;
use std::collections::BTreeMap;

/// The fields of a network nothing is wrong with.
fn good() -> BTreeMap<&'static str, String> {
    [("id", "\"eip155:84532\""), ("rpc_urls", "[\"http://127.0.0.1:1\"]"), ("signers", "[\"env:SIGNER_1\"]")]
        .map(|(key, value)| (key, value.to_owned()))
        .into()
}

fn entry(fields: &BTreeMap<&'static str, String>) -> String {
    let lines: String = fields.iter().map(|(key, value)| format!("{key} = {value}\n")).collect();
    format!("[[networks]]\n{lines}")
}

async fn run(toml: &str) -> crate::support::cli::Ended {
    let order = "fffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141";
    Cli::with_file(&format!("server.operator_listen = \"\"\n{toml}"))
        .env("SIGNER_1", dev_key(1))
        .env("SAME", dev_key(1).trim_start_matches("0x").to_uppercase())
        .env("EMPTY", "")
        .env("BLANK", " \n")
        .env("ZERO", "0".repeat(64))
        .env("ORDER", order)
        .env("SHORT", &dev_key(1)[..65])
        .env("LONG", dev_key(1) + "00")
        .env("TWICE", format!("0x{}", dev_key(1)))
        .env("NOT_HEX", dev_key(1).replace('5', "g"))
        .env("WORDS", "test test test test test test test test test test test junk")
        .env("NO_URL", "SECRETKEYMARKER")
        .env("WRONG_SCHEME", "ipc://127.0.0.1/SECRETKEYMARKER")
        .run(&["serve"])
        .await
}

async fn each(key: &'static str, values: &[&str]) {
    for value in values {
        let mut fields = good();
        fields.insert(key, (*value).to_owned());
        run(&entry(&fields)).await.refused(key, &format!("{key} = {value}"));
    }
}

#[tokio::test]
async fn there_must_be_one() {
    for toml in ["", "networks = []"] {
        run(toml).await.refused("networks", toml);
    }
    for toml in
        ["networks = 1", "networks = \"eip155:84532\"", "networks = [1]", "[networks]\nid = \"eip155:84532\""]
    {
        run(toml).await.refused("networks", toml);
    }
    for missing in ["id", "rpc_urls", "signers"] {
        let mut fields = good();
        fields.remove(missing);
        run(&entry(&fields)).await.refused(missing, "missing");
    }
}

#[tokio::test]
async fn its_id() {
    each(
        "id",
        &[
            "\"\"",
            "84532",
            "\"84532\"",
            "\"base-sepolia\"",
            "\"eip155:\"",
            "\"eip155:0\"",
            "\"eip155:084532\"",
            "\"eip155:-1\"",
            "\"eip155:1.0\"",
            "\"EIP155:84532\"",
            "\"eip155:84532 \"",
            "\"eip155:9007199254740992\"",
            "\"solana:mainnet\"",
            "[\"eip155:84532\"]",
        ],
    )
    .await;
    let long = format!("\"{}\"", "x".repeat(65));
    each(
        "v1_name",
        &[
            "1",
            "true",
            "\"eip155:84532\"",
            "[]",
            "\" \"",
            "\"base sepolia\"",
            "\"base-sepolia \"",
            "\"base\\tsepolia\"",
            "\"base-s\u{00e9}polia\"",
            &long,
        ],
    )
    .await;
}

#[tokio::test]
async fn its_endpoints() {
    each(
        "rpc_urls",
        &[
            "[]",
            "\"http://127.0.0.1:1\"",
            "[1]",
            "[\"\"]",
            "[\"127.0.0.1:8545\"]",
            "[\"localhost:8545\"]",
            "[\"http://\"]",
            "[\"ws://\"]",
            "[\"wss://user:SECRETKEYMARKER@\"]",
            "[\"wss+unix://127.0.0.1:8545\"]",
            "[\"ftp://127.0.0.1\"]",
            "[\"file:/no/such/file\"]",
            "[\"env:MISSING\"]",
            "[\"env:EMPTY\"]",
            "[\"env:BLANK\"]",
            "[\"env:NO_URL\"]",
            "[\"env:WRONG_SCHEME\"]",
            "[\"https://user:SECRETKEYMARKER@\"]",
            "[\"http://127.0.0.1:99999/SECRETKEYMARKER\"]",
            "[\"http://127.0.0.1:1\", \"env:MISSING\"]",
        ],
    )
    .await;
}

#[tokio::test]
async fn its_signers() {
    each(
        "signers",
        &[
            "[]",
            "\"env:SIGNER_1\"",
            "[1]",
            "[\"\"]",
            "[\"SIGNER_1\"]",
            "[\"env:\"]",
            "[\"env:MISSING\"]",
            "[\"env:EMPTY\"]",
            "[\"env:BLANK\"]",
            "[\"env:ZERO\"]",
            "[\"env:ORDER\"]",
            "[\"env:SHORT\"]",
            "[\"env:LONG\"]",
            "[\"env:TWICE\"]",
            "[\"env:NOT_HEX\"]",
            "[\"env:WORDS\"]",
            "[\"file:\"]",
            "[\"file:/no/such/file\"]",
            "[\"file:/\"]",
            // The same key twice, written in two ways.
            "[\"env:SIGNER_1\", \"env:SIGNER_1\"]",
            "[\"env:SIGNER_1\", \"env:SAME\"]",
        ],
    )
    .await;
}

#[tokio::test]
async fn its_factories_and_confirmations() {
    each(
        "wallet_factories",
        &[
            "\"0x209693Bc6afc0C5328bA36FaF03C514EF312287C\"",
            "[1]",
            "[\"\"]",
            "[\"0x\"]",
            "[\"209693Bc6afc0C5328bA36FaF03C514EF312287C\"]",
            "[\"0x209693Bc6afc0C5328bA36FaF03C514EF312287\"]",
            "[\"0x209693Bc6afc0C5328bA36FaF03C514EF312287C00\"]",
            "[\"0x0000000000000000000000000000000000000000\"]",
            "[\"factory.eth\"]",
            "[\"*\"]",
        ],
    )
    .await;
    each("confirmations", &["0", "-1", "1001", "1.5", "\"1\"", "true"]).await;
}

#[tokio::test]
async fn two_of_them() {
    let two = |first: &[(&'static str, &str)], second: &[(&'static str, &str)]| {
        [first, second]
            .map(|changes| {
                let mut fields = good();
                changes.iter().for_each(|(key, value)| drop(fields.insert(key, (*value).to_owned())));
                entry(&fields)
            })
            .join("\n")
    };
    let base = ("id", "\"eip155:8453\"");
    for (case, toml, named) in [
        ("the same chain", two(&[], &[]), "networks[1].id"),
        (
            "the same chain, other names",
            two(&[("v1_name", "\"a\"")], &[("v1_name", "\"b\"")]),
            "networks[1].id",
        ),
        ("the same name", two(&[("v1_name", "\"x\"")], &[base, ("v1_name", "\"x\"")]), "networks[1].v1_name"),
        ("another's default name", two(&[("v1_name", "\"base\"")], &[base]), "networks[1].v1_name"),
        ("a bad second", two(&[], &[base, ("rpc_urls", "[]")]), "networks[1].rpc_urls"),
        ("a bad second signer", two(&[], &[base, ("signers", "[\"env:MISSING\"]")]), "networks[1].signers"),
    ] {
        run(&toml).await.refused(named, case);
    }
}

//! Keys nobody knows, at every level, and files that are no TOML.

use super::tables::toml;
use crate::support::cli::Cli;
use quittance_testkit::dev_accounts::dev_key;

async fn run(toml: impl AsRef<[u8]>) -> crate::support::cli::Ended {
    Cli::new().file("quittance.toml", toml).env("SIGNER", dev_key(0)).run(&["serve"]).await
}

#[tokio::test]
async fn a_key_nobody_knows_is_refused_at_every_level() {
    for (line, named) in [
        ("bogus = 1", "bogus"),
        ("listen = \"127.0.0.1:4021\"", "listen"),
        ("server.bogus = 1", "bogus"),
        ("server.Listen = \"127.0.0.1:4021\"", "Listen"),
        ("server.api_key = \"env:SIGNER\"", "api_key"),
        ("store.bogus = 1", "bogus"),
        ("replay.bogus = 1", "bogus"),
        ("policy.bogus = 1", "bogus"),
        ("settle.bogus = 1", "bogus"),
        ("settle.wait_second = 1", "wait_second"),
        ("payee.bogus = 1", "bogus"),
        (
            "payee.registries = [{ id = \"eip155:1:0x8004A169FB4a3325136EB29fA0ceB6D2e539a432\", bogus = 1 }]",
            "bogus",
        ),
        ("network = []", "network"),
        ("bogus.deep.down = 1", "bogus"),
    ] {
        run(toml(line)).await.refused(named, line);
    }
    for line in ["bogus = 1", "rpc_url = \"http://127.0.0.1:1\"", "signer = \"env:SIGNER\"", "v1name = \"x\""]
    {
        run(toml("") + line + "\n").await.refused(line.split(' ').next().unwrap(), line);
    }
    run(toml("") + "[bogus]\nx = 1\n").await.refused("bogus", "a table");
    run(toml("") + "[networks.bogus]\nx = 1\n").await.refused("bogus", "a table within");
}

#[tokio::test]
async fn a_table_that_is_something_else_is_refused() {
    for table in ["server", "store", "replay", "policy", "settle", "payee"] {
        for value in ["1", "\"x\"", "[]", "true"] {
            let network = toml("").split_once("[[").unwrap().1.to_owned();
            run(format!("{table} = {value}\n[[{network}")).await.refused(table, value);
        }
    }
}

#[tokio::test]
async fn a_file_that_is_no_toml_is_refused() {
    for text in [
        "[",
        "server.listen = ",
        "server.listen == 1",
        "{\"server\":{}}",
        "server:\n  listen: x",
        "\u{0}",
        "=",
        "a = 1\na = 2",
    ] {
        run(toml("") + text).await.refused("configuration", text);
    }
    run(b"\xff\xfe\x00").await.refused("quittance.toml", "not UTF-8");
    // A key twice, as after a merge.
    run(toml("settle.wait_seconds = 1\nsettle.wait_seconds = 2")).await.refused("wait_seconds", "twice");
}

/// Whoever leaves a quote out next to a key must not read the key in the log.
#[tokio::test]
async fn a_broken_line_is_not_shown() {
    let key = dev_key(3);
    for line in [
        format!("signers = [\"{key}]"),
        format!("signers = [{key}]"),
        format!("signers = \"{key}\" x"),
        format!("signers = ['{key}', ,]"),
        "rpc_urls = [\"https://node.example/SECRETKEYMARKER]".to_owned(),
        "rpc_urls = [https://node.example/SECRETKEYMARKER]".to_owned(),
    ] {
        let own = format!("server.operator_listen = \"\"\n[[networks]]\nid = \"eip155:84532\"\n{line}\n");
        run(own).await.refused("configuration", "a broken line");
    }
}

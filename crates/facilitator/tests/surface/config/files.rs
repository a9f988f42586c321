//! Where the configuration is looked for, and addresses that are open to the world.

use super::tables::toml;
use crate::support::{BINARY, cli::Cli, config, network};
use quittance_testkit::{
    dev_accounts::dev_key,
    harness::{ConfigBuilder, QuittanceProcess, process::Wait},
};
use serde_json::json;

/// A file that is refused for a reason of its own, so that it is known which one was read.
fn marked(margin: i32) -> String {
    toml(&format!("settle.wait_seconds = 0 # {margin}"))
        .replace("wait_seconds = 0", &format!("mark_{margin} = 1"))
}

#[tokio::test]
async fn the_command_line_beats_the_environment_beats_the_directory() {
    let cli = || {
        Cli::with_file(&marked(1))
            .file("two.toml", marked(2))
            .file("three.toml", marked(3))
            .env("SIGNER", dev_key(0))
    };
    cli().run(&["serve"]).await.refused("mark_1", "the directory's");
    let two = cli().env("QUITTANCE_CONFIG", "two.toml");
    two.run(&["serve"]).await.refused("mark_2", "the environment's");
    two.run(&["check"]).await.refused("mark_2", "the environment's");
    two.run(&["serve", "--config", "three.toml"]).await.refused("mark_3", "the command line's");
    two.run(&["serve", "--config=three.toml"]).await.refused("mark_3", "the command line's");
    two.run(&["check", "--config", &two.path("three.toml")]).await.refused("mark_3", "an absolute path");
}

#[tokio::test]
async fn a_file_that_is_not_there_is_named() {
    for args in [["serve", "--config", "missing.toml"], ["check", "--config", "missing.toml"]] {
        Cli::with_file(&toml(""))
            .env("SIGNER", dev_key(0))
            .run(&args)
            .await
            .refused("missing.toml", "missing");
    }
    let cli = Cli::with_file(&toml("")).env("QUITTANCE_CONFIG", "elsewhere.toml").env("SIGNER", dev_key(0));
    cli.run(&["serve"]).await.refused("elsewhere.toml", "the environment's");
    let cli = Cli::new();
    cli.run(&["serve", "--config", "."]).await.refused(".", "a directory");
    // Without a file there are the defaults, and they have no network.
    cli.run(&["serve"]).await.refused("networks", "nothing at all");
    cli.run(&["check"]).await.refused("networks", "nothing at all");
    let empty = Cli::new().file("quittance.toml", "");
    empty.run(&["serve"]).await.refused("networks", "an empty file");
}

#[tokio::test]
async fn the_world_is_let_in_when_that_is_said_or_needs_a_key() {
    let base = || config(network("http://127.0.0.1:1"));
    let open = |config: ConfigBuilder| {
        let port = config.base_url().rsplit(':').next().unwrap().to_owned();
        config.set("server.listen", json!(format!("0.0.0.0:{port}")))
    };
    for config in [
        open(base()).set("server.public", json!(true)),
        open(base()).set("server.api_keys", json!(["env:API_KEY"])).env("API_KEY", "SECRETKEYMARKER"),
        // Said without need.
        base().set("server.public", json!(true)),
    ] {
        let server = QuittanceProcess::start_until(BINARY, config, Wait::Healthy).await.unwrap();
        assert_eq!(server.client().unwrap().get("/healthz").await.unwrap().status, 200);
    }
}

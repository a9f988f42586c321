//! `quittance conformance`, pointed at quittance and at servers that are no facilitators.

use anyhow::{Context as _, Result, ensure};
use axum::{
    Json, Router,
    http::StatusCode,
    routing::{get, post},
};
use quittance_testkit::{
    Anvil,
    harness::{ConfigBuilder, NetworkConfig, QuittanceProcess},
};
use serde_json::{Value, json};
use std::{collections::BTreeSet, fs, process::Output, time::Duration};
use tempfile::TempDir;
use tokio::{net::TcpListener, process::Command};

const BINARY: &str = env!("CARGO_BIN_EXE_quittance");
/// The whole table takes four minutes on a busy machine; half of one is waiting for the clock.
const DEADLINE: Duration = Duration::from_secs(800);
const CHAIN_ID: u64 = 84532;

/// Cases that need a facilitator with other settings. Nothing else may be left out.
const NEED_SETTINGS: [&str; 5] = [
    "gas-bound",
    "lifetime-at-bound",
    "lifetime-bound",
    "no-margin-valid-before-next",
    "no-margin-valid-before-now",
];

async fn conformance(arguments: &[&str]) -> Result<Output> {
    let mut command = Command::new(BINARY);
    command.arg("conformance").args(arguments).kill_on_drop(true);
    let output =
        tokio::time::timeout(DEADLINE, command.output()).await.context("it did not end in time")??;
    // Shown when the test fails.
    println!("{}{}", text(&output.stdout), text(&output.stderr));
    Ok(output)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The factories to allow, as an operator gets them.
async fn allow_list() -> Result<Vec<String>> {
    let output = conformance(&["--print-allow-list"]).await?;
    ensure!(output.status.success());
    let lines = text(&output.stdout);
    lines
        .lines()
        .map(|line| Ok(line.split_once(' ').context("an address and a name")?.0.to_owned()))
        .collect()
}

async fn quittance(anvil: &Anvil, factories: &[String]) -> Result<QuittanceProcess> {
    let mut network = NetworkConfig::new(CHAIN_ID).rpc_url(anvil.url()).dev_signer(0);
    for factory in factories {
        network = network.wallet_factory(factory.parse()?);
    }
    QuittanceProcess::start(BINARY, ConfigBuilder::new()?.network(network)).await
}

/// A run of some cases, with its report.
async fn report(url: &str, rpc: &str, more: &[&str]) -> Result<(Output, Value)> {
    let directory = TempDir::new()?;
    let file = directory.path().join("report.json");
    let file = file.to_str().context("a path")?;
    let output = conformance(&[&["--url", url, "--rpc", rpc, "--output", file], more].concat()).await?;
    let report = fs::read_to_string(file).with_context(|| format!("no report: {}", text(&output.stderr)))?;
    Ok((output, serde_json::from_str(&report)?))
}

/// `(case, row)` of every row.
fn rows(report: &Value) -> Vec<(&Value, &Value)> {
    report["tables"]
        .as_array()
        .into_iter()
        .flatten()
        .flat_map(|table| table["cases"].as_array().into_iter().flatten())
        .flat_map(|case| case["rows"].as_array().into_iter().flatten().map(move |row| (case, row)))
        .collect()
}

fn names<'a>(rows: impl IntoIterator<Item = (&'a Value, &'a Value)>) -> BTreeSet<&'a str> {
    rows.into_iter().filter_map(|(case, _)| case["case"].as_str()).collect()
}

/// A server that answers every payment in the same way.
async fn server(status: StatusCode, verify: Value, settle: Value) -> Result<String> {
    let supported = json!({
        "kinds": [
            {"x402Version": 2, "scheme": "exact", "network": "eip155:84532"},
            {"x402Version": 1, "scheme": "exact", "network": "base-sepolia"},
        ],
        "extensions": [],
        "signers": {},
    });
    let always = move |body: Value| post(move || async move { (status, Json(body)) });
    let app = Router::new()
        .route("/supported", get(move || async move { ([("server", "yes-man/1.2")], Json(supported)) }))
        .route("/verify", always(verify))
        .route("/settle", always(settle));
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("http://{}", listener.local_addr()?);
    tokio::spawn(async move { axum::serve(listener, app).await });
    Ok(url)
}

#[tokio::test]
async fn the_whole_table_is_green() -> Result<()> {
    let anvil = Anvil::builder().spawn().await?;
    let server = quittance(&anvil, &allow_list().await?).await?;
    let more = ["--settle", "--name", "quittance", "--product-version", "of this build"];
    let (output, report) = report(&server.base_url(), &anvil.url(), &more).await?;
    assert_eq!(output.status.code(), Some(0));
    assert!(text(&output.stdout).contains("Nothing differs."));

    let totals = &report["totals"];
    for none in ["differences", "needs-allow-list", "onChainDiffers", "acceptedInVain", "acceptedUnpaid"] {
        assert_eq!(totals[none], 0, "{none}");
    }
    assert!(totals["onChainSent"].as_u64() > Some(400), "{totals}");
    assert_eq!(report["product"]["version"], "of this build");
    assert_eq!((&report["verifyHoldsNonces"], &report["factoriesAllowed"]), (&json!(true), &json!(true)));

    let rows = rows(&report);
    let not_run = rows.iter().copied().filter(|(_, row)| row["result"] == "not-run");
    assert_eq!(names(not_run), NEED_SETTINGS.into());
    let verified =
        rows.iter().copied().filter(|(_, row)| row["got"]["verdict"] == "valid" && row["version"] == 1);
    assert!(names(verified).len() > 40);
    // What was accepted was paid: the tool has seen each transfer in the receipt that /settle named.
    let paid =
        names(rows.iter().copied().filter(|(case, row)| {
            case["valid"] == true && row["asked"] == "settle" && row["result"] == "ok"
        }));
    for case in ["ordinary-eoa", "ordinary-wallet1271", "ordinary-delegated7702", "shape-6-undeployed"] {
        assert!(paid.contains(case), "{case} was not paid: {paid:?}");
    }
    let twice = names(rows.iter().copied().filter(|(_, row)| row["asked"] == "verify after verify"));
    assert!(twice.contains("replay-other-version"), "{twice:?}");

    // The same server and the same chain once more: what holds for a month was of the first run's own.
    let (output, _) =
        self::report(&server.base_url(), &anvil.url(), &["--only", "payment-identifier"]).await?;
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stdout));
    Ok(())
}

#[tokio::test]
async fn a_server_that_says_yes_to_everything_is_found_out() -> Result<()> {
    let anvil = Anvil::builder().spawn().await?;
    let yes = json!({"isValid": true, "payer": "0x0000000000000000000000000000000000000000"});
    let hash = format!("0x{}", "11".repeat(32));
    let paid = json!({"success": true, "transaction": hash, "network": "eip155:84532"});
    let url = server(StatusCode::OK, yes, paid).await?;
    let (output, report) = report(&url, &anvil.url(), &["--only", "*-eoa"]).await?;
    assert_eq!(output.status.code(), Some(1));

    let rows = rows(&report);
    for (case, row) in &rows {
        let (verify, valid) = (row["asked"] == "verify", case["valid"] == true);
        let expected = match (verify, valid) {
            (true, true) => "ok",
            (false, true) => "money-differs",
            (_, false) => "verdict-differs",
        };
        assert_eq!(row["result"], expected, "{case} {row}");
    }
    let vain = names(rows.iter().copied().filter(|(_, row)| row["acceptedInVain"] == true));
    assert!(vain.contains("high-s-eoa") && !vain.contains("shape-1-eoa"), "{vain:?}");
    assert_eq!(report["verifyHoldsNonces"], false);
    assert_eq!(report["product"]["name"], "yes-man", "it is what its Server header says");
    assert_eq!(report["product"]["version"], "1.2");
    let shown = text(&output.stdout);
    for line in ["high-s-eoa", "shape-3-eoa", "MONEY DIFFERS", "its transaction is not mined", "yes-man 1.2"]
    {
        assert!(shown.contains(line), "{line:?} is not in:\n{shown}");
    }
    Ok(())
}

#[tokio::test]
async fn a_server_that_fails_gives_no_verdict() -> Result<()> {
    let anvil = Anvil::builder().spawn().await?;
    // The right words under the wrong status: a failure is no refusal.
    let verify = json!({"isValid": false, "invalidReason": "invalid_exact_evm_non_canonical_signature"});
    let settle = json!({"success": false, "errorReason": "unexpected_settle_error"});
    let url = server(StatusCode::INTERNAL_SERVER_ERROR, verify, settle).await?;
    let (output, report) = report(&url, &anvil.url(), &["--only", "high-s-*"]).await?;
    assert_eq!(output.status.code(), Some(1));
    for (case, row) in rows(&report) {
        assert_eq!(
            (&row["result"], &row["got"]["http"]),
            (&json!("no-verdict"), &json!(500)),
            "{case} {row}"
        );
    }
    assert_eq!(report["totals"]["verdict-differs"], 0);
    Ok(())
}

#[tokio::test]
async fn without_the_allow_list_its_cases_are_not_judged() -> Result<()> {
    let anvil = Anvil::builder().spawn().await?;
    let server = quittance(&anvil, &[]).await?;
    let (output, report) = report(&server.base_url(), &anvil.url(), &["--only", "shape-*"]).await?;
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(report["factoriesAllowed"], false);
    let rows = rows(&report);
    let unjudged = names(rows.iter().copied().filter(|(_, row)| row["result"] == "needs-allow-list"));
    assert_eq!(unjudged, ["shape-6-eoa", "shape-6-undeployed"].into());
    let judged = names(rows.iter().copied().filter(|(_, row)| row["result"] == "ok"));
    assert!(judged.contains("shape-5-undeployed") && judged.contains("shape-3-eoa"), "{judged:?}");
    Ok(())
}

#[tokio::test]
async fn reports_in_every_form() -> Result<()> {
    let anvil = Anvil::builder().spawn().await?;
    let server = quittance(&anvil, &[]).await?;
    let (url, rpc) = (server.base_url(), anvil.url());
    let only = ["--url", &url, "--rpc", &rpc, "--only", "value-plus-one"];
    let table = text(&conformance(&only).await?.stdout);
    for cell in ["value-plus-one", "invalid_exact_evm_authorization_value", "| executes |", "unknown"] {
        assert!(table.contains(cell), "{cell:?} is not in:\n{table}");
    }
    // A chain that was used once can be used again.
    let again = conformance(&[&only[..], &["--format", "json"]].concat()).await?;
    assert_eq!(again.status.code(), Some(0));
    let report: Value = serde_json::from_slice(&again.stdout)?;
    assert_eq!(report["format"], "quittance-conformance/1");
    let case = &report["tables"][0]["cases"][0];
    assert_eq!((&case["case"], &case["valid"]), (&json!("value-plus-one"), &json!(false)));
    assert_eq!(case["codes"]["1"][0], "invalid_exact_evm_authorization_value");
    assert_eq!(case["rows"][0]["onChain"], json!({"expected": "executes", "got": "executes"}));

    let junit = text(&conformance(&[&only[..], &["--format", "junit"]].concat()).await?.stdout);
    assert!(junit.contains(r#"tests="4" failures="0" errors="0" skipped="0""#), "{junit}");
    assert!(
        junit.contains(r#"<testcase classname="rule-4-value" name="value-plus-one v1 verify"/>"#),
        "{junit}"
    );
    Ok(())
}

#[tokio::test]
async fn what_cannot_be_run_exits_2_and_says_why() -> Result<()> {
    let anvil = Anvil::builder().spawn().await?;
    let url = server(StatusCode::OK, json!({"isValid": true}), json!({"success": true})).await?;
    let (rpc, nowhere) = (anvil.url(), "http://127.0.0.1:9");
    let other_chain = Anvil::builder().chain_id(31337).spawn().await?;
    let other_chain = other_chain.url();
    for (arguments, why) in [
        (vec!["--url", nowhere, "--rpc", &rpc], "/supported"),
        (vec!["--url", &url, "--rpc", nowhere], "--rpc"),
        (vec!["--url", &url, "--rpc", &url], "--rpc"),
        (vec!["--url", &url, "--rpc", &other_chain], "lists no kind"),
        (vec!["--url", &url, "--rpc", &rpc, "--network", "eip155:1"], "--network"),
        (vec!["--url", &url, "--rpc", &rpc, "--only", "nothing-*"], "no case"),
        (vec!["--url", &url, "--rpc", &rpc, "--api-key", "plain-text"], "--api-key"),
        (vec!["--url", &url], "--rpc"),
        (vec![], "--url"),
    ] {
        let output = conformance(&arguments).await?;
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert_eq!(text(&output.stdout), "", "{arguments:?}");
        assert!(text(&output.stderr).contains(why), "{arguments:?} does not say {why:?}");
    }
    Ok(())
}

#[tokio::test]
async fn the_allow_list_is_known_before_there_is_a_chain() -> Result<()> {
    let lines = allow_list().await?;
    let json = conformance(&["--print-allow-list", "--format", "json"]).await?;
    let list: Vec<Value> = serde_json::from_slice(&json.stdout)?;
    let addresses: Vec<_> = list.iter().filter_map(|entry| entry["address"].as_str()).collect();
    assert_eq!(addresses, lines);
    assert_eq!(list[0]["contract"], "WalletFactory");
    assert_eq!(lines.iter().collect::<BTreeSet<_>>().len(), 6);
    Ok(())
}

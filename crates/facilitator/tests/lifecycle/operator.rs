//! What an operator sees and does with `quittance payments`, beside a running server.

use crate::support::{Bench, DEADLINE, SEND, Setup, StoreKind, Told, until};
use quittance_testkit::harness::{Fault, Rule};
use serde_json::Value;
use std::process::Output;
use tokio::process::Command;

async fn payments(bench: &Bench, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_quittance"));
    command.arg("payments").args(arguments).arg("--config").arg(bench.server.dir().join("quittance.toml"));
    command.envs(bench.config.environment()).kill_on_drop(true).output().await.unwrap()
}

fn text(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stuck_payment_is_seen_and_sent_again() {
    let bench = Setup::new(StoreKind::Postgres).no_mining().wait_seconds(1).start().await;
    // The node says yes and keeps nothing.
    let swallowed = bench.proxy.add(Rule::on(SEND).then(Fault::Swallow));
    let payment = bench.payment().await;
    let told = bench.settle(&payment).await.told();
    let Told::Pending(hash) = told else { panic!("{told:?}") };
    let id = bench.row(&payment).await["settlementId"].as_str().unwrap().to_owned();

    let listed = payments(&bench, &["list", "--status", "signed"]).await;
    assert!(text(&listed).contains(&id) && text(&listed).contains(&hash.to_string()), "{listed:?}");
    let shown: Value = serde_json::from_str(&text(&payments(&bench, &["show", &id]).await)).unwrap();
    assert_eq!(
        (&shown["status"], &shown["attempts"][0]["transaction"]),
        (&"signed".into(), &hash.to_string().into())
    );
    assert!(!shown.to_string().contains("raw"), "signed bytes are a bearer capability");
    assert_eq!(payments(&bench, &["stuck", "--seconds", "3600"]).await.status.code(), Some(0));
    let stuck = until("a stuck payment", DEADLINE, || async {
        let output = payments(&bench, &["stuck", "--seconds", "0"]).await;
        (output.status.code() == Some(1)).then_some(output)
    })
    .await;
    assert!(text(&stuck).contains(&id), "{stuck:?}");

    bench.proxy.remove(swallowed);
    let sent = payments(&bench, &["rebroadcast", &id]).await;
    assert!(sent.status.success() && text(&sent).contains(&hash.to_string()), "{sent:?}");
    bench.anvil.mine(1).await.unwrap();
    assert_eq!(bench.insisting(&payment).await.unwrap(), hash);
    bench.assert_one_transaction_paid(&payment, hash).await;
    let late = payments(&bench, &["rebroadcast", &id]).await;
    assert_eq!(late.status.code(), Some(1), "a final payment has nothing to send");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_canceled_payment_frees_its_lane_and_moves_nothing() {
    let bench = Setup::new(StoreKind::Postgres).no_mining().wait_seconds(1).start().await;
    let payment = bench.payment().await;
    let told = bench.settle(&payment).await.told();
    let Told::Pending(_) = told else { panic!("{told:?}") };
    let id = bench.row(&payment).await["settlementId"].as_str().unwrap().to_owned();
    let canceled = payments(&bench, &["cancel", &id]).await;
    assert!(canceled.status.success() && text(&canceled).contains("sent"), "{canceled:?}");
    bench.anvil.mine(1).await.unwrap();
    let row = bench.until_status(&payment, "failed").await;
    assert_eq!(row["reason"], "invalid_exact_evm_transaction_failed");
    bench.assert_nothing_moved().await;
    assert!(!bench.is_used(&payment).await);
    // The lane goes on, and so may the payment.
    bench.anvil.set_automine(true).await.unwrap();
    bench.settle(&payment).await.success_of(&payment);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn metrics_tell_what_happened_without_names() {
    let bench = Setup::new(StoreKind::Sqlite).start().await;
    let payment = bench.payment().await;
    bench.settle(&payment).await.success_of(&payment);
    bench.verify(&payment).await;
    let operator = quittance_testkit::Facilitator::new(bench.server.operator_url()).unwrap();
    let metrics = operator.get("/metrics").await.unwrap().text;
    for line in [
        r#"quittance_answers_total{endpoint="settle",status="200",code="ok"} 1"#,
        r#"quittance_answers_total{endpoint="verify",status="200",code="invalid_exact_evm_nonce_already_used"} 1"#,
        r#"quittance_deliveries_total{said="success"} 1"#,
        r#"quittance_settlements_total{network="eip155:84532",status="settled"} 1"#,
        r#"quittance_rpc_requests_total{network="eip155:84532",endpoint="0",method="eth_sendRawTransaction",outcome="result"} 1"#,
        r#"quittance_lane_open_slots{network="eip155:84532",lane="0"}"#,
        r#"quittance_lane_balance_wei{network="eip155:84532",lane="0"}"#,
        "quittance_keeper_last_pass_seconds",
        "quittance_oldest_open_payment_seconds",
    ] {
        assert!(metrics.contains(line), "{line}\n{metrics}");
    }
    let lower = metrics.to_lowercase();
    for name in [payment.payer().to_string(), payment.recipient().to_string(), payment.nonce().to_string()] {
        assert!(!lower.contains(&name.to_lowercase()));
    }
}

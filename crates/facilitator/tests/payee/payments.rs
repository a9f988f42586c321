//! What the check does to payments: in each mode, at verify and at settle.

use crate::{
    agents::set_wallet,
    files::Page,
    stage::{Stage, THIEF, TREASURY, said},
};
use alloy_primitives::U256;
use quittance_testkit::{Facilitator, X402Version, dev_address};
use serde_json::{Value, json};

const CODE: &str = "erc8004_payee_mismatch";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hijacked_payee_is_refused_and_the_delegated_treasury_passes() {
    let stage = Stage::start("refuse-mismatch").await;
    let agent = stage.agent().await;
    let delegation = agent.delegation_to(TREASURY);

    for (named, outcome) in [
        (agent.named(Value::Null), ("mismatch", "")),
        // Garbage is no way past.
        (agent.named(delegation.clone()), ("invalid-delegation", "pay-to")),
        (agent.named(json!({})), ("invalid-delegation", "malformed")),
    ] {
        let hijacked = stage.payment(named, THIEF).await;
        let verified = stage.verify(&hijacked).await;
        assert_eq!(
            (&verified["isValid"], &verified["invalidReason"]),
            (&json!(false), &json!(CODE)),
            "{verified}"
        );
        assert_eq!(said(&verified["extra"]["payee"]), outcome);
        let settled = stage.settle(&hijacked).await;
        assert_eq!(
            (&settled["success"], &settled["errorReason"]),
            (&json!(false), &json!(CODE)),
            "{settled}"
        );
        assert_eq!(said(&settled["extra"]["payee"]), outcome);
        assert_eq!(stage.rows(&hijacked).await, Vec::<Value>::new(), "nothing was reserved");
    }
    assert_eq!(stage.paid(THIEF).await, U256::ZERO);

    // The same seller's treasury, by its own 402; with and without a verify before.
    let mut paid = U256::ZERO;
    for (verify, version) in [(true, X402Version::V2), (false, X402Version::V1)] {
        let builder = stage.builder(agent.named(delegation.clone()), TREASURY).await;
        let honest = builder.version(version).sign();
        if verify {
            let verified = stage.verify(&honest).await;
            assert_eq!(verified["isValid"], true, "{verified}");
            assert_eq!(said(&verified["extra"]["payee"]), ("verified-delegation", ""));
        }
        let settled = stage.settle(&honest).await;
        assert_eq!(settled["success"], true, "{settled}");
        assert_eq!(said(&settled["extra"]["payee"]), ("verified-delegation", ""));
        paid += honest.value();
        assert_eq!(stage.paid(TREASURY).await, paid);
        // It stays with the payment.
        let again = stage.settle(&honest).await;
        assert_eq!(
            (&again["errorReason"], said(&again["extra"]["payee"])),
            (&json!("duplicate_settlement"), ("verified-delegation", ""))
        );
        let rows = stage.rows(&honest).await;
        assert_eq!(rows[0]["payee"], settled["extra"]["payee"]);
    }
    let operator = Facilitator::new(stage.server.operator_url()).unwrap();
    let metrics = operator.get("/metrics").await.unwrap().text;
    let counted = |outcome: &str| {
        let series = format!(r#"quittance_payee_checks_total{{outcome="{outcome}"}} "#);
        metrics.lines().find_map(|line| line.strip_prefix(&series)).unwrap().to_owned()
    };
    assert_eq!(
        ["mismatch", "invalid-delegation", "verified-delegation", "not-read"].map(counted),
        ["2", "4", "2", "0"]
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_agent_wallet_voids_every_delegation_at_once() {
    let stage = Stage::start("refuse-mismatch").await;
    let agent = stage.agent().await;
    let named = agent.named(agent.delegation_to(TREASURY));
    let promised = stage.payment(named.clone(), TREASURY).await;
    assert_eq!(stage.verify(&promised).await["isValid"], true);

    set_wallet(&stage.chain, agent.id, dev_address(6), 6).await;
    let late = stage.payment(named.clone(), TREASURY).await;
    for body in [stage.verify(&late).await, stage.settle(&late).await] {
        assert_eq!(said(&body["extra"]["payee"]), ("invalid-delegation", "agent-wallet"), "{body}");
    }
    assert_eq!(stage.rows(&late).await, Vec::<Value>::new());
    // What verify accepted, settle accepts.
    let settled = stage.settle(&promised).await;
    assert_eq!(settled["success"], true, "{settled}");
    assert_eq!(said(&settled["extra"]["payee"]), ("verified-delegation", ""));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_not_read_is_never_refused() {
    let stage = Stage::start("refuse-mismatch").await;
    let uri = stage.files.put("/gone", Page::Status(402));
    let agent = stage.agent_with(&uri).await;
    let unreadable = stage.payment(agent.named(Value::Null), THIEF).await;
    let verified = stage.verify(&unreadable).await;
    assert_eq!(
        (&verified["isValid"], said(&verified["extra"]["payee"])),
        (&json!(true), ("not-read", "file")),
        "{verified}"
    );
    assert_eq!(stage.settle(&unreadable).await["success"], true);
    // Neither is a seller without an identity, nor one at an unlisted address.
    let nobody = stage.payment(Value::Null, THIEF).await;
    assert_eq!(said(&stage.verify(&nobody).await["extra"]["payee"]).0, "no-identity");
    let agent = stage.agent().await;
    let builder = stage.builder(agent.named(Value::Null), THIEF).await;
    let unlisted = builder.resource("https://other.example/").sign();
    let verified = stage.verify(&unlisted).await;
    assert_eq!(
        (&verified["isValid"], said(&verified["extra"]["payee"]).0),
        (&json!(true), "endpoint-unlisted")
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn report_reports() {
    let stage = Stage::start("report").await;
    let agent = stage.agent().await;
    let hijacked = stage.payment(agent.named(Value::Null), THIEF).await;
    let verified = stage.verify(&hijacked).await;
    assert_eq!((&verified["isValid"], said(&verified["extra"]["payee"]).0), (&json!(true), "mismatch"));
    let settled = stage.settle(&hijacked).await;
    assert_eq!((&settled["success"], said(&settled["extra"]["payee"]).0), (&json!(true), "mismatch"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn off_reads_nothing() {
    let stage = Stage::start("off").await;
    let agent = stage.agent().await;
    stage.proxy.reset_records();
    stage.registry.reset_records();
    let hijacked = stage.payment(agent.named(Value::Null), THIEF).await;
    let verified = stage.verify(&hijacked).await;
    assert_eq!(verified["isValid"], true);
    assert_eq!(verified["extra"].get("payee"), None);
    assert_eq!(
        (stage.proxy.http_requests(), stage.registry.http_requests(), stage.files.all_hits()),
        (1, 0, 0)
    );
    let settled = stage.settle(&hijacked).await;
    assert_eq!((&settled["success"], settled["extra"].get("payee")), (&json!(true), None));
    assert_eq!((stage.registry.http_requests(), stage.files.all_hits()), (0, 0));
    assert_eq!(stage.rows(&hijacked).await[0].get("payee"), None);
}

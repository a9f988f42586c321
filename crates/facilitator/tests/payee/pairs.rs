//! Networks and addresses of two kinds of chain: a payment with them is refused where it is read (`surface::input`), while the
//! payee check goes on, since it is about the agent and its word.

use crate::{
    commands::quittance,
    stage::{CHAIN_ID, ORIGIN, Stage, TREASURY, said},
};
use serde_json::{Value, json};

const SOLANA: &str = "solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp";
const SOLANA_ADDRESS: &str = "MJKqp326RZCHnAAbew9MDdui3iCKWco7fsK9sVuZTX2";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pair_of_two_kinds_of_chain_has_an_outcome_and_is_pointed_out() {
    let stage = Stage::start("off").await;
    let agent = stage.agent().await;
    let solana = agent.requirement_on(SOLANA, agent.wallet, Value::Null);
    let mut base = agent.requirement(agent.wallet, Value::Null);
    base["payTo"] = json!(SOLANA_ADDRESS);
    let hedera = agent.requirement_on("hedera:mainnet", agent.wallet, Value::Null);
    let dir = tempfile::tempdir().unwrap();
    let config = format!(
        "payee.registry_allow_private_hosts = true\n[[payee.registries]]\nid = \"{}\"\nrpc_urls = [\"{}\"]\n",
        crate::agents::registry_id(CHAIN_ID),
        stage.registry.url()
    );
    std::fs::write(dir.path().join("quittance.toml"), config).unwrap();
    for (requirement, pointed_out) in
        [(&solana, vec!["payTo", "asset"]), (&base, vec!["payTo"]), (&hedera, vec![])]
    {
        let answer = stage.check(requirement.clone()).await;
        assert_eq!(said(&answer), ("mismatch", ""), "{requirement}: {answer}");
        let arguments = ["payee", "-", "--resource", "https://seller.example/report"];
        let (code, answer, warnings) = quittance(dir.path(), &arguments, Some(requirement)).await;
        assert_eq!((code, said(&answer).0), (Some(1), "mismatch"), "{answer}");
        for field in ["payTo", "asset"] {
            let pair = format!("paymentRequirements.network and paymentRequirements.{field} do not fit");
            assert_eq!(warnings.contains(&pair), pointed_out.contains(&field), "{requirement}: {warnings}");
        }
    }
    let log = stage.server.log_text();
    assert!(log.contains("cannot be judged here") && log.contains("hedera"), "{log}");
}

/// Whoever signs a delegation reads addresses with their chain. A pair that nobody can be paid at is not signed for; one that nobody
/// here can judge is warned of.
#[tokio::test]
async fn a_delegation_for_a_pair_that_cannot_be_is_not_signed() {
    let dir = tempfile::tempdir().unwrap();
    let registry = crate::agents::registry_id(CHAIN_ID);
    let (pay_to, wallet) = (TREASURY.to_string(), "0x00000000000000000000000000000000000000fe");
    let arguments = |network| {
        [
            "delegation",
            "sign",
            "--registry",
            &registry,
            "--agent-id",
            "7",
            "--network",
            network,
            "--pay-to",
            &pay_to,
            "--asset",
            &pay_to,
            "--origin",
            ORIGIN,
            "--agent-wallet",
            wallet,
            "--key",
            "env:SELLER_KEY",
        ]
    };
    let (code, signed, error) = quittance(dir.path(), &arguments(SOLANA), None).await;
    assert_eq!((code, signed), (Some(1), Value::Null));
    assert!(error.contains("--network and --pay-to: the pair"), "{error}");

    let (code, signed, warnings) = quittance(dir.path(), &arguments("cosmos:cosmoshub-4"), None).await;
    assert_eq!((code, &signed["payee"]["payTo"]), (Some(0), &json!(pay_to)));
    let seller = quittance_testkit::dev_address(crate::agents::SELLER);
    for part in [
        "--network and --pay-to: the pair".to_owned(),
        "--network and --asset: the pair".to_owned(),
        format!("{wallet}@eip155:{CHAIN_ID}#"),
        format!("{seller}@eip155:{CHAIN_ID}#"),
    ] {
        assert!(warnings.contains(&part), "no {part:?} in {warnings}");
    }
}

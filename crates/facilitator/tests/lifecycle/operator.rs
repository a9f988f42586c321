//! What an operator sees and does with `quittance payments`, beside a running server.

use crate::support::{Bench, Rows, SEND, Setup, StoreKind, Told};
use alloy_primitives::{Address, U256};
use quittance_protocol::interop::InteropAddress;
use quittance_testkit::{
    dev_accounts::dev_key,
    harness::{Fault, Rule, process::Wait},
};
use serde_json::Value;
use std::process::Output;
use tokio::process::Command;

async fn payments(bench: &Bench, arguments: &[&str]) -> Output {
    payments_with(bench, arguments, &[]).await
}

/// The same with other settings than the server has.
async fn payments_with(bench: &Bench, arguments: &[&str], environment: &[(&str, &str)]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_quittance"));
    command.arg("payments").args(arguments).arg("--config").arg(bench.server.dir().join("quittance.toml"));
    // The path of the SQLite file is meant from there.
    command.current_dir(bench.server.dir()).envs(bench.config.environment());
    command.envs(environment.iter().copied());
    command.kill_on_drop(true).output().await.unwrap()
}

fn text(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// What `show` prints.
async fn shown(bench: &Bench, id: &str) -> Value {
    serde_json::from_str(&text(&payments(bench, &["show", id]).await)).unwrap()
}

impl Bench {
    /// A line of the log says this about the only signer, with its chain and a checksum.
    pub(crate) fn assert_log_names_signers(&self, what: &str) {
        let log = self.server.log_text();
        let line = log.lines().find(|line| line.contains(what)).unwrap_or_else(|| panic!("no {what}: {log}"));
        assert!(line.contains(&format!("signer={}", named(self.signers[0]))), "{line}");
    }
}

/// What each of a payment's transactions was signed for, the oldest first.
pub(crate) async fn kinds(bench: &Bench, id: &str) -> Vec<String> {
    let shown = shown(bench, id).await;
    let attempts = shown["attempts"].as_array().unwrap();
    attempts.iter().map(|attempt| attempt["kind"].as_str().unwrap().to_owned()).collect()
}

/// An address as a person reads it.
fn named(address: Address) -> String {
    InteropAddress::evm(U256::from(84532), address).unwrap().to_string()
}

fn error(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

on_both_stores! {
    async fn a_stuck_payment_is_seen_and_sent_again(store) {
        let bench = Setup::new(store).no_mining().wait_seconds(1).start().await;
        // The node says yes and keeps nothing.
        let swallowed = bench.proxy.add(Rule::on(SEND).then(Fault::Swallow));
        let payment = bench.payment().await;
        let told = bench.settle(&payment).await.told();
        let Told::Pending(hash) = told else { panic!("{told:?}") };
        let id = bench.row(&payment).await["settlementId"].as_str().unwrap().to_owned();

        let listed = payments(&bench, &["list", "--status", "signed"]).await;
        let (asset, payee) = (named(payment.asset()), named(payment.recipient()));
        assert!(asset.starts_with(&format!("{}@eip155:84532#", payment.asset())), "{asset}");
        let amount = payment.value();
        assert_eq!(text(&listed), format!("{id}  {:17}  {amount} {asset}  to {payee}  {hash}\n", "signed"));
        let shown = shown(&bench, &id).await;
        assert_eq!((&shown["assetName"], &shown["payToName"]), (&asset.into(), &payee.into()));
        assert_eq!(shown["payerName"], named(payment.payer()));
        assert_eq!(shown["payer"], payment.payer().to_string(), "as scripts take it");
        assert_eq!(kinds(&bench, &id).await, ["payment"]);
        assert_eq!(
            (&shown["status"], &shown["attempts"][0]["transaction"]),
            (&"signed".into(), &hash.to_string().into())
        );
        assert!(!shown.to_string().contains("raw"), "signed bytes are a bearer capability");
        assert_eq!(payments(&bench, &["stuck", "--seconds", "3600"]).await.status.code(), Some(0));
        let younger = bench.payment().await;
        let Told::Pending(_) = bench.settle(&younger).await.told() else { panic!("not pending") };
        let stuck = payments(&bench, &["stuck", "--seconds", "0"]).await;
        let lines = text(&stuck);
        let ages: Vec<u64> = lines
            .lines()
            .map(|line| line.split("signed ").last().unwrap().strip_suffix(" s ago").unwrap().parse().unwrap())
            .collect();
        assert_eq!((stuck.status.code(), ages.len()), (Some(1), 2), "{stuck:?}");
        assert!(lines.starts_with(&id) && ages[0] >= ages[1], "the oldest first: {lines}");
        assert_eq!(error(&stuck), "");
        let oldest = payments(&bench, &["stuck", "--seconds", "0", "--limit", "1"]).await;
        assert_eq!((oldest.status.code(), text(&oldest).lines().count()), (Some(1), 1));
        assert!(text(&oldest).starts_with(&id) && error(&oldest).contains("there are more"), "{oldest:?}");
        let newest = payments(&bench, &["list", "--limit", "1"]).await;
        let other = bench.row(&younger).await["settlementId"].as_str().unwrap().to_owned();
        assert!(newest.status.success() && text(&newest).starts_with(&other), "{newest:?}");
        assert_eq!(text(&newest).lines().count(), 1);
        assert_eq!(error(&newest), "these are the newest 1; there are more\n");
        let both = payments(&bench, &["list", "--limit", "2"]).await;
        assert_eq!((text(&both).lines().count(), error(&both)), (2, String::new()));
        for (command, limit) in [("list", "0"), ("list", "1001"), ("stuck", "0"), ("stuck", "5000")] {
            let refused = payments(&bench, &[command, "--limit", limit]).await;
            assert_eq!((refused.status.code(), text(&refused)), (Some(2), String::new()), "{refused:?}");
            assert!(error(&refused).contains(&format!("{limit} is not in 1..=1000")), "{refused:?}");
        }
        if store == StoreKind::Sqlite {
            let refused = payments(&bench, &["cancel", &id]).await;
            assert_eq!(refused.status.code(), Some(1));
            assert!(error(&refused).contains("stop the server"), "{refused:?}");
        }

        bench.proxy.remove(swallowed);
        for stuck in [&payment, &younger] {
            let row = bench.row(stuck).await;
            let sent = payments(&bench, &["rebroadcast", row["settlementId"].as_str().unwrap()]).await;
            // The server may have been faster.
            let says = format!("{}  sent: a node ", row["transaction"].as_str().unwrap());
            assert!(sent.status.success() && text(&sent).starts_with(&says), "{sent:?}");
        }
        bench.anvil.mine(1).await.unwrap();
        assert_eq!(bench.insisting(&payment).await.unwrap(), hash);
        bench.insisting(&younger).await.unwrap();
        bench.assert_paid_once(&[payment, younger]).await;
        assert_eq!((bench.mined().await, bench.known_to_the_node().await), (2, 2));
        let late = payments(&bench, &["rebroadcast", &id]).await;
        assert_eq!(late.status.code(), Some(1), "a final payment has nothing to send");
        assert_eq!(payments(&bench, &["stuck", "--seconds", "0"]).await.status.code(), Some(0));
    }
}

on_both_stores! {
    /// Beside the server, or on SQLite while it is down.
    async fn a_canceled_payment_frees_its_lane_and_moves_nothing(store) {
        let mut bench = Setup::new(store).no_mining().wait_seconds(1).start().await;
        let payment = bench.payment().await;
        let told = bench.settle(&payment).await.told();
        let Told::Pending(_) = told else { panic!("{told:?}") };
        let id = bench.row(&payment).await["settlementId"].as_str().unwrap().to_owned();
        if store == StoreKind::Sqlite {
            bench.server.sigterm().await.unwrap();
            let listed = payments(&bench, &["list"]).await;
            assert!(listed.status.success() && text(&listed).contains(&id), "{listed:?}");
        }
        let canceled = payments(&bench, &["cancel", &id]).await;
        assert!(canceled.status.success() && text(&canceled).contains("sent"), "{canceled:?}");
        assert_eq!(kinds(&bench, &id).await, ["payment", "cancel"]);
        if store == StoreKind::Sqlite {
            bench.server.restart(Wait::Ready).await.unwrap();
        }
        bench.anvil.mine(1).await.unwrap();
        let row = bench.until_status(&payment, "failed").await;
        assert_eq!(row["reason"], "invalid_exact_evm_transaction_failed");
        bench.assert_nothing_moved().await;
        assert!(!bench.is_used(&payment).await);
        // The lane goes on, and so may the payment.
        bench.anvil.set_automine(true).await.unwrap();
        bench.settle(&payment).await.success_of(&payment);
    }
}

on_both_stores! {
    /// Each time it says why, and leaves the payment as it was.
    async fn what_cannot_be_canceled_is_not_called_done(store) {
        let mut bench = Setup::new(store).no_mining().wait_seconds(1).start().await;
        let payment = bench.payment().await;
        let told = bench.settle(&payment).await.told();
        let Told::Pending(_) = told else { panic!("{told:?}") };
        let id = bench.row(&payment).await["settlementId"].as_str().unwrap().to_owned();
        // What is sent from here on is sent by the command.
        bench.server.sigterm().await.unwrap();
        let sent = bench.sent().len();
        let signer = named(bench.signers[0]);

        let stranger = dev_key(1);
        let other_key = [("DEV_SIGNER_0", stranger.as_str())];
        let low_cap = [("QUITTANCE_POLICY__FEE_PER_SETTLEMENT_WEI_MAX", "1")];
        let nothing = [];
        let poor = || bench.anvil.set_balance(bench.signers[0], U256::ZERO);
        for (environment, why) in [
            (other_key.as_slice(), format!("its signer {signer} is not in this configuration")),
            (&low_cap, "policy.fee_per_settlement_wei_max allows less".to_owned()),
            (&nothing, format!("its signer {signer} has less")),
        ] {
            if environment.is_empty() {
                poor().await.unwrap();
            }
            let refused = payments_with(&bench, &["cancel", &id], environment).await;
            assert_eq!((refused.status.code(), text(&refused)), (Some(1), String::new()), "{refused:?}");
            assert!(error(&refused).contains(&why), "{refused:?}");
        }
        assert_eq!(kinds(&bench, &id).await, ["payment"]);
        assert_eq!(bench.sent().len(), sent, "what was to be canceled was sent again");

        Rows::of(&bench).run("UPDATE slots SET outcome = 'foreign'").await;
        let refused = payments(&bench, &["cancel", &id]).await;
        assert_eq!((refused.status.code(), text(&refused)), (Some(1), String::new()), "{refused:?}");
        assert!(error(&refused).contains("none of its transactions waits for a block"), "{refused:?}");
    }
}

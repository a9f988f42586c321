//! A running server, the chain behind it, and the questions a test asks them.

use super::{
    DEADLINE, Database, Reply, SEND, Told,
    setup::{PAYERS, PURSE},
    until, until_counted,
};
use alloy_primitives::{Address, B256, Bytes, U256, keccak256};
use quittance_testkit::{
    Anvil, DevChain, Facilitator, PaymentBuilder, SignedPayment, dev_address,
    dev_chain::Transfer,
    dev_signer,
    harness::{ConfigBuilder, QuittanceProcess, RpcProxy, process::Wait, proxy::RuleId},
    jsonrpc::hex_quantity,
};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use tokio::task::JoinHandle;

/// Everything one test has.
#[derive(Debug)]
pub(crate) struct Bench {
    // First, so that the server goes before what it stands on.
    pub(crate) server: QuittanceProcess,
    pub(crate) client: Facilitator,
    pub(crate) proxy: RpcProxy,
    /// The other endpoint, if the test has two.
    pub(crate) second_proxy: Option<RpcProxy>,
    pub(crate) chain: DevChain,
    pub(crate) anvil: Anvil,
    pub(crate) database: Option<Database>,
    pub(crate) config: ConfigBuilder,
    pub(crate) signers: Vec<Address>,
    /// The last block before the server started.
    pub(crate) started_at: u64,
}

impl Bench {
    /// A payment description: dev account 4 pays.
    pub(crate) async fn builder(&self) -> PaymentBuilder {
        self.chain.payment().await.unwrap().payer(dev_signer(PAYERS.start))
    }

    /// A payment.
    pub(crate) async fn payment(&self) -> SignedPayment {
        self.builder().await.sign()
    }

    /// Different payments, by all payers in turn.
    pub(crate) async fn payments(&self, count: usize) -> Vec<SignedPayment> {
        let builder = self.builder().await;
        let payers = PAYERS.cycle().take(count);
        payers.map(|payer| builder.clone().payer(dev_signer(payer)).sign()).collect()
    }

    pub(crate) async fn verify(&self, payment: &SignedPayment) -> Reply {
        let (status, json) = self.client.verify(payment.body()).await.unwrap();
        Reply { status, json }
    }

    pub(crate) async fn settle(&self, payment: &SignedPayment) -> Reply {
        settle_at(&self.client, payment.body()).await.unwrap()
    }

    pub(crate) async fn settle_with_key(&self, payment: &SignedPayment, key: &str) -> Reply {
        let answer = self.client.settle_with(payment.body(), &[("Idempotency-Key", key)]).await.unwrap();
        Reply { status: answer.status, json: answer.json }
    }

    /// Settles in the background. `None`: the connection broke before an answer came.
    pub(crate) fn settling(&self, payment: &SignedPayment) -> JoinHandle<Option<Reply>> {
        let (client, body) = (self.client.clone(), payment.body().clone());
        tokio::spawn(async move { settle_at(&client, &body).await })
    }

    /// A caller that asks until it is told of its success, whatever happens to the server.
    pub(crate) fn insisting(&self, payment: &SignedPayment) -> JoinHandle<B256> {
        let (client, body) = (self.client.clone(), payment.body().clone());
        tokio::spawn(async move {
            until("a success", 2 * DEADLINE, || async {
                match settle_at(&client, &body).await?.told() {
                    Told::Success(hash) => Some(hash),
                    Told::Pending(_) | Told::Unavailable => None,
                    other => panic!("{other:?}"),
                }
            })
            .await
        })
    }

    /// Settles everything at once; each answer in its place.
    pub(crate) async fn settle_all(&self, payments: &[SignedPayment]) -> Vec<Reply> {
        let calls: Vec<_> = payments.iter().map(|payment| self.settling(payment)).collect();
        let mut replies = Vec::with_capacity(calls.len());
        for call in calls {
            replies.push(call.await.unwrap().expect("an answer"));
        }
        replies
    }

    /// Kills the server without warning and starts it again on the same store.
    pub(crate) async fn crash_and_restart(&mut self) {
        self.server.restart(Wait::Ready).await.unwrap();
    }

    /// All rows of a payment's key, newest first.
    pub(crate) async fn rows(&self, payment: &SignedPayment) -> Vec<Value> {
        rows_at(&self.client, payment).await
    }

    /// The only row of a payment.
    pub(crate) async fn row(&self, payment: &SignedPayment) -> Value {
        let mut rows = self.rows(payment).await;
        assert_eq!(rows.len(), 1, "{rows:?}");
        rows.remove(0)
    }

    /// Waits until the newest row of a payment has this status.
    pub(crate) async fn until_status(&self, payment: &SignedPayment, status: &str) -> Value {
        let what = format!("a row that is {status}");
        until(&what, DEADLINE, || async {
            let row = self.rows(payment).await.into_iter().next()?;
            (row["status"] == status).then_some(row)
        })
        .await
    }

    /// Waits until rules of the (first) proxy have met so many more calls, taken together.
    pub(crate) async fn until_hits(&self, rules: &[RuleId], more: u64) {
        let hits = || rules.iter().map(|rule| self.proxy.hits(*rule)).sum::<u64>();
        let enough = hits() + more;
        until("calls that meet the rules", DEADLINE, || async { (hits() >= enough).then_some(()) }).await;
    }

    /// Hashes of everything the server has sent, in order.
    pub(crate) fn sent(&self) -> Vec<B256> {
        let calls = self.proxy.calls_of(SEND);
        calls
            .iter()
            .map(|call| keccak256(call.params[0].as_str().unwrap().parse::<Bytes>().unwrap()))
            .collect()
    }

    /// How many transactions of the signers are mined.
    pub(crate) async fn mined(&self) -> u64 {
        let mut mined = 0;
        for signer in &self.signers {
            mined += self.anvil.nonce(*signer, false).await.unwrap();
        }
        mined
    }

    /// How many transactions of the signers are mined or ready to be.
    pub(crate) async fn known_to_the_node(&self) -> u64 {
        let mut known = 0;
        for signer in &self.signers {
            known += self.anvil.nonce(*signer, true).await.unwrap();
        }
        known
    }

    /// Waits until so many are, and not until so many were sent: what is sent again is not one more.
    pub(crate) async fn until_known(&self, transactions: u64) {
        until_counted("transactions that the node knows", transactions, || self.known_to_the_node()).await;
    }

    /// Everything that has moved since the server started.
    pub(crate) async fn transfers(&self) -> Vec<Transfer> {
        let transfers = self.chain.transfers(self.chain.token, self.started_at).await.unwrap();
        transfers.into_iter().filter(|transfer| transfer.block > self.started_at).collect()
    }

    /// The money of these payments has moved, each once, and nothing else has.
    pub(crate) async fn assert_paid_once(&self, payments: &[SignedPayment]) {
        let transfers = self.transfers().await;
        let mut moved: Vec<_> = transfers.iter().map(|t| (t.from, t.to, t.value)).collect();
        let mut owed: Vec<_> = payments.iter().map(|p| (p.payer(), p.recipient(), p.value())).collect();
        moved.sort_unstable();
        owed.sort_unstable();
        assert_eq!(moved, owed);
        for payment in payments {
            assert!(self.is_used(payment).await, "its nonce is unused");
        }
    }

    /// Like [`Self::assert_paid_once`] for one payment; also, one transaction of the signers did it.
    pub(crate) async fn assert_one_transaction_paid(&self, payment: &SignedPayment, hash: B256) {
        self.assert_paid_once(std::slice::from_ref(payment)).await;
        let transfers = self.transfers().await;
        assert_eq!(transfers[0].transaction, hash);
        assert_eq!((self.mined().await, self.known_to_the_node().await), (1, 1));
        let row = self.row(payment).await;
        assert_eq!((&row["status"], &row["transaction"]), (&"settled".into(), &hash.to_string().into()));
    }

    /// Each payment was executed by the transaction its caller was told: the token's own record of the authorization says so.
    pub(crate) async fn assert_executed_by(&self, told: &[(&SignedPayment, B256)]) {
        let filter = json!([{
            "address": self.chain.token,
            "fromBlock": hex_quantity(self.started_at + 1),
            "toBlock": "latest",
            "topics": [keccak256("AuthorizationUsed(address,bytes32)")],
        }]);
        let logs = self.anvil.rpc("eth_getLogs", filter).await.unwrap();
        let word = |text: &Value| text.as_str().unwrap().parse::<B256>().unwrap();
        let executed: BTreeMap<_, _> = logs
            .as_array()
            .unwrap()
            .iter()
            .map(|log| {
                let topics = &log["topics"];
                ((word(&topics[1]), word(&topics[2])), word(&log["transactionHash"]))
            })
            .collect();
        for (payment, hash) in told {
            let authorization = (payment.payer().into_word(), payment.nonce());
            assert_eq!(executed.get(&authorization), Some(hash), "{authorization:?}");
        }
    }

    /// No money has moved at all.
    pub(crate) async fn assert_nothing_moved(&self) {
        assert_eq!(self.transfers().await, []);
        let balance = self.chain.balance_of(self.chain.token, dev_address(PAYERS.start)).await.unwrap();
        assert_eq!(balance, U256::from(PURSE));
    }

    pub(crate) async fn is_used(&self, payment: &SignedPayment) -> bool {
        self.chain.authorization_state(payment.asset(), payment.payer(), payment.nonce()).await.unwrap()
    }

    pub(crate) fn database(&self) -> &Database {
        self.database.as_ref().expect("a test on PostgreSQL")
    }
}

/// Settles at one server. `None`: the connection broke before an answer came.
pub(crate) async fn settle_at(client: &Facilitator, body: &Value) -> Option<Reply> {
    let (status, json) = client.settle(body).await.ok()?;
    Some(Reply { status, json })
}

pub(crate) async fn rows_at(client: &Facilitator, payment: &SignedPayment) -> Vec<Value> {
    let path = format!("/settlements?payer={}&nonce={}", payment.payer(), payment.nonce());
    let answer = client.get(&path).await.unwrap();
    assert_eq!(answer.status, 200, "{}", answer.text);
    answer.json["settlements"].as_array().unwrap().clone()
}

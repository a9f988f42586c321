//! One server, one payment, and everybody who asks about it while the server dies and comes back.

use crate::support::{Bench, DEADLINE, Reply, Rows, Setup, Told, until};
use alloy_primitives::B256;
use quittance::fault_point::{Point, VARIABLE};
use quittance_testkit::{SignedPayment, harness::process::Wait};
use serde_json::json;
use std::{os::unix::process::ExitStatusExt as _, time::Duration};
use tokio::{task::JoinHandle, time::sleep};

const SIGABRT: i32 = 6;
/// The idempotency key of every caller that has one.
pub(super) const KEY: &str = "order 4711";

/// A point, and which time it ends the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Arming {
    pub(super) point: Point,
    pub(super) time: u32,
}

impl Arming {
    fn setting(self) -> String {
        format!("{}:{}", self.point.as_str(), self.time)
    }
}

#[derive(Debug)]
pub(super) struct Scene {
    pub(super) bench: Bench,
    pub(super) payment: SignedPayment,
    /// Callers whose server is to die.
    pub(super) calls: Vec<JoinHandle<Option<Reply>>>,
    /// What callers were told so far.
    pub(super) heard: Vec<Told>,
    /// Payments that were paid before.
    pub(super) paid_before: Vec<SignedPayment>,
    /// Somebody else's transaction that did the same.
    pub(super) theirs: Option<B256>,
    /// Blocks do not come by themselves.
    pub(super) blocks_held: bool,
    deaths: usize,
}

impl Scene {
    /// Not armed yet: for what has to stand in the store, or to be disturbed, before the start that ends badly.
    pub(super) async fn open(setup: Setup) -> Self {
        let bench = setup.start().await;
        let payment = bench.payment().await;
        Self {
            bench,
            payment,
            calls: Vec::new(),
            heard: Vec::new(),
            paid_before: Vec::new(),
            theirs: None,
            blocks_held: false,
            deaths: 0,
        }
    }

    pub(super) async fn armed(setup: Setup, arming: Arming) -> Self {
        Self::open(setup.first_start(VARIABLE, arming.setting())).await
    }

    pub(super) async fn armed_without_blocks(setup: Setup, arming: Arming) -> Self {
        Self { blocks_held: true, ..Self::armed(setup.no_mining(), arming).await }
    }

    pub(super) fn rows(&self) -> Rows {
        Rows::of(&self.bench)
    }

    /// Starts the server again, to die at this point.
    pub(super) async fn arm(&mut self, arming: Arming, wait: Wait) {
        let config = self.bench.config.clone().env(VARIABLE, arming.setting());
        self.bench.server.restart_with(config, wait).await.unwrap();
    }

    pub(super) async fn start_unarmed(&mut self) {
        let config = self.bench.config.clone();
        self.bench.server.restart_with(config, Wait::Ready).await.unwrap();
    }

    /// Waits for the server to end by itself, and insists on where.
    pub(super) async fn dies_at(&mut self, point: Point) {
        let status = self.bench.server.exit(DEADLINE).await.unwrap();
        self.deaths += 1;
        assert_eq!(status.signal(), Some(SIGABRT), "{status}");
        let log = self.bench.server.log_text();
        let deaths: Vec<_> = log.lines().filter(|line| line.starts_with("fault point reached: ")).collect();
        assert_eq!(deaths.len(), self.deaths);
        assert_eq!(deaths[self.deaths - 1], format!("fault point reached: {}", point.as_str()));
        for call in self.calls.drain(..) {
            self.heard.extend(call.await.unwrap().map(|reply| reply.told()));
        }
    }

    /// Callers come back again and again until the server is gone.
    pub(super) async fn dies_again_at(&mut self, arming: Arming) {
        self.let_blocks_come().await;
        self.arm(arming, Wait::Nothing).await;
        let (client, body) = (self.bench.client.clone(), self.payment.body().clone());
        let (gone, mut watch) = tokio::sync::oneshot::channel::<()>();
        let asking = tokio::spawn(async move {
            let mut heard = Vec::new();
            while watch.try_recv().is_err() {
                match client.settle(&body).await {
                    Ok((status, json)) => heard.push(Reply { status, json }.told()),
                    Err(_) => sleep(Duration::from_millis(50)).await,
                }
            }
            heard
        });
        self.dies_at(arming.point).await;
        gone.send(()).unwrap();
        self.heard.extend(asking.await.unwrap());
    }

    /// From now on blocks come by themselves.
    pub(super) async fn let_blocks_come(&mut self) {
        if std::mem::take(&mut self.blocks_held) {
            self.bench.anvil.set_interval_mining(1).await.unwrap();
        }
    }

    /// What stands in the store about the payment.
    pub(super) async fn left_behind(&self) -> String {
        self.rows().describe(&self.payment.nonce().to_string()).await
    }

    pub(super) fn calls_verify(&mut self) {
        let (client, body) = (self.bench.client.clone(), self.payment.body().clone());
        let call = tokio::spawn(async move {
            let told = client.verify(&body).await;
            assert!(told.is_err(), "{told:?}");
            None
        });
        self.calls.push(call);
    }

    pub(super) fn calls_settle(&mut self) {
        self.calls.push(self.bench.settling(&self.payment));
    }

    pub(super) fn calls_settle_with_key(&mut self) {
        let (client, body) = (self.bench.client.clone(), self.payment.body().clone());
        let call = tokio::spawn(async move {
            let answer = client.settle_with(&body, &[("Idempotency-Key", KEY)]).await.ok()?;
            Some(Reply { status: answer.status, json: answer.json })
        });
        self.calls.push(call);
    }

    pub(super) fn calls_settle_with_identifier(&mut self) {
        let extensions = json!({"payment-identifier": {"info": {"id": "order-0000000000004711"}}});
        let payment = self.payment.clone().with_value("/paymentPayload/extensions", extensions);
        self.calls.push(self.bench.settling(&payment));
    }

    /// Asks until there is a decision.
    pub(super) async fn decision(&self) -> Told {
        until("a decision", 2 * DEADLINE, || async {
            match self.bench.settle(&self.payment).await.told() {
                Told::Pending(_) | Told::Unavailable => None,
                told => Some(told),
            }
        })
        .await
    }

    /// The payment's money has moved once, by this transaction, and so has that of those before it.
    pub(super) async fn assert_paid_by(&self, hash: B256) {
        let transfers = self.bench.transfers().await;
        for payment in self.paid_before.iter().chain([&self.payment]) {
            let paid = (payment.payer(), payment.recipient(), payment.value());
            let moves = transfers.iter().filter(|t| (t.from, t.to, t.value) == paid).count();
            assert_eq!(moves, 1, "{transfers:?}");
            assert!(self.bench.is_used(payment).await);
        }
        assert!(transfers.iter().any(|t| t.transaction == hash), "{hash} moved nothing: {transfers:?}");
    }

    /// Every nonce of the lane is given away once, in order, and consumed; the node waits for none.
    pub(super) async fn assert_lane_is_whole(&self) {
        let open = "SELECT 'open' FROM slots WHERE outcome IS NULL";
        until("every slot closed", DEADLINE, || async {
            self.rows().texts(open).await.is_empty().then_some(())
        })
        .await;
        let nonces =
            self.rows().texts("SELECT CAST(lane_nonce AS TEXT) FROM slots ORDER BY lane_nonce").await;
        let mined = self.bench.mined().await;
        let expected: Vec<_> = (0..mined).map(|nonce| nonce.to_string()).collect();
        assert_eq!(nonces, expected);
        assert_eq!(self.bench.known_to_the_node().await, mined);
    }
}

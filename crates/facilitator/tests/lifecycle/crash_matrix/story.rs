//! What happens to a server until it dies: everything that leads a payment past the points of `fault_point::Point`.

use super::scene::{Arming, KEY, Scene};
use crate::support::{Bench, DEADLINE, RawCall, SEND, Setup, StoreKind};
use alloy_primitives::{Address, Bytes, U256};
use alloy_sol_types::SolCall as _;
use quittance_testkit::{
    abi::IToken,
    dev_address,
    harness::{Fault, Rule, process::Wait},
};
use serde_json::json;
use tokio::time::timeout;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Story {
    /// Starts with a reservation in the store.
    Start,
    /// `/verify`, with the payee check on.
    Verify,
    /// The caller of `/verify` hangs up while the reservation is written.
    VerifyAndHangUp,
    /// A reservation outlives its authorization.
    Outlive,
    /// `/settle`, with the payee check on; blocks come at once.
    Settle,
    /// `/settle` with an idempotency key.
    SettleWithKey,
    /// `/settle` with an identifier, of a payment that was reserved without.
    SettleWithIdentifier,
    /// A key gets old.
    ForgetKeys,
    /// `/settle`, and no block comes.
    SettleUnmined,
    /// `/settle`, whose caller hears in time that no block came.
    SettleUntilPending,
    /// The caller of `/settle` hangs up while its success is recorded.
    SettleAndHangUp,
    /// The money is gone between `/verify` and `/settle`.
    Refuse,
    /// The same with an idempotency key.
    RefuseWithKey,
    /// In a block that is not deep enough.
    Mine,
    /// That block goes away.
    Reorganize,
    /// Somebody else submits the authorization.
    SettleElsewhere,
    /// The money is gone between simulation and block.
    Revert,
    /// No block comes until the authorization is dead.
    Expire,
    /// Somebody else uses the signer's key.
    LoseNonce,
    /// The base fee outgrows the offer.
    Outbid,
    /// A reorganisation undoes an earlier payment that was final.
    UndoFinal,
    /// A reorganisation undoes a transaction of the signer that no slot holds.
    LeaveHole,
    /// SIGTERM while a caller waits.
    Stop,
}

impl Story {
    /// Tells the story to a server that dies where it is told.
    pub(super) async fn play(self, store: StoreKind, arming: Arming) -> Scene {
        let setup = Setup::new(store).set("payee.mode", json!("report"));
        match self {
            Self::Start => {
                let mut scene = Scene::open(setup).await;
                scene.bench.verify(&scene.payment).await.valid();
                scene.arm(arming, Wait::Nothing).await;
                scene
            }
            Self::Verify => {
                let mut scene = Scene::armed(setup, arming).await;
                scene.calls_verify();
                scene
            }
            Self::VerifyAndHangUp => {
                let scene = slow(setup, arming, "INSERT").await;
                scene.bench.proxy.reset_records();
                let call = RawCall::verify(&scene.bench.client, scene.payment.body()).await;
                scene.bench.proxy.wait_answered("eth_call", 1).await.unwrap();
                hang_up_during_a_write(&scene, call, "SELECT 1").await;
                scene
            }
            Self::Outlive => {
                let mut scene = Scene::open(setup).await;
                scene.bench.verify(&scene.payment).await.valid();
                scene.bench.server.kill9();
                scene.rows().run("UPDATE payments SET expires_at = 1").await;
                scene.arm(arming, Wait::Ready).await;
                scene
            }
            Self::Settle => {
                let mut scene = Scene::armed(setup, arming).await;
                scene.calls_settle();
                scene
            }
            Self::SettleWithKey => {
                let mut scene = Scene::armed(setup, arming).await;
                scene.calls_settle_with_key();
                scene
            }
            Self::SettleWithIdentifier => {
                let mut scene = Scene::armed(setup, arming).await;
                scene.bench.verify(&scene.payment).await.valid();
                scene.calls_settle_with_identifier();
                scene
            }
            Self::ForgetKeys => {
                let mut scene = Scene::open(setup).await;
                scene.bench.settle_with_key(&scene.payment, KEY).await.success_of(&scene.payment);
                scene.bench.server.kill9();
                scene.rows().run("UPDATE idempotency_keys SET bound_at = 1").await;
                scene.arm(arming, Wait::Nothing).await;
                scene
            }
            Self::SettleUnmined => {
                let mut scene = Scene::armed_without_blocks(setup, arming).await;
                scene.calls_settle();
                scene
            }
            Self::SettleUntilPending => {
                let mut scene = Scene::armed_without_blocks(setup.wait_seconds(1), arming).await;
                scene.calls_settle();
                scene
            }
            Self::SettleAndHangUp => {
                let scene = slow(setup, arming, "UPDATE OF last_answer").await;
                let call = RawCall::settle(&scene.bench.client, scene.payment.body(), &[]).await;
                let leased = "SELECT 1 FROM payments WHERE answer_holder IS NOT NULL";
                hang_up_during_a_write(&scene, call, leased).await;
                scene
            }
            Self::Refuse | Self::RefuseWithKey => {
                let mut scene = Scene::armed(setup, arming).await;
                scene.bench.verify(&scene.payment).await.valid();
                empty_purse(&scene).await;
                match self {
                    Self::Refuse => scene.calls_settle(),
                    _ => scene.calls_settle_with_key(),
                }
                scene
            }
            Self::Mine | Self::Reorganize => {
                let mut scene = Scene::armed_without_blocks(setup.confirmations(2), arming).await;
                scene.calls_settle();
                scene.bench.proxy.wait_answered(SEND, 1).await.unwrap();
                scene.bench.anvil.mine(1).await.unwrap();
                if self == Self::Reorganize {
                    scene.bench.until_status(&scene.payment, "mined").await;
                    scene.bench.anvil.reorg(1).await.unwrap();
                }
                scene
            }
            Self::SettleElsewhere => {
                let mut scene = swallowed(setup, arming).await;
                let theirs = scene.bench.chain.settle_elsewhere(&scene.payment).await.unwrap();
                assert!(theirs.success);
                scene.theirs = Some(theirs.transaction);
                scene.let_blocks_come().await;
                scene
            }
            Self::Revert => {
                let mut scene = swallowed(setup, arming).await;
                empty_purse(&scene).await;
                scene.let_blocks_come().await;
                scene
            }
            Self::Expire => {
                let mut scene = Scene::armed_without_blocks(setup, arming).await;
                let now = scene.bench.chain.client().block_timestamp().await.unwrap();
                scene.payment = scene.bench.builder().await.valid_before(now + 60).sign();
                swallow_first(&mut scene).await;
                scene.bench.anvil.increase_time(120).await.unwrap();
                scene.let_blocks_come().await;
                scene
            }
            Self::LoseNonce => {
                let mut scene = swallowed(setup, arming).await;
                use_signer_outside(&scene.bench).await;
                scene.let_blocks_come().await;
                scene
            }
            Self::Outbid => {
                let mut scene = Scene::armed_without_blocks(setup, arming).await;
                scene.calls_settle();
                scene.bench.proxy.wait_answered(SEND, 1).await.unwrap();
                // Well above twice the base fee that the offer was made on.
                scene.bench.anvil.set_next_block_base_fee(10_000_000_000).await.unwrap();
                scene.bench.anvil.mine(1).await.unwrap();
                assert_eq!(scene.bench.mined().await, 0, "mined below the base fee");
                scene
            }
            Self::UndoFinal => {
                let mut scene = Scene::armed(setup, arming).await;
                let [undone, next] = <[_; 2]>::try_from(scene.bench.payments(2).await).unwrap();
                scene.bench.settle(&undone).await.success_of(&undone);
                (scene.paid_before, scene.payment) = (vec![undone], next);
                scene.bench.anvil.reorg(1).await.unwrap();
                scene.calls_settle();
                scene
            }
            Self::LeaveHole => {
                let mut scene = Scene::open(setup).await;
                use_signer_outside(&scene.bench).await;
                scene.arm(arming, Wait::Ready).await;
                scene.bench.anvil.reorg(1).await.unwrap();
                scene.calls_settle();
                scene
            }
            Self::Stop => {
                let mut scene = Scene::armed_without_blocks(setup, arming).await;
                scene.calls_settle();
                scene.bench.proxy.wait_answered(SEND, 1).await.unwrap();
                scene.bench.server.terminate().unwrap();
                scene
            }
        }
    }
}

/// Armed, in a database where this kind of write takes long.
async fn slow(setup: Setup, arming: Arming, write: &str) -> Scene {
    let mut scene = Scene::open(setup).await;
    scene.bench.server.kill9();
    scene.rows().slow_down(write).await;
    scene.arm(arming, Wait::Ready).await;
    scene
}

/// Hangs up in the middle of a slow write. In a task of its own, because the write does not wait for other scenes.
async fn hang_up_during_a_write(scene: &Scene, call: RawCall, query: &'static str) {
    let rows = scene.rows();
    let hanging_up = tokio::spawn(async move {
        rows.until_writing(query).await;
        drop(call);
    });
    timeout(DEADLINE, hanging_up).await.expect("a slow write").unwrap();
}

/// The node says yes to the first send and keeps nothing; no block comes.
async fn swallowed(setup: Setup, arming: Arming) -> Scene {
    let mut scene = Scene::armed_without_blocks(setup, arming).await;
    swallow_first(&mut scene).await;
    scene
}

async fn swallow_first(scene: &mut Scene) {
    scene.bench.proxy.add(Rule::on(SEND).times(1).then(Fault::Swallow));
    scene.calls_settle();
    scene.bench.proxy.wait_for(SEND, 1).await.unwrap();
}

async fn empty_purse(scene: &Scene) {
    let (bench, payer) = (&scene.bench, scene.payment.payer());
    let amount = bench.chain.balance_of(bench.chain.token, payer).await.unwrap();
    let call = IToken::transferCall { to: dev_address(9), amount }.abi_encode();
    assert!(bench.chain.send(payer, Some(bench.chain.token), call.into()).await.unwrap().success);
}

pub(super) async fn fill_purse(bench: &Bench, payer: Address) {
    bench.chain.mint(bench.chain.token, payer, U256::from(1_000_000_000_u64)).await.unwrap();
}

async fn use_signer_outside(bench: &Bench) {
    let outside = bench.chain.send(bench.signers[0], Some(dev_address(8)), Bytes::new()).await.unwrap();
    assert!(outside.success);
}

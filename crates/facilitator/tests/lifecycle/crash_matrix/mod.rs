//! The process dies at every fault point, and comes back: one outcome, one transfer, one success told, no nonce lost.

mod scene;
mod story;

use crate::support::{DEADLINE, StoreKind, Told, USED, until};
use futures::{FutureExt as _, StreamExt as _, stream};
use quittance::fault_point::{Point, VARIABLE};
use quittance_testkit::harness::{ConfigBuilder, NetworkConfig, QuittanceProcess, process::Wait};
use scene::{Arming, KEY, Scene};
use std::{panic::AssertUnwindSafe, time::Duration};
use story::{Story, fill_purse};

/// Servers that die at the same time. Most of the time they wait: for a lease to lapse, for a block, for a look.
const AT_ONCE: usize = 6;

const POOR: &str = "invalid_exact_evm_insufficient_balance";
const EXPIRED: &str = "invalid_exact_evm_payload_authorization_valid_before";
const REVERTED: &str = "invalid_exact_evm_transaction_failed";
/// Bytes of a dead authorization that were never replaced are sent again, and revert.
const EXPIRED_OR_REVERTED: &str =
    "invalid_exact_evm_payload_authorization_valid_before | invalid_exact_evm_transaction_failed";

/// One death or two, what they leave behind, and what becomes of the payment.
#[derive(Clone, Copy, Debug)]
struct Case {
    story: Story,
    first: Arming,
    /// What the store says after the first death; `|` where two things happen side by side.
    left: &'static str,
    second: Option<Arming>,
    then: Then,
}

/// What callers get after the last start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Then {
    /// Nobody was told: one caller is, once.
    SuccessWaits,
    /// It counts as told although nobody was: everybody hears who was paid, and by which transaction (ADR 8).
    CountsAsTold,
    /// The caller had its success before the end.
    WasTold,
    /// The key's owner gets its success, as often as it asks, and nobody else does.
    WaitsForItsKey,
    /// `/verify` has said yes, or counts as having said so: it says so to nobody else, and `/settle` keeps it.
    Promised,
    /// No promise stands: `/verify` makes one.
    Free,
    /// Refused, and free to be paid when the money is back.
    Refused,
    /// The key's owner gets its refusal, as often as it asks.
    RefusedForItsKey,
    /// Somebody else's transaction has paid.
    PaidElsewhere,
    /// Failed with this reason, or one of these; nothing moved.
    Failed(&'static str),
}

/// Everything that leads to a point. The match is the promise that none is left out.
fn cases(point: Point) -> Vec<Case> {
    use Story::*;
    use Then::*;
    let at =
        |story, left, then| vec![Case { story, first: Arming { point, time: 1 }, left, second: None, then }];
    let second_time =
        |story, left, then| vec![Case { story, first: Arming { point, time: 2 }, left, second: None, then }];
    match point {
        Point::VerifyReserved => at(Verify, "reserved, payee noted", Promised),
        Point::PromiseLost => at(VerifyAndHangUp, "reserved, payee noted", Promised),
        Point::PromiseTakenBack => at(VerifyAndHangUp, "refused, payee noted", Free),
        Point::ReservationsExpired => at(Outlive, "refused, payee noted", Free),
        Point::KeysForgotten => {
            at(ForgetKeys, "settled, payee noted, told success, nonce 0 ours x1", CountsAsTold)
        }
        Point::KeyBound => at(SettleWithKey, "no row, key bound", WaitsForItsKey),
        Point::SettleJudged => at(Settle, "no row", SuccessWaits),
        Point::RefusalDue => at(Refuse, "reserved, payee noted", Refused),
        Point::RefusalWritten => at(Refuse, "refused, payee noted", Refused),
        Point::SettleReserved => at(Settle, "reserved, payee noted", SuccessWaits),
        Point::IdentifierBound => at(SettleWithIdentifier, "reserved, payee noted, key bound", SuccessWaits),
        Point::SettleSigning => at(Settle, "reserved, payee noted", SuccessWaits),
        Point::SettleSigned => at(Settle, "signed, payee noted, nonce 0 open x1", SuccessWaits),
        Point::Sent => at(SettleUnmined, "signed, payee noted, nonce 0 open x1", SuccessWaits),
        Point::LaneIntroduced => at(Start, "reserved, payee noted", Promised),
        Point::KeeperLeased => at(SettleUnmined, "signed, payee noted, nonce 0 open x1", SuccessWaits),
        Point::TransitionDue => [
            at(Mine, "signed, payee noted, nonce 0 open x1", SuccessWaits),
            second_time(Reorganize, "mined, payee noted, nonce 0 open x1", SuccessWaits),
            at(SettleElsewhere, "signed, payee noted, nonce 0 open x1", PaidElsewhere),
            at(Revert, "signed, payee noted, nonce 0 open x1", Failed(REVERTED)),
            at(Expire, "signed, payee noted, nonce 0 open x2", Failed(EXPIRED)),
        ]
        .concat(),
        Point::TransitionStored => [
            at(Mine, "mined, payee noted, nonce 0 open x1", SuccessWaits),
            second_time(Reorganize, "signed, payee noted, nonce 0 open x1", SuccessWaits),
            at(SettleElsewhere, "settled_elsewhere, payee noted, nonce 0 open x1", PaidElsewhere),
            at(Revert, "failed, payee noted, nonce 0 open x1", Failed(REVERTED)),
            at(Expire, "failed, payee noted, nonce 0 open x2", Failed(EXPIRED)),
        ]
        .concat(),
        Point::ConcludeDue => at(Settle, "signed, payee noted, nonce 0 open x1", SuccessWaits),
        Point::Concluded => at(Settle, "settled, payee noted, nonce 0 ours x1", SuccessWaits),
        Point::SlotCloseDue => {
            at(SettleElsewhere, "settled_elsewhere, payee noted, nonce 0 open x1", PaidElsewhere)
        }
        Point::SlotClosed => {
            at(SettleElsewhere, "settled_elsewhere, payee noted, nonce 0 ours x1", PaidElsewhere)
        }
        Point::ForeignSeen => at(LoseNonce, "signed, payee noted, nonce 0 open x1", SuccessWaits),
        Point::LaneFloorRaised => at(LoseNonce, "signed, payee noted, nonce 0 open x1", SuccessWaits),
        Point::ForeignSlotClosed => at(LoseNonce, "signed, payee noted, nonce 0 foreign x1", SuccessWaits),
        Point::SigningAgain => at(LoseNonce, "signed, payee noted, nonce 0 foreign x1", SuccessWaits),
        Point::SignedAgain => {
            at(LoseNonce, "signed, payee noted, nonce 0 foreign x1, nonce 1 open x1", SuccessWaits)
        }
        Point::Replacing => [
            at(Outbid, "signed, payee noted, nonce 0 open x1", SuccessWaits),
            at(Expire, "signed, payee noted, nonce 0 open x1", Failed(EXPIRED_OR_REVERTED)),
        ]
        .concat(),
        Point::Replaced => [
            at(Outbid, "signed, payee noted, nonce 0 open x2", SuccessWaits),
            at(Expire, "signed, payee noted, nonce 0 open x2", Failed(EXPIRED)),
        ]
        .concat(),
        Point::SlotReopened => {
            at(UndoFinal, "signed, payee noted, nonce 0 open x1, nonce 1 open x1", SuccessWaits)
        }
        Point::HoleFilling => at(LeaveHole, "signed, payee noted, nonce 1 open x1", SuccessWaits),
        Point::HoleFilled => {
            at(LeaveHole, "signed, payee noted, nonce 0 open x1, nonce 1 open x1", SuccessWaits)
        }
        Point::AnswerLeased => [
            at(Settle, "settled, payee noted, leased, nonce 0 ours x1", SuccessWaits),
            at(SettleWithKey, "settled, payee noted, leased, nonce 0 ours x1, key bound", WaitsForItsKey),
        ]
        .concat(),
        Point::AnswerBegun => [
            at(Settle, "settled, payee noted, told success, in flight, nonce 0 ours x1", CountsAsTold),
            at(
                SettleWithKey,
                "settled, payee noted, told success, in flight, nonce 0 ours x1, key answered",
                WaitsForItsKey,
            ),
            at(
                SettleUntilPending,
                "signed, payee noted, told pending, in flight, nonce 0 open x1",
                SuccessWaits,
            ),
        ]
        .concat(),
        Point::AnswerWritten => {
            at(Settle, "settled, payee noted, told success, in flight, nonce 0 ours x1", WasTold)
        }
        Point::AnswerReleased => at(Settle, "settled, payee noted, told success, nonce 0 ours x1", WasTold),
        Point::AnswerLost => at(
            SettleAndHangUp,
            "settled, payee noted, told success, in flight, nonce 0 ours x1",
            CountsAsTold,
        ),
        Point::AnswerTakenBack => at(SettleAndHangUp, "settled, payee noted, nonce 0 ours x1", SuccessWaits),
        Point::KeyedAnswerDue => at(RefuseWithKey, "refused, payee noted, key bound", RefusedForItsKey),
        Point::KeyedAnswerStored => at(RefuseWithKey, "refused, payee noted, key answered", RefusedForItsKey),
        Point::Stopping => at(
            Stop,
            "signed, payee noted, told pending, in flight, nonce 0 open x1 | \
             signed, payee noted, told pending, nonce 0 open x1",
            SuccessWaits,
        ),
    }
}

/// The server dies at one point, and while it mends that, at another.
fn pairs() -> Vec<Case> {
    use Story::*;
    use Then::*;
    let pair = |story, first, second, then| {
        let first = cases(first).into_iter().find(|case| case.story == story);
        Case {
            second: Some(Arming { point: second, time: 1 }),
            then,
            ..first.expect("a story of the first point")
        }
    };
    vec![
        pair(Settle, Point::SettleReserved, Point::SettleSigned, SuccessWaits),
        pair(Settle, Point::SettleSigning, Point::Sent, SuccessWaits),
        pair(Settle, Point::SettleSigned, Point::LaneIntroduced, SuccessWaits),
        pair(Settle, Point::SettleSigned, Point::KeeperLeased, SuccessWaits),
        pair(Settle, Point::SettleSigned, Point::Sent, SuccessWaits),
        pair(SettleUnmined, Point::Sent, Point::ConcludeDue, SuccessWaits),
        pair(SettleUnmined, Point::Sent, Point::Concluded, SuccessWaits),
        pair(Reorganize, Point::TransitionStored, Point::Sent, SuccessWaits),
        pair(Settle, Point::Concluded, Point::AnswerLeased, SuccessWaits),
        pair(Settle, Point::AnswerLeased, Point::AnswerBegun, CountsAsTold),
        pair(Settle, Point::Concluded, Point::AnswerWritten, WasTold),
        pair(SettleElsewhere, Point::TransitionStored, Point::SlotCloseDue, PaidElsewhere),
        pair(Expire, Point::Replaced, Point::TransitionStored, Failed(EXPIRED)),
        pair(Outbid, Point::Replaced, Point::Concluded, SuccessWaits),
        pair(LoseNonce, Point::ForeignSlotClosed, Point::SignedAgain, SuccessWaits),
        pair(UndoFinal, Point::SlotReopened, Point::Sent, SuccessWaits),
        pair(LeaveHole, Point::HoleFilled, Point::Sent, SuccessWaits),
    ]
}

on_both_stores! {
    async fn died_at_every_point(store) {
        live_through_all(store, Point::ALL.iter().flat_map(|point| cases(*point)).collect()).await;
    }

    async fn died_twice(store) {
        live_through_all(store, pairs()).await;
    }
}

/// Runs all of them, and tells of every one that went wrong.
async fn live_through_all(store: StoreKind, cases: Vec<Case>) {
    let wrong: Vec<_> = stream::iter(cases)
        .map(|case| async move {
            let outcome = AssertUnwindSafe(live_through(store, case)).catch_unwind().await;
            outcome.is_err().then_some(case)
        })
        .buffer_unordered(AT_ONCE)
        .filter_map(std::future::ready)
        .collect()
        .await;
    assert!(wrong.is_empty(), "{wrong:#?}");
}

async fn live_through(store: StoreKind, case: Case) {
    let mut scene = case.story.play(store, case.first).await;
    scene.dies_at(case.first.point).await;
    let left = scene.left_behind().await;
    assert!(case.left.split(" | ").any(|possible| possible == left), "{left}: {case:?}");
    if let Some(second) = case.second {
        scene.dies_again_at(second).await;
    }
    scene.let_blocks_come().await;
    scene.start_unarmed().await;
    case.then.holds(&scene).await;
}

impl Then {
    async fn holds(self, scene: &Scene) {
        let (bench, payment) = (&scene.bench, &scene.payment);
        let heard: Vec<_> = scene.heard.iter().filter(|told| told.is_success()).collect();
        match self {
            Self::WasTold => assert_eq!(heard.len(), 1, "{:?}", scene.heard),
            _ => assert!(heard.is_empty(), "{:?}", scene.heard),
        }
        match self {
            Self::SuccessWaits => settles(scene).await,
            Self::CountsAsTold => {
                let Told::Duplicate(hash) = scene.decision().await else { panic!("told twice") };
                is_settled(scene, hash).await;
            }
            Self::WasTold => {
                let Told::Success(hash) = *heard[0] else { panic!("no success") };
                is_settled(scene, hash).await;
            }
            Self::WaitsForItsKey => {
                let mine = until("the key's answer", DEADLINE, || async {
                    let reply = bench.settle_with_key(payment, KEY).await;
                    reply.told().is_success().then_some(reply)
                })
                .await;
                assert_eq!(bench.settle_with_key(payment, KEY).await, mine);
                is_settled(scene, mine.success_of(payment)).await;
            }
            Self::Promised => {
                assert_eq!(bench.verify(payment).await.invalid(), USED);
                settles(scene).await;
            }
            Self::Free => {
                bench.verify(payment).await.valid();
                settles(scene).await;
            }
            Self::Refused => {
                for _ in 0..2 {
                    assert_eq!(bench.settle(payment).await.told(), Told::no(POOR, ""));
                }
                fill_purse(bench, payment.payer()).await;
                settles(scene).await;
            }
            Self::RefusedForItsKey => {
                let mine = bench.settle_with_key(payment, KEY).await;
                assert_eq!(mine.told(), Told::no(POOR, ""));
                fill_purse(bench, payment.payer()).await;
                assert_eq!(bench.settle_with_key(payment, KEY).await, mine);
                settles(scene).await;
            }
            Self::PaidElsewhere => {
                let theirs = scene.theirs.expect("their transaction");
                for _ in 0..2 {
                    assert_eq!(scene.decision().await, Told::no(USED, theirs));
                }
                assert_eq!(bench.row(payment).await["status"], "settled_elsewhere");
                scene.assert_paid_by(theirs).await;
            }
            Self::Failed(reason) => {
                let row = bench.until_status(payment, "failed").await;
                assert!(reason.split(" | ").any(|possible| row["reason"] == possible), "{row}");
                assert!(!bench.is_used(payment).await);
                let told = scene.decision().await;
                assert!(matches!(told, Told::No(..)), "{told:?}");
                fill_purse(bench, payment.payer()).await;
                let next = bench.builder().await.max_timeout_seconds(600).sign();
                bench.settle(&next).await.success_of(&next);
            }
        }
        scene.assert_lane_is_whole().await;
    }
}

/// One caller is told, and no other.
async fn settles(scene: &Scene) {
    let told = scene.decision().await;
    let Told::Success(hash) = told else { panic!("{told:?}") };
    is_settled(scene, hash).await;
}

/// Told, recorded, and paid once.
async fn is_settled(scene: &Scene, hash: alloy_primitives::B256) {
    assert_eq!(scene.bench.settle(&scene.payment).await.told(), Told::Duplicate(hash));
    let row = scene.bench.rows(&scene.payment).await.swap_remove(0);
    assert_eq!((&row["status"], &row["transaction"]), (&"settled".into(), &hash.to_string().into()));
    scene.assert_paid_by(hash).await;
}
/// What cannot be reached must not pass for a point that was survived.
#[tokio::test]
async fn a_name_that_is_no_point_stops_the_start() {
    let node = NetworkConfig::new(84532).rpc_url("http://127.0.0.1:1/").dev_signer(0);
    for setting in ["nowhere", "sent:0"] {
        let config = ConfigBuilder::new().unwrap().network(node.clone()).env(VARIABLE, setting);
        let binary = env!("CARGO_BIN_EXE_quittance");
        let mut server = QuittanceProcess::start_until(binary, config, Wait::Nothing).await.unwrap();
        assert_eq!(server.exit(Duration::from_secs(20)).await.unwrap().code(), Some(1));
        assert!(server.log_text().contains(VARIABLE), "{}", server.log_text());
    }
}

/// Whoever operates the server finds every point explained.
#[test]
fn the_document_names_every_point() {
    let document = include_str!("../../../../../docs/SETTLEMENT.md");
    let missing: Vec<_> =
        Point::ALL.iter().filter(|point| !document.contains(&format!("`{}`", point.as_str()))).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

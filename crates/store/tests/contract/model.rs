//! Random lives of a payment: both stores do exactly what the state machine says, and so agree with each other.

use proptest::{prelude::*, test_runner::TestRunner};
use quittance_protocol::settlement::{Event, Evidence, Status};
use quittance_store::{
    Store,
    model::{LaneId, Payment, SlotId, SlotOutcome},
};
use std::sync::Arc;

use crate::{
    fixture::{Database, Fixture},
    given::{known_lane, pay, reserved},
};

#[derive(Clone, Copy, Debug)]
enum Step {
    /// With the version that is stored, or with the one before it.
    Transition(Event, Read),
    Sign(Read),
    Close(SlotOutcome),
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Read {
    Fresh,
    Stale,
}

/// What must be stored.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Model {
    status: Status,
    version: i64,
    open_slot: bool,
    slots: usize,
}

impl Model {
    const START: Self = Self { status: Status::Reserved, version: 1, open_slot: false, slots: 0 };

    fn after(self, step: Step) -> Self {
        let moved =
            |event| self.status.on(event).map(|status| Self { status, version: self.version + 1, ..self });
        match step {
            Step::Transition(Event::Signed, _) => self,
            Step::Transition(event, Read::Fresh) => moved(event).unwrap_or(self),
            Step::Sign(Read::Fresh) if !self.open_slot => moved(Event::Signed).map_or(self, |signed| Self {
                open_slot: true,
                slots: self.slots + 1,
                ..signed
            }),
            Step::Close(_) => Self { open_slot: false, ..self },
            Step::Transition(_, Read::Stale) | Step::Sign(_) => self,
        }
    }
}

/// The same life on one store.
struct Life {
    store: Arc<dyn Store>,
    lane: LaneId,
    payment: Payment,
    slot: Option<SlotId>,
    slots: usize,
}

impl Life {
    async fn begin(store: Arc<dyn Store>) -> Self {
        let lane = known_lane(&*store).await;
        let payment = reserved(&*store).await;
        Self { store, lane, payment, slot: None, slots: 0 }
    }

    async fn step(&mut self, step: Step) -> Model {
        let version = |read| self.payment.version - i64::from(read == Read::Stale);
        match step {
            Step::Transition(event, read) => {
                let evidence = Evidence::default();
                self.store.transition(self.payment.id, version(read), event, &evidence).await.unwrap();
            }
            Step::Sign(read) => {
                let signed =
                    self.store.sign_slot(self.payment.id, version(read), &self.lane, &pay).await.unwrap();
                if let Some(signed) = signed {
                    self.slot = Some(signed.attempt.slot);
                    self.slots += 1;
                }
            }
            Step::Close(outcome) => {
                if let Some(slot) = self.slot {
                    self.store.close_slot(slot, outcome).await.unwrap();
                }
            }
        }
        self.payment = self.store.payment(self.payment.id).await.unwrap().unwrap();
        let work = self.store.open_work(self.lane.network).await.unwrap();
        Model {
            status: self.payment.status,
            version: self.payment.version,
            open_slot: work.slots.iter().any(|slot| Some(slot.id) == self.slot),
            slots: self.slots,
        }
    }
}

fn step() -> impl Strategy<Value = Step> {
    let read = prop_oneof![4 => Just(Read::Fresh), 1 => Just(Read::Stale)];
    let outcome = prop_oneof![Just(SlotOutcome::Ours), Just(SlotOutcome::Foreign)];
    prop_oneof![
        4 => (prop::sample::select(Event::ALL.to_vec()), read.clone())
            .prop_map(|(event, read)| Step::Transition(event, read)),
        2 => read.prop_map(Step::Sign),
        1 => outcome.prop_map(Step::Close),
    ]
}

async fn live(store: Arc<dyn Store>, steps: &[Step]) -> Result<(), TestCaseError> {
    let mut life = Life::begin(store).await;
    let mut model = Model::START;
    for step in steps {
        let before = model;
        model = model.after(*step);
        prop_assert_eq!(life.step(*step).await, model, "{:?}", step);
        if before.status.is_terminal() {
            prop_assert_eq!(model.status, before.status);
        }
    }
    Ok(())
}

#[test]
fn both_stores_live_as_the_state_machine_says() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let fixtures = runtime.block_on(async { [Fixture::sqlite().await, Fixture::postgres().await] });
    let mut runner =
        TestRunner::new(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() });
    let lives = prop::collection::vec(step(), 1..16);
    let outcome = runner.run(&lives, |steps| {
        runtime.block_on(async {
            for fixture in &fixtures {
                live(fixture.store.clone(), &steps).await?;
            }
            Ok(())
        })
    });
    // The stores' connections belong to the runtime.
    runtime.block_on(async move {
        for Fixture { store, database } in fixtures {
            drop(store);
            drop::<Database>(database);
        }
    });
    outcome.unwrap();
}

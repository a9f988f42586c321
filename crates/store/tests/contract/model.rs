//! Random lives of a payment: both stores do exactly what the state machine says, and so agree with each other.

use proptest::{prelude::*, sample::Index, test_runner::TestRunner};
use quittance_protocol::{
    settlement::{Event, Evidence, Status},
    units::LaneNonce,
};
use quittance_store::{
    SignWith, Store,
    model::{AttemptKind, LaneId, Payment, SlotId, SlotOutcome},
};
use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use crate::{
    fixture::{Database, Fixture},
    given::{fill, known_lane, never, pay, reserved},
};

#[derive(Clone, Copy, Debug)]
enum Step {
    Transition(Event, Read),
    Sign(Read),
    SignSettledAgain(Read),
    AddAttempt(Back, AttemptKind, Read),
    Close(Back, SlotOutcome),
    Conclude(Back, Event, Read),
    Reopen(Back),
    FillClosed(Back, Read),
}

/// With what is stored, or with what was before it.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Read {
    Fresh,
    Stale,
}

/// The newest slot, or one so much older.
#[derive(Clone, Copy, Debug)]
struct Back(usize);

impl Back {
    fn of<T>(self, slots: &[T]) -> Option<usize> {
        slots.len().checked_sub(1 + self.0)
    }
}

/// What must be stored.
#[derive(Clone, Debug, PartialEq)]
struct Model {
    status: Status,
    version: i64,
    /// Which attempt of which slot `tx_hash` names.
    shown: Option<(usize, usize)>,
    slots: Vec<Slot>,
}

#[derive(Clone, Debug, PartialEq)]
struct Slot {
    is_open: bool,
    attempts: Vec<AttemptKind>,
}

impl Model {
    const START: Self = Self { status: Status::Reserved, version: 1, shown: None, slots: Vec::new() };

    fn has_open_slot(&self) -> bool {
        self.slots.iter().any(|slot| slot.is_open)
    }

    /// Applies a step, or says that it does not apply.
    fn takes(&mut self, step: Step) -> bool {
        let has_open_slot = self.has_open_slot();
        match step {
            Step::Transition(Event::Signed, _)
            | Step::Transition(_, Read::Stale)
            | Step::Sign(Read::Stale)
            | Step::SignSettledAgain(Read::Stale)
            | Step::AddAttempt(_, _, Read::Stale)
            | Step::Conclude(_, _, Read::Stale)
            | Step::FillClosed(_, Read::Stale) => false,
            Step::Transition(event, Read::Fresh) => self.moves(event),
            Step::Sign(Read::Fresh) => !has_open_slot && self.moves(Event::Signed) && self.begins_slot(),
            Step::SignSettledAgain(Read::Fresh) => {
                let applies = !has_open_slot && self.status == Status::Settled;
                if applies {
                    self.version += 1;
                    self.begins_slot();
                }
                applies
            }
            Step::AddAttempt(back, kind, Read::Fresh) => {
                let Some(index) = back.of(&self.slots).filter(|index| self.slots[*index].is_open) else {
                    return false;
                };
                self.slots[index].attempts.push(kind);
                if kind == AttemptKind::Payment && self.status == Status::Signed {
                    self.shown = Some((index, self.slots[index].attempts.len() - 1));
                }
                true
            }
            Step::Close(back, _) => {
                let index = back.of(&self.slots);
                index.is_some_and(|index| std::mem::take(&mut self.slots[index].is_open))
            }
            Step::Conclude(back, event, Read::Fresh) => {
                let Some(index) = back.of(&self.slots) else { return false };
                let applies = self.moves(event);
                if applies {
                    self.slots[index].is_open = false;
                }
                applies
            }
            Step::Reopen(back) => {
                let Some(index) = back.of(&self.slots).filter(|_| !has_open_slot) else { return false };
                self.slots[index].is_open = true;
                true
            }
            Step::FillClosed(back, Read::Fresh) => {
                let Some(index) = back.of(&self.slots) else { return false };
                let applies = has_open_slot && !self.slots[index].is_open;
                if applies {
                    self.slots[index].attempts.push(AttemptKind::Filler);
                }
                applies
            }
        }
    }

    fn moves(&mut self, event: Event) -> bool {
        let Some(status) = self.status.on(event) else { return false };
        (self.status, self.version) = (status, self.version + 1);
        true
    }

    fn begins_slot(&mut self) -> bool {
        self.shown = Some((self.slots.len(), 0));
        self.slots.push(Slot { is_open: true, attempts: vec![AttemptKind::Payment] });
        true
    }

    /// Slots that their payment has left: all closed ones while one is open.
    fn given_up(&self) -> Vec<usize> {
        let closed = self.slots.iter().enumerate().filter(|(_, slot)| !slot.is_open);
        closed.map(|(index, _)| index).filter(|_| self.has_open_slot()).collect()
    }

    fn is_orphan(&self) -> bool {
        matches!(self.status, Status::Signed | Status::Mined) && !self.has_open_slot()
    }
}

/// The same life on one store.
struct Life {
    store: Arc<dyn Store>,
    lane: LaneId,
    payment: Payment,
    slots: Vec<(SlotId, LaneNonce)>,
}

impl Life {
    async fn begin(store: Arc<dyn Store>) -> Self {
        let lane = known_lane(&*store).await;
        let payment = reserved(&*store).await;
        Self { store, lane, payment, slots: Vec::new() }
    }

    /// Whether the step was taken. Nothing is signed for one that must not be.
    async fn takes(&mut self, step: Step, before: &Model, must: bool) -> bool {
        let (store, id, lane) = (&self.store, self.payment.id, &self.lane);
        let version = |read| self.payment.version - i64::from(read == Read::Stale);
        let seen = |index: usize, read| {
            u32::try_from(before.slots[index].attempts.len()).unwrap() - u32::from(read == Read::Stale)
        };
        let only_if_must = |sign| -> SignWith<'_> { if must { sign } else { &never } };
        let evidence = Evidence::default();
        let slot = |back: Back| back.of(&self.slots).map(|index| (index, self.slots[index]));
        match step {
            Step::Transition(event, read) => {
                store.transition(id, version(read), event, &evidence).await.unwrap().is_some()
            }
            Step::Sign(read) | Step::SignSettledAgain(read) => {
                let (version, sign) = (version(read), only_if_must(&pay));
                let signed = match step {
                    Step::Sign(_) => store.sign_slot(id, version, lane, sign).await,
                    _ => store.sign_settled_again(id, version, lane, sign).await,
                };
                let signed = signed.unwrap();
                self.slots.extend(signed.iter().map(|it| (it.attempt.slot, it.attempt.lane_nonce)));
                signed.is_some()
            }
            Step::AddAttempt(back, kind, read) => {
                let Some((index, (slot, _))) = slot(back) else { return false };
                let sign: SignWith<'_> = if kind == AttemptKind::Payment { &pay } else { &fill };
                store.add_attempt(slot, seen(index, read), only_if_must(sign)).await.unwrap().is_some()
            }
            Step::Close(back, outcome) => {
                let Some((index, (slot, _))) = slot(back) else { return false };
                store.close_slot(slot, outcome).await.unwrap();
                // The store does not say.
                before.slots[index].is_open
            }
            Step::Conclude(back, event, read) => {
                let Some((_, (slot, _))) = slot(back) else { return false };
                store.conclude(slot, id, version(read), event, &evidence).await.unwrap().is_some()
            }
            Step::Reopen(back) => {
                let Some((_, (_, nonce))) = slot(back) else { return false };
                store.reopen_slot(lane, nonce).await.unwrap()
            }
            Step::FillClosed(back, read) => {
                let Some((index, (_, nonce))) = slot(back) else { return false };
                let sign = only_if_must(&fill);
                store.fill_closed_slot(lane, nonce, seen(index, read), sign).await.unwrap().is_some()
            }
        }
    }

    /// All that the store says of it.
    async fn read(&mut self) -> (Model, Vec<usize>, bool) {
        let id = self.payment.id;
        self.payment = self.store.payment(id).await.unwrap().unwrap();
        let work = self.store.open_work(self.lane.network).await.unwrap();
        let attempts = self.store.attempts(id).await.unwrap();
        let (mut slots, mut given_up) = (Vec::new(), Vec::new());
        for (index, (slot, nonce)) in self.slots.iter().enumerate() {
            let of_it: Vec<_> = attempts.iter().filter(|attempt| attempt.slot == *slot).cloned().collect();
            let open = work.slots.iter().find(|open| open.id == *slot);
            assert!(open.is_none_or(|open| open.attempts == of_it));
            let closed = self.store.given_up(&self.lane, *nonce).await.unwrap();
            if !closed.is_empty() {
                assert_eq!(closed, of_it);
                given_up.push(index);
            }
            let attempts = of_it.iter().map(|attempt| attempt.signed.kind).collect();
            slots.push(Slot { is_open: open.is_some(), attempts });
        }
        let place = |hash| {
            let it = attempts.iter().find(|attempt| attempt.signed.hash == hash).unwrap();
            let slot = self.slots.iter().position(|(slot, _)| *slot == it.slot).unwrap();
            (slot, usize::try_from(it.sequence).unwrap())
        };
        let Payment { status, version, tx_hash, .. } = self.payment;
        let model = Model { status, version, shown: tx_hash.map(place), slots };
        (model, given_up, work.orphans.iter().any(|orphan| orphan.id == id))
    }
}

/// What comes next: a step that applies, or one that must change nothing.
#[derive(Clone, Debug)]
struct Next {
    applies: bool,
    index: Index,
}

impl Next {
    /// Every kind of step is as likely as any other, so that lives get around; an end is less so, or all would be short.
    fn of(&self, model: &Model) -> Step {
        let after = |step| {
            let mut model = model.clone();
            model.takes(step).then_some(model.status)
        };
        let (applying, others): (Vec<_>, Vec<_>) =
            steps().into_iter().map(|step| (step, after(step))).partition(|(_, after)| after.is_some());
        // There is always one that does not apply: what is outdated.
        let of_these = if self.applies && !applying.is_empty() { applying } else { others };
        let weight = |(step, after): &(Step, Option<Status>)| {
            let alike = of_these.iter().filter(|(other, _)| name(*other) == name(*step)).count();
            let ends = after.is_some_and(Status::is_terminal) && !model.status.is_terminal();
            (if ends { 12 } else { 120 } / alike).max(1)
        };
        let weighed: Vec<_> = of_these.iter().flat_map(|it| vec![it.0; weight(it)]).collect();
        *self.index.get(&weighed)
    }
}

/// Every step there is.
fn steps() -> Vec<Step> {
    const READS: [Read; 2] = [Read::Fresh, Read::Stale];
    let backs = || (0..3).map(Back);
    let events = || Event::ALL.into_iter();
    // What is signed is not concluded by that.
    let last = || events().filter(|event| *event != Event::Signed);
    let mut steps: Vec<_> = backs().map(Step::Reopen).collect();
    steps.extend(
        [SlotOutcome::Ours, SlotOutcome::Foreign]
            .into_iter()
            .flat_map(|it| backs().map(move |back| Step::Close(back, it))),
    );
    for read in READS {
        steps.extend([Step::Sign(read), Step::SignSettledAgain(read)]);
        steps.extend(events().map(|event| Step::Transition(event, read)));
        for back in backs() {
            let kinds = [AttemptKind::Payment, AttemptKind::Filler];
            steps.extend(kinds.map(|kind| Step::AddAttempt(back, kind, read)));
            steps.extend(last().map(|event| Step::Conclude(back, event, read)));
            steps.push(Step::FillClosed(back, read));
        }
    }
    steps
}

fn next() -> impl Strategy<Value = Next> {
    (prop::bool::weighted(0.6), any::<Index>()).prop_map(|(applies, index)| Next { applies, index })
}

/// How often steps were taken, by what they are and whether the payment was over.
type Taken = BTreeMap<(&'static str, bool), AtomicU64>;

fn name(step: Step) -> &'static str {
    match step {
        Step::Transition(..) => "transition",
        Step::Sign(_) => "sign",
        Step::SignSettledAgain(_) => "sign settled again",
        Step::AddAttempt(..) => "add attempt",
        Step::Close(..) => "close",
        Step::Conclude(..) => "conclude",
        Step::Reopen(_) => "reopen",
        Step::FillClosed(..) => "fill closed",
    }
}

/// Everything that can be done to a payment, and to one that is over.
fn nothing_taken() -> Taken {
    let always = ["transition", "sign", "conclude"].map(|name| (name, false));
    let also_over = ["add attempt", "close", "reopen", "fill closed"];
    let of_both = also_over.into_iter().flat_map(|name| [(name, false), (name, true)]);
    let all = always.into_iter().chain(of_both).chain([("sign settled again", true)]);
    all.map(|what| (what, AtomicU64::new(0))).collect()
}

async fn live(store: Arc<dyn Store>, life_of: &[Next], taken: &Taken) -> Result<(), TestCaseError> {
    let mut life = Life::begin(store).await;
    let mut model = Model::START;
    for next in life_of {
        let step = next.of(&model);
        let before = model.clone();
        let must = model.takes(step);
        prop_assert_eq!(life.takes(step, &before, must).await, must, "{:?} of {:?}", step, &before);
        let (stored, given_up, is_orphan) = life.read().await;
        prop_assert_eq!(&stored, &model, "{:?} of {:?}", step, &before);
        prop_assert_eq!((given_up, is_orphan), (model.given_up(), model.is_orphan()), "{:?}", &stored);
        let is_over = before.status.is_terminal();
        if is_over {
            prop_assert_eq!(stored.status, before.status);
            // Only a success is ever signed again, and only that shows another transaction.
            let is_signed_again = must && matches!(step, Step::SignSettledAgain(_));
            prop_assert_eq!(stored.shown != before.shown, is_signed_again, "{:?} of {:?}", step, &before);
        }
        if must {
            match taken.get(&(name(step), is_over)) {
                Some(count) => count.fetch_add(1, Ordering::Relaxed),
                None => return Err(TestCaseError::fail(format!("{step:?} of {before:?}"))),
            };
        }
    }
    // Where it ends, everything is tried that must change nothing.
    for step in steps().into_iter().filter(|step| !model.clone().takes(*step)) {
        prop_assert!(!life.takes(step, &model, false).await, "{:?} of {:?}", step, &model);
    }
    prop_assert_eq!(life.read().await.0, model);
    Ok(())
}

#[test]
fn both_stores_live_as_the_state_machine_says() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let fixtures = runtime.block_on(async { [Fixture::sqlite().await, Fixture::postgres().await] });
    let taken = nothing_taken();
    let mut runner =
        TestRunner::new(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() });
    let lives = prop::collection::vec(next(), 1..32);
    let outcome = runner.run(&lives, |life_of| {
        runtime.block_on(async {
            for fixture in &fixtures {
                live(fixture.store.clone(), &life_of, &taken).await?;
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
    // Lives in which nothing happens would show nothing.
    for (what, count) in &taken {
        assert!(count.load(Ordering::Relaxed) > 0, "{what:?} was never taken: {taken:?}");
    }
}

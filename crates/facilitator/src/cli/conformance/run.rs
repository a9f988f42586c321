//! Asks the facilitator about every case.

use super::{
    case::{Case, Need, OnChain, Payer, Replay},
    effect,
    judge::{Outcome, Row, Step},
    load::{self, Table},
    peer::{Endpoint, Peer, Said, Verdict},
    probe,
    stage::{Scene, Stage, Times},
    terms::Terms,
    word::{AddressWord, FactorySpec, Number, SignatureSpec},
};
use crate::clock;
use anyhow::Context as _;
use quittance_protocol::code::Code;
use quittance_testkit::X402Version;
use serde_json::Value;
use std::{collections::HashSet, time::Duration};

/// How often a case that lives in one second is tried again when the second was missed.
const TURNS_MAX: u32 = 5;
const CLOCK_POLL: Duration = Duration::from_millis(5);
/// What the official sellers do with `settlement_pending`: ask once more.
const SETTLE_AGAIN_AFTER: Duration = Duration::from_secs(1);

/// Everything about a run.
#[derive(Debug)]
pub(super) struct Run {
    pub(super) stage: Stage,
    pub(super) peer: Peer,
    pub(super) settle_all: bool,
    /// The operator said that no factory can be allowed.
    pub(super) without_allow_list: bool,
    pub(super) facts: Facts,
}

/// What the facilitator turned out to be. None: could not be found out.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Facts {
    /// `/verify` holds a payment's nonce.
    pub(super) pending_set: Option<bool>,
    /// The tables' factories are allowed.
    pub(super) allow_list: Option<bool>,
}

struct Job<'a> {
    table: usize,
    order: usize,
    case: &'a Case,
    version: X402Version,
}

impl Run {
    /// The rows of every table, in the order of its cases.
    pub(super) async fn tables(&mut self, tables: &[Table]) -> anyhow::Result<Vec<Vec<Row>>> {
        self.find_out().await?;
        let sample = sample(tables);
        let mut rows: Vec<Vec<Row>> = tables.iter().map(|_| Vec::new()).collect();
        let mut behind = Vec::new();
        for (table, (content, rows)) in tables.iter().zip(&mut rows).enumerate() {
            eprintln!("{}: {} cases", content.title, content.cases.len());
            for (order, case) in content.cases.iter().enumerate() {
                for version in case.versions.iter().copied() {
                    let job = Job { table, order, case, version };
                    if self.obstacle(case, version).is_none() && is_behind(case) {
                        behind.push(job);
                        continue;
                    }
                    let settle = self.settle_all || sample.contains(case.id.as_str());
                    let done = self.case(&job, settle).await;
                    rows.extend(done.with_context(|| format!("case {}", case.id))?);
                }
            }
        }
        if !behind.is_empty() {
            eprintln!("cases on a chain that lags: nothing may be mined, so they wait for the clock");
        }
        for (table, row) in self.behind(behind).await? {
            if let Some(rows) = rows.get_mut(table) {
                rows.push(row);
            }
        }
        for rows in &mut rows {
            rows.sort_by_key(|row| row.order);
        }
        Ok(rows)
    }

    /// Presents two good payments, and learns from the answers.
    async fn find_out(&mut self) -> anyhow::Result<()> {
        let all = load::tables(None)?;
        let find = |id: &str| all.iter().flat_map(|table| &table.cases).find(|case| case.id == id);
        let version = if self.stage.names.v2.is_some() { X402Version::V2 } else { X402Version::V1 };
        let ordinary = find("ordinary-eoa").context("there is no ordinary payment")?;
        let scene = self.staged(ordinary, version, "first").await?;
        if self.verify(&scene, &scene.terms).await?.verdict == Verdict::Valid {
            let again = self.verify(&scene, &scene.terms).await?.verdict;
            self.facts.pending_set = match again {
                Verdict::Valid => Some(false),
                Verdict::Refused(_) => Some(true),
                Verdict::None => None,
            };
        }
        let wrapped = find("shape-6-undeployed").context("there is no undeployed payer")?;
        let scene = self.staged(wrapped, version, "first").await?;
        self.facts.allow_list = match self.verify(&scene, &scene.terms).await?.verdict {
            Verdict::Valid => Some(true),
            Verdict::Refused(code) if code == Code::FactoryNotAllowed.as_str() => Some(false),
            _ => None,
        };
        if self.without_allow_list && self.facts.allow_list.is_none() {
            self.facts.allow_list = Some(false);
        }
        Ok(())
    }

    /// A case staged in the present, with the newest block of now.
    async fn staged(&self, case: &Case, version: X402Version, turn: &str) -> anyhow::Result<Scene> {
        let now = self.now().await?;
        let scene = self.stage.prepare(case, version, Times { now, block: now }, turn).await?;
        self.stage.node.mine(now).await?;
        Ok(scene)
    }

    /// The second in which a case plays that does not care which: not before the newest block's.
    async fn now(&self) -> anyhow::Result<u64> {
        Ok(clock::now().0.max(self.stage.node.time().await?))
    }

    async fn verify(&self, scene: &Scene, terms: &Terms) -> anyhow::Result<Said> {
        Ok(self.peer.ask(Endpoint::Verify, &self.body(scene, terms)?).await)
    }

    async fn settle(&self, scene: &Scene, terms: &Terms) -> anyhow::Result<Said> {
        let body = self.body(scene, terms)?;
        let said = self.peer.ask(Endpoint::Settle, &body).await;
        if said.verdict != Verdict::Refused(Code::SettlementPending.as_str().to_owned()) {
            return Ok(said);
        }
        tokio::time::sleep(SETTLE_AGAIN_AFTER).await;
        Ok(self.peer.ask(Endpoint::Settle, &body).await)
    }

    fn body(&self, scene: &Scene, terms: &Terms) -> anyhow::Result<Value> {
        terms.body(self.stage.network(terms)?, &scene.edits)
    }

    /// Why a case cannot be run here.
    fn obstacle(&self, case: &Case, version: X402Version) -> Option<String> {
        let needs = |need| case.needs.contains(&need);
        let names = &self.stage.names;
        let other_version = case.mutations.replay == Some(Replay::SamePaymentOtherVersion);
        if names.of(version).is_none() || (other_version && (names.v1.is_none() || names.v2.is_none())) {
            let missing = if names.v1.is_none() { 1 } else { 2 };
            return Some(format!("/supported does not list this network under version {missing}"));
        }
        if needs(Need::Policy) {
            return Some("needs other settings of the facilitator".to_owned());
        }
        if (needs(Need::ExactClock) || needs(Need::BlockTime)) && !self.peer.same_clock {
            return Some("needs the facilitator's clock: run it on the same machine".to_owned());
        }
        let m = &case.mutations;
        let signer = Some(AddressWord::FacilitatorSigner);
        if [m.from, m.to, m.pay_to].contains(&signer) && self.stage.facilitator_signer.is_none() {
            return Some("/supported names no signer".to_owned());
        }
        None
    }

    async fn case(&self, job: &Job<'_>, settle: bool) -> anyhow::Result<Vec<Row>> {
        let Job { order, case, version, .. } = *job;
        let row = |step| Row::new(order, case, version, step);
        if let Some(why) = self.obstacle(case, version) {
            return Ok(vec![row(Step::Verify).not_run(why)]);
        }
        if case.mutations.replay.is_some() {
            let mut rows = vec![self.after_verify(job).await?];
            rows.extend(self.after_settle(job, settle).await?);
            return Ok(rows);
        }
        if case.needs.contains(&Need::ExactClock) || case.needs.contains(&Need::BlockTime) {
            return Ok(vec![self.to_the_second(job).await?]);
        }
        let now = self.now().await?;
        let scene = self.stage.prepare(case, version, Times { now, block: now }, "").await?;
        if changes_nothing(&scene, self.stage.network(&scene.terms)?)? {
            return Ok(vec![row(Step::Verify).not_run("its edit changes nothing on this network")]);
        }
        let chain = probe::ask(&self.stage.node, case, &scene).await?;
        self.stage.node.mine(self.now().await?).await?;
        let verified = row(Step::Verify).on_chain(chain).judged(self.verify(&scene, &scene.terms).await?);
        let verified = self.mind_the_allow_list(case, verified);
        let settled = match settle {
            true => Some(self.settled(job, &scene, &scene.terms, Step::Settle).await?.after(&verified)),
            false => None,
        };
        Ok([verified].into_iter().chain(settled).collect())
    }

    /// Sends a payment to `/settle`, and looks whether the chain agrees with the answer.
    async fn settled(&self, job: &Job<'_>, scene: &Scene, terms: &Terms, step: Step) -> anyhow::Result<Row> {
        let before = effect::authorization_used(&self.stage.node, terms).await;
        let said = self.settle(scene, terms).await?;
        let row = Row::new(job.order, job.case, job.version, step).judged(said.clone());
        let row = self.mind_the_allow_list(job.case, row);
        let wrong = match said.verdict {
            Verdict::Valid => effect::missing(&self.stage.node, terms, &said.transaction).await?,
            Verdict::Refused(_) if before == Some(false) => {
                let used = effect::authorization_used(&self.stage.node, terms).await;
                (used == Some(true)).then(|| "refused, and the authorization is used all the same".to_owned())
            }
            _ => None,
        };
        Ok(match wrong {
            Some(note) if row.outcome.differs() => Row { note, ..row },
            Some(note) => row.because(Outcome::MoneyDiffers, note),
            None => row,
        })
    }

    /// The first payment is verified and no more.
    async fn after_verify(&self, job: &Job<'_>) -> anyhow::Result<Row> {
        let row = Row::new(job.order, job.case, job.version, Step::VerifyAfterVerify);
        if self.facts.pending_set != Some(true) && !job.case.expect.valid {
            return Ok(row.not_run("its /verify holds no nonces"));
        }
        let scene = self.staged(job.case, job.version, "after verify").await?;
        let first = scene.first.as_ref().context("there is no first payment")?;
        let said = self.verify(&scene, first).await?;
        if said.verdict != Verdict::Valid {
            return Ok(first_failed(row, said));
        }
        Ok(row.judged(self.verify(&scene, &scene.terms).await?))
    }

    /// The first payment is verified and settled.
    async fn after_settle(&self, job: &Job<'_>, settle: bool) -> anyhow::Result<Vec<Row>> {
        let row = Row::new(job.order, job.case, job.version, Step::VerifyAfterSettle);
        let scene = self.staged(job.case, job.version, "after settle").await?;
        let first = scene.first.as_ref().context("there is no first payment")?;
        let said = self.verify(&scene, first).await?;
        if said.verdict != Verdict::Valid {
            return Ok(vec![first_failed(row, said)]);
        }
        let said = self.settle(&scene, first).await?;
        if said.verdict != Verdict::Valid {
            return Ok(vec![first_failed(row, said)]);
        }
        if let Some(missing) = effect::missing(&self.stage.node, first, &said.transaction).await? {
            return Ok(vec![row.because(Outcome::MoneyDiffers, format!("the first payment: {missing}"))]);
        }
        let now = self.now().await?;
        let scene = Scene { times: Times { now, block: now }, ..scene };
        let chain = probe::ask(&self.stage.node, job.case, &scene).await?;
        self.stage.node.mine(self.now().await?).await?;
        let verified = row.on_chain(chain).judged(self.verify(&scene, &scene.terms).await?);
        let settled = match settle {
            true => {
                Some(self.settled(job, &scene, &scene.terms, Step::SettleAfterSettle).await?.after(&verified))
            }
            false => None,
        };
        Ok([verified].into_iter().chain(settled).collect())
    }

    /// Cases that live in one second: staged before it begins, asked when it does.
    async fn to_the_second(&self, job: &Job<'_>) -> anyhow::Result<Row> {
        let Job { order, case, version, .. } = *job;
        let row = || Row::new(order, case, version, Step::Verify);
        for turn in 0..TURNS_MAX {
            let times = Times::of(case, self.now().await?.saturating_add(1));
            let scene = self.stage.prepare(case, version, times, &turn.to_string()).await?;
            let chain = probe::ask(&self.stage.node, case, &scene).await?;
            // Blocks of the future must not stay: later cases play before them.
            let ahead = times.block > times.now;
            let snapshot = if ahead { Some(self.stage.node.snapshot().await?) } else { None };
            self.stage.node.mine(times.block).await?;
            wait_for(times.now).await;
            let said = self.verify(&scene, &scene.terms).await?;
            let in_time = clock::now().0 == times.now;
            if let Some(snapshot) = snapshot {
                self.stage.node.revert(snapshot).await?;
            }
            if in_time {
                return Ok(row().on_chain(chain).judged(said));
            }
        }
        Ok(row().not_run("no answer came within the second in which the case plays"))
    }

    /// Cases on a chain whose newest block is old. They are staged together, and then nothing is mined.
    async fn behind(&self, mut jobs: Vec<Job<'_>>) -> anyhow::Result<Vec<(usize, Row)>> {
        let mut rows = Vec::new();
        for turn in 0..TURNS_MAX {
            let block = self.now().await?;
            let mut scenes = Vec::new();
            for job in jobs.drain(..) {
                let times = Times { now: block.saturating_add(lag(job.case)), block };
                let scene = self.stage.prepare(job.case, job.version, times, &turn.to_string()).await?;
                let chain = probe::ask(&self.stage.node, job.case, &scene).await?;
                scenes.push((job, scene, chain));
            }
            scenes.sort_by_key(|(_, scene, _)| scene.times.now);
            for (job, scene, chain) in scenes {
                wait_for(scene.times.now).await;
                // The next block would not be later than the newest either.
                self.stage.node.set_clock(block).await?;
                let said = self.verify(&scene, &scene.terms).await?;
                if clock::now().0 == scene.times.now {
                    let row = Row::new(job.order, job.case, job.version, Step::Verify);
                    rows.push((job.table, row.on_chain(chain).judged(said)));
                } else {
                    jobs.push(job);
                }
            }
            if jobs.is_empty() {
                break;
            }
        }
        for job in jobs {
            let row = Row::new(job.order, job.case, job.version, Step::Verify);
            rows.push((job.table, row.not_run("no answer came within the second in which the case plays")));
        }
        Ok(rows)
    }

    fn mind_the_allow_list(&self, case: &Case, row: Row) -> Row {
        if self.facts.allow_list == Some(false) && uses_listed_factory(case) {
            row.without_allow_list()
        } else {
            row
        }
    }
}

fn first_failed(row: Row, said: Said) -> Row {
    let (outcome, why) = match &said.verdict {
        Verdict::Refused(code) => (Outcome::VerdictDiffers, format!("the first payment was refused: {code}")),
        _ => (Outcome::NoVerdict, format!("no verdict on the first payment: {}", said.message)),
    };
    row.because(outcome, why)
}

/// Of every table and kind of payer, the first that is accepted and the first that is refused; those that live in one
/// second are for `/verify` alone.
fn sample(tables: &[Table]) -> HashSet<&str> {
    let mut seen: Vec<(&str, Payer, bool)> = Vec::new();
    let mut ids = HashSet::new();
    for table in tables {
        for case in &table.cases {
            let kind = (table.name, case.payer, case.expect.valid);
            if case.onchain != OnChain::NotApplicable && !seen.contains(&kind) {
                seen.push(kind);
                ids.insert(case.id.as_str());
            }
        }
    }
    ids
}

fn uses_listed_factory(case: &Case) -> bool {
    if case.payer.has_code() {
        return false;
    }
    match &case.mutations.signature {
        Some(SignatureSpec::Wrapped(wrapper)) => matches!(wrapper.factory, FactorySpec::Listed(_)),
        Some(_) => false,
        None => case.payer == Payer::Undeployed,
    }
}

fn is_behind(case: &Case) -> bool {
    lag(case) > 0
}

/// Seconds by which the newest block is older than the present.
fn lag(case: &Case) -> u64 {
    match case.mutations.chain.block_time {
        Some(Number::Now(offset)) if offset < 0 => offset.unsigned_abs(),
        _ => 0,
    }
}

/// An edit that names the network it finds proves nothing.
fn changes_nothing(scene: &Scene, network: &str) -> anyhow::Result<bool> {
    Ok(!scene.edits.is_empty()
        && scene.terms.body(network, &scene.edits)? == scene.terms.body(network, &[])?)
}

async fn wait_for(second: u64) {
    while clock::now().0 < second {
        tokio::time::sleep(CLOCK_POLL).await;
    }
}

//! Every metric, named in one place. Labels come from closed sets: never an address, a hash or a text of strangers.
//!
//! A lane is labelled by its position in `signers`, an endpoint by its position in `rpc_urls`. Every counter is there from the
//! start, at zero: a rate needs a value before the first event.

use crate::{
    clock,
    http::shape::{Endpoint, TransportFault},
    lane::Funds,
    network::NetworkService,
};
use axum::http::StatusCode;
use metrics::{Counter, counter, describe_counter, describe_gauge, describe_histogram, gauge, histogram};
use metrics_exporter_prometheus::{BuildError, PrometheusBuilder, PrometheusHandle};
use quittance_protocol::{code::Code, settlement::Status};
use std::time::Duration;

/// Starts recording for the process. Without this, every call below does nothing.
pub(crate) fn install() -> Result<PrometheusHandle, BuildError> {
    const SECONDS: &[f64] =
        &[0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 15.0, 20.0, 25.0, 30.0];
    let handle = PrometheusBuilder::new().set_buckets(SECONDS)?.install_recorder()?;
    describe();
    Ok(handle)
}

fn describe() {
    describe_counter!(
        "quittance_rpc_requests_total",
        "Requests to RPC endpoints: a result, an error of the node, or no usable answer"
    );
    describe_gauge!(
        "quittance_rpc_endpoint_up",
        "1: an RPC endpoint is asked in its turn; 0: it rests after time-outs, or fails and is asked last"
    );
    describe_gauge!(
        "quittance_rpc_endpoint_lag_seconds",
        metrics::Unit::Seconds,
        "How far an RPC endpoint's latest block is behind the youngest another endpoint has shown"
    );
    describe_counter!(
        "quittance_answers_total",
        "Answers by endpoint, HTTP status and reason code (\"ok\" when there is none)"
    );
    describe_histogram!("quittance_answer_seconds", metrics::Unit::Seconds, "Time to an answer by endpoint");
    describe_counter!(
        "quittance_deliveries_total",
        "Answers of /settle handed out once: success, pending; or lost, of /verify as well, with the caller gone"
    );
    describe_counter!("quittance_settlements_total", "Payments that reached a final status");
    describe_counter!("quittance_replacements_total", "Transactions replaced with higher fees, or canceled");
    describe_counter!("quittance_rebroadcasts_total", "Transactions sent again with the same bytes");
    describe_counter!(
        "quittance_gaps_found_total",
        "Nonces of a lane that the chain waits for and nothing of ours holds"
    );
    describe_counter!(
        "quittance_gaps_filled_total",
        "Such nonces that were filled with a transfer of nothing"
    );
    describe_counter!(
        "quittance_foreign_nonces_total",
        "Nonces of our signers taken by transactions from outside"
    );
    describe_counter!("quittance_reorgs_total", "Transactions whose block left the chain");
    describe_counter!(
        "quittance_undone_total",
        "Payments whose outcome a reorganisation has undone and nothing could mend: settled and not paid, or failed and paid"
    );
    describe_counter!("quittance_recoveries_total", "Open slots found at start");
    describe_counter!("quittance_keeper_failures_total", "Keeper passes that failed and are repeated");
    describe_counter!("quittance_payee_checks_total", "ERC-8478 payee checks by outcome");
    describe_gauge!(
        "quittance_keeper_last_pass_seconds",
        metrics::Unit::Seconds,
        "Unix time of the keeper's last pass that did not fail; of the start, until there is one"
    );
    describe_gauge!("quittance_lane_open_slots", "Unmined slots of a lane");
    describe_gauge!("quittance_lane_balance_wei", "Balance of a lane's signer, at most some seconds old");
    describe_gauge!(
        "quittance_lane_state",
        "1 for the state a lane is in: funded, low on gas money, or paused until it has some"
    );
    describe_gauge!(
        "quittance_oldest_open_payment_seconds",
        metrics::Unit::Seconds,
        "How long ago the oldest payment that is signed and not final was first signed"
    );
}

/// Counters that no network has.
pub(crate) fn begin() {
    for endpoint in [Endpoint::Verify, Endpoint::Settle, Endpoint::Other] {
        for (status, code) in answers(endpoint) {
            answer_count(endpoint.name(), status.as_u16(), code).increment(0);
        }
    }
    for said in ["success", "pending", "lost"] {
        counter!("quittance_deliveries_total", "said" => said).increment(0);
    }
    for outcome in PAYEE_OUTCOMES {
        counter!("quittance_payee_checks_total", "outcome" => outcome).increment(0);
    }
}

/// Every status and code that an endpoint answers with.
fn answers(endpoint: Endpoint) -> Vec<(StatusCode, &'static str)> {
    let verdicts = Code::ALL.iter().filter(|code| is_verdict(**code));
    // Where no payment is judged, one that cannot be read is a bad request.
    let is_other = endpoint == Endpoint::Other;
    let judged = if is_other { StatusCode::BAD_REQUEST } else { StatusCode::OK };
    let mut answers: Vec<_> = verdicts.map(|code| (judged, code.as_str())).collect();
    answers.push((StatusCode::OK, NO_CODE));
    if is_other {
        answers.extend([StatusCode::BAD_REQUEST, StatusCode::NOT_FOUND].map(|status| (status, NO_CODE)));
    }
    answers.extend(TransportFault::ALL.map(|fault| (fault.status, fault.code(endpoint).as_str())));
    answers.push((StatusCode::SERVICE_UNAVAILABLE, endpoint.unexpected().as_str()));
    answers
}

fn is_verdict(code: Code) -> bool {
    !matches!(code, Code::UnexpectedVerifyError | Code::UnexpectedSettleError)
}

/// What stands for a reason code in answers that have none.
pub(crate) const NO_CODE: &str = "ok";

/// As [`quittance_protocol::payee::Outcome::as_str`] says them.
const PAYEE_OUTCOMES: [&str; 9] = [
    "verified-wallet",
    "verified-delegation",
    "mismatch",
    "invalid-delegation",
    "endpoint-unlisted",
    "owner-only",
    "no-agent-wallet",
    "no-identity",
    "not-read",
];

/// Counters of a network, its lanes before anything is known of them, and its keeper, whose silence is counted from here.
pub(crate) fn begin_network(service: &NetworkService) {
    keeper_passed(service);
    for what in Happened::ALL {
        counter!(what.name(), "network" => network(service)).increment(0);
    }
    recovered(service, 0);
    for status in Status::ALL.into_iter().filter(|status| status.is_terminal()) {
        settlements(service, status).increment(0);
    }
    for lane in 0..service.lanes.len() {
        lane_open_slots(service, lane, 0);
    }
}

pub(crate) fn answered(endpoint: &'static str, status: u16, code: &'static str, took: Duration) {
    answer_count(endpoint, status, code).increment(1);
    histogram!("quittance_answer_seconds", "endpoint" => endpoint).record(took);
}

fn answer_count(endpoint: &'static str, status: u16, code: &'static str) -> Counter {
    counter!("quittance_answers_total", "endpoint" => endpoint, "status" => status.to_string(), "code" => code)
}

pub(crate) fn delivered(said: &'static str) {
    counter!("quittance_deliveries_total", "said" => said).increment(1);
}

pub(crate) fn payee_checked(outcome: &'static str) {
    counter!("quittance_payee_checks_total", "outcome" => outcome).increment(1);
}

/// Something that happened on a network.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Happened {
    Replacement,
    Rebroadcast,
    GapFound,
    GapFilled,
    ForeignNonce,
    Reorg,
    Undone,
    KeeperFailure,
}

impl Happened {
    const ALL: [Self; 8] = [
        Self::Replacement,
        Self::Rebroadcast,
        Self::GapFound,
        Self::GapFilled,
        Self::ForeignNonce,
        Self::Reorg,
        Self::Undone,
        Self::KeeperFailure,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::Replacement => "quittance_replacements_total",
            Self::Rebroadcast => "quittance_rebroadcasts_total",
            Self::GapFound => "quittance_gaps_found_total",
            Self::GapFilled => "quittance_gaps_filled_total",
            Self::ForeignNonce => "quittance_foreign_nonces_total",
            Self::Reorg => "quittance_reorgs_total",
            Self::Undone => "quittance_undone_total",
            Self::KeeperFailure => "quittance_keeper_failures_total",
        }
    }
}

pub(crate) fn happened(service: &NetworkService, what: Happened) {
    counter!(what.name(), "network" => network(service)).increment(1);
}

pub(crate) fn recovered(service: &NetworkService, slots: usize) {
    counter!("quittance_recoveries_total", "network" => network(service))
        .increment(u64::try_from(slots).unwrap_or(u64::MAX));
}

pub(crate) fn ended(service: &NetworkService, status: Status) {
    if status.is_terminal() {
        settlements(service, status).increment(1);
    }
}

fn settlements(service: &NetworkService, status: Status) -> Counter {
    counter!("quittance_settlements_total", "network" => network(service), "status" => status.as_str())
}

pub(crate) fn lane_open_slots(service: &NetworkService, lane: usize, count: usize) {
    let count = u32::try_from(count).unwrap_or(u32::MAX);
    gauge!("quittance_lane_open_slots", "network" => network(service), "lane" => lane.to_string()).set(count);
}

pub(crate) fn lane_balance(service: &NetworkService, lane: usize, wei: alloy_primitives::U256) {
    gauge!("quittance_lane_balance_wei", "network" => network(service), "lane" => lane.to_string())
        .set(f64::from(wei));
}

pub(crate) fn lane_state(service: &NetworkService, lane: usize, funds: Funds) {
    for state in Funds::ALL {
        gauge!(
            "quittance_lane_state",
            "network" => network(service), "lane" => lane.to_string(), "state" => state.name()
        )
        .set(u8::from(state == funds));
    }
}

pub(crate) fn keeper_passed(service: &NetworkService) {
    let seconds = u32::try_from(clock::now().0).unwrap_or(u32::MAX);
    gauge!("quittance_keeper_last_pass_seconds", "network" => network(service)).set(seconds);
}

pub(crate) fn oldest_open(service: &NetworkService, age: Duration) {
    gauge!("quittance_oldest_open_payment_seconds", "network" => network(service)).set(age.as_secs_f64());
}

fn network(service: &NetworkService) -> String {
    service.network().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use metrics::{Gauge, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit};
    use std::{collections::BTreeSet, sync::Mutex};

    const OPERATING: &str = include_str!("../../../docs/OPERATING.md");

    /// Keeps what is described, and records nothing.
    #[derive(Default)]
    struct Described(Mutex<BTreeSet<(String, &'static str)>>);

    impl Described {
        fn add(&self, name: &KeyName, kind: &'static str) {
            self.0.lock().unwrap().insert((name.as_str().to_owned(), kind));
        }
    }

    impl Recorder for Described {
        fn describe_counter(&self, name: KeyName, _: Option<Unit>, _: SharedString) {
            self.add(&name, "counter");
        }

        fn describe_gauge(&self, name: KeyName, _: Option<Unit>, _: SharedString) {
            self.add(&name, "gauge");
        }

        fn describe_histogram(&self, name: KeyName, _: Option<Unit>, _: SharedString) {
            self.add(&name, "histogram");
        }

        fn register_counter(&self, _: &Key, _: &Metadata<'_>) -> Counter {
            Counter::noop()
        }

        fn register_gauge(&self, _: &Key, _: &Metadata<'_>) -> Gauge {
            Gauge::noop()
        }

        fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
            Histogram::noop()
        }
    }

    /// Whoever adds a metric says in the same commit what it means and when it should wake somebody.
    #[test]
    fn every_metric_stands_in_the_operators_table() {
        let described = Described::default();
        metrics::with_local_recorder(&described, describe);
        let described = described.0.into_inner().unwrap();
        let rows = OPERATING.lines().filter(|line| line.starts_with("| `quittance_"));
        let table: BTreeSet<(String, &str)> = rows
            .map(|row| {
                let cells: Vec<_> = row.trim_matches('|').split(" | ").map(str::trim).collect();
                let [name, kind, labels, meaning, alert] = cells[..] else { panic!("{row}") };
                assert!(![labels, meaning, alert].contains(&""), "{row}");
                (name.trim_matches('`').to_owned(), kind)
            })
            .collect();
        let described: BTreeSet<(String, &str)> = described.into_iter().collect();
        assert_eq!(described, table);
    }
}

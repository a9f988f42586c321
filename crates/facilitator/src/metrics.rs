//! Every metric, named in one place. Labels come from closed sets: never an address, a hash or a text of strangers.
//!
//! A lane is labelled by its position in `signers`, an endpoint by its position in `rpc_urls`.

use crate::network::NetworkService;
use metrics::{counter, describe_counter, describe_gauge, describe_histogram, gauge, histogram};
use metrics_exporter_prometheus::{BuildError, PrometheusBuilder, PrometheusHandle};
use quittance_protocol::settlement::Status;
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
        "Answers of /settle handed out once: success, pending, or lost with the caller gone"
    );
    describe_counter!("quittance_settlements_total", "Payments that reached a final status");
    describe_counter!("quittance_replacements_total", "Transactions replaced with higher fees, or canceled");
    describe_counter!("quittance_rebroadcasts_total", "Transactions sent again with the same bytes");
    describe_counter!("quittance_gaps_filled_total", "Holes found in a lane and filled");
    describe_counter!(
        "quittance_foreign_nonces_total",
        "Nonces of our signers taken by transactions from outside"
    );
    describe_counter!("quittance_reorgs_total", "Transactions whose block left the chain");
    describe_counter!("quittance_recoveries_total", "Open slots found at start");
    describe_counter!("quittance_keeper_failures_total", "Keeper passes that failed and are repeated");
    describe_counter!("quittance_payee_checks_total", "ERC-8478 payee checks by outcome");
    describe_gauge!(
        "quittance_keeper_last_pass_seconds",
        metrics::Unit::Seconds,
        "Unix time of the keeper's last complete pass"
    );
    describe_gauge!("quittance_lane_open_slots", "Unmined slots of a lane");
    describe_gauge!("quittance_lane_balance_wei", "Balance of a lane's signer when last seen");
    describe_gauge!(
        "quittance_oldest_open_payment_seconds",
        metrics::Unit::Seconds,
        "Age of the oldest payment that is signed and not final"
    );
}

pub(crate) fn answered(endpoint: &'static str, status: u16, code: &'static str, took: Duration) {
    counter!("quittance_answers_total", "endpoint" => endpoint, "status" => status.to_string(), "code" => code)
        .increment(1);
    histogram!("quittance_answer_seconds", "endpoint" => endpoint).record(took);
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
    GapFilled,
    ForeignNonce,
    Reorg,
    KeeperFailure,
}

pub(crate) fn happened(service: &NetworkService, what: Happened) {
    let name = match what {
        Happened::Replacement => "quittance_replacements_total",
        Happened::Rebroadcast => "quittance_rebroadcasts_total",
        Happened::GapFilled => "quittance_gaps_filled_total",
        Happened::ForeignNonce => "quittance_foreign_nonces_total",
        Happened::Reorg => "quittance_reorgs_total",
        Happened::KeeperFailure => "quittance_keeper_failures_total",
    };
    counter!(name, "network" => network(service)).increment(1);
}

pub(crate) fn recovered(service: &NetworkService, slots: usize) {
    counter!("quittance_recoveries_total", "network" => network(service))
        .increment(u64::try_from(slots).unwrap_or(u64::MAX));
}

pub(crate) fn ended(service: &NetworkService, status: Status) {
    if status.is_terminal() {
        counter!("quittance_settlements_total", "network" => network(service), "status" => status.as_str())
            .increment(1);
    }
}

pub(crate) fn lane_open_slots(service: &NetworkService, lane: usize, count: usize) {
    let count = u32::try_from(count).unwrap_or(u32::MAX);
    gauge!("quittance_lane_open_slots", "network" => network(service), "lane" => lane.to_string()).set(count);
}

pub(crate) fn lane_balance(service: &NetworkService, lane: usize, wei: alloy_primitives::U256) {
    gauge!("quittance_lane_balance_wei", "network" => network(service), "lane" => lane.to_string())
        .set(f64::from(wei));
}

pub(crate) fn keeper_passed(service: &NetworkService, unix_seconds: u64, oldest_open: Duration) {
    let seconds = u32::try_from(unix_seconds).unwrap_or(u32::MAX);
    gauge!("quittance_keeper_last_pass_seconds", "network" => network(service)).set(seconds);
    gauge!("quittance_oldest_open_payment_seconds", "network" => network(service))
        .set(oldest_open.as_secs_f64());
}

fn network(service: &NetworkService) -> String {
    service.network().to_string()
}

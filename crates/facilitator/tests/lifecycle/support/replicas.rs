//! Further processes on the same database, and callers who go from one to the next.

use super::{Bench, DEADLINE, Reply, Told, until};
use quittance_testkit::{Facilitator, harness::QuittanceProcess};
use serde_json::Value;
use std::sync::atomic::{AtomicUsize, Ordering};

pub(crate) async fn another_replica(bench: &Bench) -> QuittanceProcess {
    let config = bench.config.clone().on_other_ports().unwrap();
    QuittanceProcess::start(env!("CARGO_BIN_EXE_quittance"), config).await.unwrap()
}

/// `None`: the connection broke before an answer came.
pub(crate) async fn settle(client: &Facilitator, body: &Value) -> Option<Told> {
    ask(client, body).await.ok()
}

/// Why there is no answer: nobody listened, or the call was cut off and may have done something.
enum NoAnswer {
    Refused,
    CutOff,
}

async fn ask(client: &Facilitator, body: &Value) -> Result<Told, NoAnswer> {
    match client.settle(body).await {
        Ok((status, json)) => Ok(Reply { status, json }.told()),
        Err(error) => Err(match error.downcast_ref::<reqwest::Error>() {
            Some(error) if error.is_connect() => NoAnswer::Refused,
            _ => NoAnswer::CutOff,
        }),
    }
}

/// What a caller found who asked one replica after the other.
#[derive(Debug)]
pub(crate) struct Found {
    /// The first decision.
    pub(crate) told: Told,
    /// Calls before it that began and had no answer: whatever those did, nobody was told.
    pub(crate) cut_off: usize,
}

/// Asks one replica after the other until one of them decides.
pub(crate) async fn seek(clients: &[Facilitator], body: &Value, first: usize) -> Found {
    let cut_off = AtomicUsize::new(0);
    let mut turn = first;
    let told = until("a decision", DEADLINE, || {
        let (client, cut_off) = (&clients[turn % clients.len()], &cut_off);
        turn += 1;
        async move {
            match ask(client, body).await {
                Ok(Told::Pending(_) | Told::Unavailable) | Err(NoAnswer::Refused) => None,
                Ok(decided) => Some(decided),
                Err(NoAnswer::CutOff) => {
                    cut_off.fetch_add(1, Ordering::Relaxed);
                    None
                }
            }
        }
    })
    .await;
    Found { told, cut_off: cut_off.into_inner() }
}

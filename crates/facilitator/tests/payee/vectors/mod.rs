//! The facts in testdata/payee, played on a stage: one chain with the registry at its address, one server under the rules of
//! production, one web server and one IPFS gateway. Every case is played, from whatever state the last one left. Chain id,
//! addresses, agent ids, signatures and the time are the data's own. What had to be put differently:
//!
//! - Blocks have the numbers they have; answers name the block that is the newest.
//! - An owner's agent is registered by the owner, under the id that the registry is told comes next. The registry cannot count
//!   to the largest id there is, so that agent's owner is written into its storage.
//! - New wallets consent by code of the moment (ERC-1271), as nobody here has their keys. Wallets that answer something have
//!   code that answers it; wallets that answer nothing have code that reverts.
//! - No node is configured for chain 1, so "no configured node" is asked with the same registry there.
//! - A node or a web server that times out is one that breaks the connection: the seconds are waited out in `faults` and
//!   `forbidden`.
//! - All of it happens in one life of the server, so it remembers under which agent an origin was first verified.

mod delegations;
mod origins;
mod outcomes;
mod registry;
mod theatre;
mod token_uris;

use serde_json::Value;
use theatre::{Play, Theatre};

/// A file of testdata/payee.
fn data(name: &str) -> Value {
    let path = format!("{}/../../testdata/payee/{name}.json", env!("CARGO_MANIFEST_DIR"));
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_case_in_the_data_is_played_on_a_chain() {
    let mut plays: Vec<Play> = Vec::new();
    plays.extend(outcomes::plays(&data("payee_outcomes")));
    plays.extend(delegations::plays(&data("payee_delegation")));
    plays.extend(token_uris::plays(&data("token_uri")));
    plays.extend(origins::plays(&data("origins")));
    assert_eq!(plays.len(), 80 + 65 + 43 + 38);
    // A server that has seen a node refuse the one call in which nothing can fail alone does not try it again for a while.
    plays.sort_by_key(|play| play.fault.is_some());

    let mut theatre = Theatre::open().await;
    registry::play(&theatre, &data("registry_behaviour")).await;
    for play in &plays {
        theatre.play(play).await;
    }
    // The two that are to be fetched from there, and none of those that are refused.
    assert_eq!(theatre.web.hits("/agent.json"), 2);
}

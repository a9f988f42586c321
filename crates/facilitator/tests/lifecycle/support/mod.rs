//! The bench every test stands on.

mod answers;
mod bench;
mod database;
mod metrics;
mod paused;
mod raw_client;
mod replicas;
mod rows;
mod setup;
mod transactions;
mod waits;

pub(crate) use answers::{Reply, Told, told};
pub(crate) use bench::{Bench, settle_at};
pub(crate) use database::Database;
pub(crate) use metrics::Metrics;
pub(crate) use paused::Paused;
pub(crate) use raw_client::RawCall;
pub(crate) use replicas::{Found, another_replica, seek, settle};
pub(crate) use rows::Rows;
pub(crate) use setup::{Setup, StoreKind};
use waits::until_counted;
pub(crate) use waits::{DEADLINE, unix_now, until};

/// The method that puts a transaction into the world.
pub(crate) const SEND: &str = "eth_sendRawTransaction";
/// The method that says what became of it.
pub(crate) const RECEIPT: &str = "eth_getTransactionReceipt";
/// The code of an authorization that somebody holds or has used.
pub(crate) const USED: &str = "invalid_exact_evm_nonce_already_used";

/// One test for each store.
macro_rules! on_both_stores {
    ($($(#[$doc:meta])* async fn $name:ident($store:ident) $body:block)+) => {$(
        $(#[$doc])*
        mod $name {
            use super::*;

            async fn run($store: StoreKind) $body

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn sqlite() {
                run(StoreKind::Sqlite).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn postgres() {
                run(StoreKind::Postgres).await;
            }
        }
    )+};
}

/// One test on the embedded store, where the database has no part in what is shown.
macro_rules! on_sqlite {
    ($($(#[$doc:meta])* async fn $name:ident($store:ident) $body:block)+) => {$(
        $(#[$doc])*
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $name() {
            let $store = StoreKind::Sqlite;
            $body
        }
    )+};
}

//! What every store promises, checked on each of them.
//!
//! A promise is a plain async function over a [`fixture::Fixture`]; `contract!` makes one test per database of it.
//! A machine without PostgreSQL fails these tests: a store that was not tested is not a store.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails, in its helpers too")]

/// One test per database and promise.
macro_rules! contract {
    ($($promise:ident),* $(,)?) => {
        mod on_sqlite {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $promise() {
                    super::$promise($crate::fixture::Fixture::sqlite().await).await;
                }
            )*
        }
        mod on_postgres {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $promise() {
                    super::$promise($crate::fixture::Fixture::postgres().await).await;
                }
            )*
        }
    };
}

mod answers;
mod cancellation;
mod corrupt;
mod fixture;
mod given;
mod idempotency;
mod keepers;
mod lanes;
mod looking;
mod model;
mod open_work;
mod payee;
mod postgres_only;
mod promises;
mod reserve;
mod restart;
mod schema;
mod search;
mod sqlite_only;
mod transition;
mod upgrade;

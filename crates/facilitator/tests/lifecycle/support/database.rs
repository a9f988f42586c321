//! The database behind the server's back: what only an operator, or a bad day, does to it.

use quittance_testkit::harness::PgCluster;
use sqlx::{AssertSqlSafe, Connection, PgConnection, Row};
use std::sync::Arc;

/// A database of one test.
#[derive(Debug)]
pub(crate) struct Database {
    pub(crate) cluster: Arc<PgCluster>,
    pub(crate) url: String,
}

impl Database {
    pub(crate) async fn create() -> Self {
        let cluster = PgCluster::shared().await.unwrap();
        let url = cluster.create_database().await.unwrap();
        Self { cluster, url }
    }

    /// A cluster that only this test uses, and may stop.
    pub(crate) async fn alone() -> Self {
        let cluster = Arc::new(PgCluster::start().await.unwrap());
        let url = cluster.create_database().await.unwrap();
        Self { cluster, url }
    }

    async fn connect(&self) -> PgConnection {
        PgConnection::connect(&self.url).await.unwrap()
    }

    /// Runs a statement.
    pub(crate) async fn run(&self, sql: &str) {
        sqlx::raw_sql(AssertSqlSafe(sql.to_owned())).execute(&mut self.connect().await).await.unwrap();
    }

    /// One number.
    pub(crate) async fn number(&self, sql: &str) -> i64 {
        let row = sqlx::query(AssertSqlSafe(sql.to_owned())).fetch_one(&mut self.connect().await).await;
        row.unwrap().get(0)
    }

    /// From now on no row learns that its answer was delivered.
    pub(crate) async fn refuse_to_record_answers(&self) {
        self.run(
            "CREATE FUNCTION refuse_answer() RETURNS trigger LANGUAGE plpgsql AS
               $$ BEGIN RAISE EXCEPTION 'not now'; END $$;
             CREATE TRIGGER refuse_answer BEFORE UPDATE ON payments FOR EACH ROW
               WHEN (NEW.last_answer IS DISTINCT FROM OLD.last_answer) EXECUTE FUNCTION refuse_answer()",
        )
        .await;
    }

    /// Answers are recorded again.
    pub(crate) async fn record_answers_again(&self) {
        self.run("DROP TRIGGER refuse_answer ON payments").await;
    }
}

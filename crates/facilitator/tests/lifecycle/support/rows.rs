//! The server's database, read and disturbed behind its back, on either store.

use super::Bench;
use sqlx::{AssertSqlSafe, Connection, PgConnection, SqliteConnection, sqlite::SqliteConnectOptions};
use std::{
    path::{Path, PathBuf},
    time::Duration,
};
use tokio::time::sleep;

const LOOK_EVERY: Duration = Duration::from_millis(10);

/// Where the rows are.
#[derive(Clone, Debug)]
pub(crate) enum Rows {
    Sqlite(PathBuf),
    Postgres(String),
}

impl Rows {
    pub(crate) fn of(bench: &Bench) -> Self {
        match &bench.database {
            None => Self::Sqlite(bench.server.dir().join("quittance.db")),
            Some(database) => Self::Postgres(database.url.clone()),
        }
    }

    /// One text for each row.
    pub(crate) async fn texts(&self, sql: &str) -> Vec<String> {
        let sql = AssertSqlSafe(sql.to_owned());
        match self {
            Self::Sqlite(path) => sqlx::query_scalar(sql).fetch_all(&mut sqlite(path).await).await.unwrap(),
            Self::Postgres(url) => {
                let mut connection = PgConnection::connect(url).await.unwrap();
                sqlx::query_scalar(sql).fetch_all(&mut connection).await.unwrap()
            }
        }
    }

    /// One number.
    pub(crate) async fn number(&self, sql: &str) -> i64 {
        let sql = AssertSqlSafe(sql.to_owned());
        match self {
            Self::Sqlite(path) => sqlx::query_scalar(sql).fetch_one(&mut sqlite(path).await).await.unwrap(),
            Self::Postgres(url) => {
                let mut connection = PgConnection::connect(url).await.unwrap();
                sqlx::query_scalar(sql).fetch_one(&mut connection).await.unwrap()
            }
        }
    }

    /// Runs statements.
    pub(crate) async fn run(&self, sql: &str) {
        let sql = AssertSqlSafe(sql.to_owned());
        match self {
            Self::Sqlite(path) => sqlx::raw_sql(sql).execute(&mut sqlite(path).await).await.map(drop),
            Self::Postgres(url) => {
                sqlx::raw_sql(sql).execute(&mut PgConnection::connect(url).await.unwrap()).await.map(drop)
            }
        }
        .unwrap();
    }

    /// Makes the attempts of every payment's first slot older than they are: nobody else may change one.
    pub(crate) async fn age_first_attempts(&self, seconds: u64) {
        let (off, on) = match self {
            Self::Sqlite(_) => ("DROP TRIGGER attempts_no_update", ""),
            Self::Postgres(_) => (
                "ALTER TABLE attempts DISABLE TRIGGER attempts_append_only",
                "ALTER TABLE attempts ENABLE TRIGGER attempts_append_only",
            ),
        };
        self.run(&format!(
            "{off}; UPDATE attempts SET created_at_ms = created_at_ms - {seconds}000
               WHERE slot_id IN (SELECT MIN(id) FROM slots GROUP BY payment_id); {on}"
        ))
        .await;
    }

    /// From now on one write in seven fails, whatever it was to write.
    pub(crate) async fn fail_some_writes(&self) {
        const WRITES: [(&str, &str); 5] = [
            ("INSERT", "payments"),
            ("UPDATE", "payments"),
            ("INSERT", "slots"),
            ("UPDATE", "slots"),
            ("INSERT", "attempts"),
        ];
        if let Self::Postgres(_) = self {
            // A sequence is not rolled back with its transaction.
            self.run(
                "CREATE SEQUENCE writes;
                 CREATE FUNCTION fail_some() RETURNS trigger LANGUAGE plpgsql AS
                   $$ BEGIN IF nextval('writes') % 7 = 0 THEN RAISE EXCEPTION 'not now'; END IF; RETURN NEW; END $$",
            )
            .await;
        }
        for (write, table) in WRITES {
            let trigger = format!("CREATE TRIGGER fail_{write}_{table} BEFORE {write} ON {table}");
            self.run(&match self {
                // Here everything is rolled back, but for the dice.
                Self::Sqlite(_) => {
                    format!("{trigger} WHEN abs(random() % 7) = 0 BEGIN SELECT RAISE(ABORT, 'not now'); END")
                }
                Self::Postgres(_) => format!("{trigger} FOR EACH ROW EXECUTE FUNCTION fail_some()"),
            })
            .await;
        }
    }

    /// Writes succeed again.
    pub(crate) async fn fail_no_more(&self) {
        let triggers = match self {
            Self::Sqlite(_) => "SELECT 'DROP TRIGGER ' || name FROM sqlite_master WHERE name LIKE 'fail_%'",
            // To take the triggers away is to wait for everybody who writes, and they for us.
            Self::Postgres(_) => {
                "SELECT 'CREATE OR REPLACE FUNCTION fail_some() RETURNS trigger LANGUAGE plpgsql AS
                   $$ BEGIN RETURN NEW; END $$'"
            }
        };
        for drop in self.texts(triggers).await {
            self.run(&drop).await;
        }
    }

    /// Takes the SQLite file's only write lock. Dropped, it is free again.
    pub(crate) async fn hold_writes(&self) -> SqliteConnection {
        let Self::Sqlite(path) = self else { panic!("PostgreSQL has no such lock") };
        let mut connection = sqlite(path).await;
        sqlx::raw_sql("BEGIN EXCLUSIVE").execute(&mut connection).await.unwrap();
        connection
    }

    /// From now on, this kind of write to a payment's row takes a moment.
    pub(crate) async fn slow_down(&self, write: &str) {
        let sql = match self {
            Self::Sqlite(_) => format!(
                "CREATE VIEW busy AS WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c LIMIT 600000)
                   SELECT count(*) AS n FROM c;
                 CREATE TRIGGER slowly BEFORE {write} ON payments BEGIN SELECT n FROM busy; END"
            ),
            Self::Postgres(_) => format!(
                "CREATE FUNCTION slowly() RETURNS trigger LANGUAGE plpgsql AS
                   $$ BEGIN PERFORM pg_sleep(2); RETURN NEW; END $$;
                 CREATE TRIGGER slowly BEFORE {write} ON payments FOR EACH ROW EXECUTE FUNCTION slowly()"
            ),
        };
        self.run(&sql).await;
    }

    /// Waits for a slow write while this query finds something.
    pub(crate) async fn until_writing(&self, query: &str) {
        match self {
            Self::Sqlite(path) => {
                let impatient = SqliteConnectOptions::new().filename(path).busy_timeout(Duration::ZERO);
                let mut connection = SqliteConnection::connect_with(&impatient).await.unwrap();
                loop {
                    // Its writer holds the file's only write lock.
                    let begun = sqlx::raw_sql("BEGIN IMMEDIATE; ROLLBACK").execute(&mut connection).await;
                    let found = sqlx::query(AssertSqlSafe(query.to_owned())).fetch_all(&mut connection);
                    if begun.is_err() && !found.await.unwrap().is_empty() {
                        return;
                    }
                    sleep(LOOK_EVERY).await;
                }
            }
            Self::Postgres(url) => {
                let sleeping = "SELECT 1 FROM pg_stat_activity
                                WHERE wait_event = 'PgSleep' AND datname = current_database()";
                let mut connection = PgConnection::connect(url).await.unwrap();
                while sqlx::query(sleeping).fetch_all(&mut connection).await.unwrap().is_empty() {
                    sleep(LOOK_EVERY).await;
                }
            }
        }
    }

    /// Everything the store says about the payment with this nonce, all slots, and all idempotency keys.
    pub(crate) async fn describe(&self, auth_nonce: &str) -> String {
        let payment = format!(
            "SELECT status
               || CASE WHEN payee IS NOT NULL THEN ', payee noted' ELSE '' END
               || CASE WHEN last_answer IS NOT NULL THEN ', told ' || last_answer ELSE '' END
               || CASE WHEN answer_before IS NOT NULL THEN ', in flight'
                       WHEN answer_holder IS NOT NULL THEN ', leased' ELSE '' END
             FROM payments WHERE auth_nonce = '{auth_nonce}' ORDER BY created_at_ms DESC, id DESC LIMIT 1"
        );
        let slots = "SELECT 'nonce ' || lane_nonce || ' ' || COALESCE(outcome, 'open') || ' x'
                       || (SELECT COUNT(*) FROM attempts WHERE slot_id = slots.id)
                     FROM slots ORDER BY lane_nonce";
        let keys = "SELECT CASE WHEN answer IS NULL THEN 'key bound' ELSE 'key answered' END
                    FROM idempotency_keys ORDER BY key";
        let mut texts = self.texts(&payment).await;
        if texts.is_empty() {
            texts.push("no row".to_owned());
        }
        texts.extend(self.texts(slots).await);
        texts.extend(self.texts(keys).await);
        texts.join(", ")
    }
}

async fn sqlite(path: &Path) -> SqliteConnection {
    SqliteConnection::connect_with(&SqliteConnectOptions::new().filename(path)).await.unwrap()
}

//! PostgreSQL: any number of processes at once.

use sqlx::{
    ConnectOptions, Connection, Executor, Pool, Postgres,
    migrate::{MigrateError, Migrator},
    postgres::{PgConnectOptions, PgPoolOptions},
};
use std::{io, str::FromStr, time::Duration};
use url::Url;

use crate::{
    StoreError,
    connections::{Connections, SILENCE},
    error::DatabaseFault,
    schema,
    store::SqlStore,
};

/// Connections of one process. Several replicas share the server's limit (100 unless configured).
const CONNECTIONS_MAX: u32 = 10;

/// How long a connection that comes back may take to answer; one that a vanished server left behind never does, and
/// would keep its place in the pool until the kernel gives up a quarter of an hour later.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(2);

/// How often a migration is begun that locks tables in another order than the transactions of those at work: the
/// database undoes one of the two.
const MIGRATION_TRIES: usize = 5;

/// A connection that rested longer than this is tried before it is used: the server may have restarted. A busy one is
/// not, because the try is a round trip and a reservation is only one itself.
const TRUSTED_IDLE: Duration = Duration::from_secs(1);

/// Parameters of `store.url` that mean something. The driver logs an unknown one with its value and goes on.
const PARAMETERS: [&str; 15] = [
    "sslmode",
    "ssl-mode",
    "sslrootcert",
    "ssl-root-cert",
    "ssl-ca",
    "sslcert",
    "ssl-cert",
    "sslkey",
    "ssl-key",
    "host",
    "hostaddr",
    "port",
    "user",
    "password",
    "dbname",
];

/// The store on PostgreSQL 14 or later. Leases run on the database's clock, so replicas need not agree on theirs.
pub type PgStore = SqlStore<Postgres>;

impl SqlStore<Postgres> {
    /// Connects and brings the schema up to date.
    pub async fn connect(url: &str) -> Result<Self, StoreError> {
        let options = options(url)?;

        // Migrations run on a connection of their own, because waiting for another process to finish them, or a
        // long one, must not be cut short.
        let connecting = options.clone().options([("lock_timeout", "60000")]);
        let mut migrating = tokio::time::timeout(SILENCE, connecting.connect())
            .await
            .map_err(|_| StoreError::Unavailable(DatabaseFault::silence()))??;
        let known = migrations();
        let mut outcome = known.run(&mut migrating).await;
        for _ in 1..MIGRATION_TRIES {
            match &outcome {
                Err(fault) if is_deadlock(fault) => outcome = known.run(&mut migrating).await,
                _ => break,
            }
        }
        outcome?;
        migrating.close().await?;
        let pool = Connections::of(pool(options).await?);
        Ok(Self { readers: pool.clone(), writers: pool, _only_process: None })
    }

    /// Connects to look, and changes nothing: not even the schema.
    pub async fn connect_to_read(url: &str) -> Result<Self, StoreError> {
        let options = options(url)?.options([("default_transaction_read_only", "on")]);
        let pool = Connections::of(pool(options).await?);
        let store = Self { readers: pool.clone(), writers: pool, _only_process: None };
        if !store.exists(MIGRATIONS_EXIST).await? {
            return Err(StoreError::Behind(1));
        }
        schema::is_up_to_date(&migrations(), &mut **store.readers.take().await?).await?;
        Ok(store)
    }
}

/// One row: how many tables there are that say what ran.
const MIGRATIONS_EXIST: &str = "SELECT COUNT(to_regclass('_sqlx_migrations')) AS found";

fn migrations() -> Migrator {
    schema::beside_newer(sqlx::migrate!("../../migrations/postgres"))
}

/// Nothing of it has happened, and the other has gone on.
fn is_deadlock(fault: &MigrateError) -> bool {
    let (MigrateError::Execute(error) | MigrateError::ExecuteMigration(error, _)) = fault else {
        return false;
    };
    error.as_database_error().and_then(|error| error.code()).is_some_and(|code| code == "40P01")
}

async fn pool(options: PgConnectOptions) -> Result<Pool<Postgres>, StoreError> {
    let bounded = options.options([
        ("statement_timeout", "5000"),
        ("lock_timeout", "4000"),
        // A ROLLBACK outside a transaction is a warning, and every connection that comes back gets one.
        ("client_min_messages", "error"),
        // A process that is paused inside a transaction would otherwise hold a lane's row for ever.
        ("idle_in_transaction_session_timeout", "5000"),
    ]);
    let pool = PgPoolOptions::new()
        .max_connections(CONNECTIONS_MAX)
        .acquire_timeout(SILENCE)
        .test_before_acquire(false)
        .before_acquire(|connection, meta| {
            Box::pin(async move {
                if meta.idle_for > TRUSTED_IDLE {
                    connection.ping().await?;
                }
                Ok(true)
            })
        })
        // A caller that leaves while BEGIN is on its way leaves a transaction behind that the driver does not know
        // of. The next caller's write would be acknowledged inside it and never committed.
        .after_release(|connection, _| {
            Box::pin(async move {
                match tokio::time::timeout(RELEASE_TIMEOUT, connection.execute("ROLLBACK")).await {
                    Ok(answer) => answer.map(|_| true),
                    Err(_) => Err(io::Error::from(io::ErrorKind::TimedOut).into()),
                }
            })
        })
        .connect_with(bounded)
        .await?;
    Ok(pool)
}

fn options(url: &str) -> Result<PgConnectOptions, StoreError> {
    let parsed = Url::parse(url).map_err(|_| StoreError::Url("not a URL"))?;
    if parsed.query_pairs().any(|(key, _)| !PARAMETERS.contains(&key.as_ref())) {
        return Err(StoreError::Url("it has a parameter that means nothing here"));
    }
    let options = PgConnectOptions::from_str(url)
        .map_err(|_| StoreError::Url("not a usable PostgreSQL URL (postgres://user@host/database)"))?;
    Ok(options
        .application_name("quittance")
        // A commit that has returned must survive a crash, whatever the server's default is.
        .options([("synchronous_commit", "on")])
        // Stricter levels answer a lost race with an error instead of with the winner.
        .options([("default_transaction_isolation", "read committed")])
        .disable_statement_logging())
}

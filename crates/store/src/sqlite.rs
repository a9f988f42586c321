//! SQLite: one file, one process.

use sqlx::{
    ConnectOptions, Connection, Sqlite,
    migrate::Migrator,
    sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous},
};
use std::{
    fs::{File, OpenOptions, TryLockError},
    io,
    path::{Path, PathBuf},
    time::Duration,
};

use crate::{
    StoreError,
    connections::{Connections, SILENCE},
    driver::{Dialect, binds},
    error::DatabaseFault,
    schema,
    store::SqlStore,
};

/// Reading connections. WAL lets them read while the one writer writes.
const READERS_MAX: u32 = 4;

/// How long a statement waits for a lock; only a tool that opens the file beside us can hold one.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// The store in a SQLite file. Only one process may have it open, and all writes go through one connection.
pub type SqliteStore = SqlStore<Sqlite>;

impl SqlStore<Sqlite> {
    /// Opens `sqlite://PATH`, creating the file but no directory, and brings the schema up to date.
    pub async fn open(url: &str) -> Result<Self, StoreError> {
        let path = path(url)?;
        // By its real name, so that two spellings of one file meet at one lock.
        create(&path)?;
        let path = path.canonicalize().map_err(unavailable)?;
        let only_process = lock(&path)?;

        let options = options(&path)
            .journal_mode(SqliteJournalMode::Wal)
            // A commit that has returned must survive a power cut: the transaction it describes may be on the chain.
            .synchronous(SqliteSynchronous::Full);
        let writers = pool().max_connections(1).connect_with(options.clone()).await?;
        migrations().run(&writers).await?;
        let readers =
            pool().max_connections(READERS_MAX).connect_with(options.pragma("query_only", "ON")).await?;

        let (writers, readers) = (Connections::of(writers), Connections::of(readers));
        let store = Self { writers, readers, _only_process: Some(only_process) };
        // Whoever held a lease was a process that is gone: nobody waits for it.
        store.execute(Sqlite::SQL.reset_answers, binds![]).await?;
        store.execute(Sqlite::SQL.reset_keepers, binds![]).await?;
        Ok(store)
    }

    /// Opens the file to look, beside the process that has it open: without its lock, and without changing anything.
    pub async fn open_to_read(url: &str) -> Result<Self, StoreError> {
        let path = path(url)?.canonicalize().map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => StoreError::NoFile,
            _ => unavailable(error),
        })?;
        let readers =
            pool().max_connections(READERS_MAX).connect_with(options(&path).read_only(true)).await?;
        let readers = Connections::of(readers);
        let store = Self { writers: readers.clone(), readers, _only_process: None };
        if !store.exists(MIGRATIONS_EXIST).await? {
            return Err(StoreError::Behind(1));
        }
        schema::is_up_to_date(&migrations(), &mut **store.readers.take().await?).await?;
        Ok(store)
    }
}

/// One row: how many tables there are that say what ran.
const MIGRATIONS_EXIST: &str = "SELECT COUNT(*) AS found FROM sqlite_schema WHERE name = '_sqlx_migrations'";

fn migrations() -> Migrator {
    schema::beside_newer(sqlx::migrate!("../../migrations/sqlite"))
}

fn options(path: &Path) -> SqliteConnectOptions {
    SqliteConnectOptions::new()
        .filename(path)
        .foreign_keys(true)
        .busy_timeout(BUSY_TIMEOUT)
        .disable_statement_logging()
}

/// Connections to a file do not go stale, so none is tested or retired. One that comes back inside a transaction is closed:
/// SQLite rolls back by itself when the disk is full, the driver does not hear of it, and would never begin another.
fn pool() -> SqlitePoolOptions {
    SqlitePoolOptions::new()
        .acquire_timeout(SILENCE)
        .test_before_acquire(false)
        .idle_timeout(None)
        .max_lifetime(None)
        .after_release(|connection, _| {
            Box::pin(async move {
                // A rollback that was left behind is done before this is answered.
                connection.ping().await?;
                Ok(!connection.is_in_transaction())
            })
        })
}

fn path(url: &str) -> Result<PathBuf, StoreError> {
    if url.contains(":memory:") {
        return Err(StoreError::Url("an in-memory SQLite database would forget every signed transaction"));
    }
    match url.strip_prefix("sqlite://") {
        Some("") => Err(StoreError::Url("the path of the SQLite file is missing")),
        Some(path) if path.contains(['?', '#']) => {
            Err(StoreError::Url("a SQLite URL takes no parameters (sqlite://PATH)"))
        }
        Some(path) => Ok(PathBuf::from(path)),
        None => Err(StoreError::Url("a SQLite URL is sqlite://PATH")),
    }
}

fn create(path: &Path) -> Result<(), StoreError> {
    open_file(path).map(drop)
}

fn lock(database: &Path) -> Result<File, StoreError> {
    let mut name = database.as_os_str().to_owned();
    name.push(".lock");
    let file = open_file(Path::new(&name))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(StoreError::Locked),
        Err(TryLockError::Error(error)) => Err(unavailable(error)),
    }
}

fn open_file(path: &Path) -> Result<File, StoreError> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    // The file holds signed transactions: for the owner only.
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path).map_err(unavailable)
}

fn unavailable(error: io::Error) -> StoreError {
    StoreError::Unavailable(DatabaseFault::from(error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use sqlx::Executor;

    /// What SQLite does when the disk is full inside a transaction.
    #[tokio::test]
    async fn a_transaction_that_ended_by_itself_ends_no_other() {
        let only = SqliteConnectOptions::new().in_memory(true);
        let writers = pool().max_connections(1).connect_with(only).await.unwrap();
        let mut transaction = writers.begin_with("BEGIN IMMEDIATE").await.unwrap();
        transaction.execute("ROLLBACK").await.unwrap();
        drop(transaction);
        let next = writers.begin_with("BEGIN IMMEDIATE").await;
        next.unwrap().commit().await.unwrap();
    }
}

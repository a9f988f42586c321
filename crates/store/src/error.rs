//! Why the store could not answer, without the values it was asked about.

use std::{error::Error, fmt, io};

/// Why the store could not answer. Always our outage, never a statement about a payment.
///
/// An error does not say that nothing was written: a connection may break after the database has committed.
/// Read the row again before acting.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The database refused or could not be reached.
    #[error("the store is unavailable")]
    Unavailable(#[source] DatabaseFault),
    /// The schema could not be brought up to date.
    #[error("the store's schema could not be migrated")]
    Migration(#[source] MigrationFault),
    /// The schema is that of an older version, and whoever only looks does not change it.
    #[error(
        "the store has the schema of an older version (migration {0} is missing); a server of this one brings it up to date when it starts"
    )]
    Behind(i64),
    /// There is nothing to look at.
    #[error("the SQLite file of store.url does not exist; the server creates it when it starts")]
    NoFile,
    /// A row holds something this version cannot read.
    #[error("column {column} of table {table} holds a value this version cannot read")]
    Corrupt {
        /// Table of the row.
        table: &'static str,
        /// Column of the value.
        column: &'static str,
    },
    /// A quantity is beyond what the schema can hold.
    #[error("{0} does not fit a signed 64-bit column")]
    OutOfRange(&'static str),
    /// The URL in `store.url` cannot be used.
    #[error("store.url: {0}")]
    Url(&'static str),
    /// Another process holds the SQLite file.
    #[error("another process has this SQLite store open; use PostgreSQL for several replicas")]
    Locked,
    /// A slot was asked for on a lane that `raise_lane_floor` never introduced.
    #[error("the lane was never introduced to the store")]
    UnknownLane,
    /// The holder of a replay key changed again and again while a reservation looked at it; nothing was written.
    #[error("the replay key changed hands too often to decide who holds it")]
    Contended,
    /// Signing inside the slot transaction failed; nothing was written.
    #[error("signing failed")]
    Sign(#[source] Box<dyn Error + Send + Sync>),
}

impl From<sqlx::Error> for StoreError {
    fn from(error: sqlx::Error) -> Self {
        Self::Unavailable(error.into())
    }
}

impl From<sqlx::migrate::MigrateError> for StoreError {
    fn from(error: sqlx::migrate::MigrateError) -> Self {
        Self::Migration(error.into())
    }
}

/// What went wrong between us and the database.
///
/// Built from the driver's error and then the driver's error is dropped: PostgreSQL quotes whole rows (signed
/// transactions among them) in the detail of an error, and the host, user and database of the URL in its message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DatabaseFault {
    what: &'static str,
    code: Option<String>,
    constraint: Option<String>,
    io: Option<io::ErrorKind>,
}

impl DatabaseFault {
    /// Our own patience ran out: nothing says whether the statement ran.
    pub(crate) fn silence() -> Self {
        Self::plain("the database did not answer in time")
    }

    fn plain(what: &'static str) -> Self {
        Self { what, code: None, constraint: None, io: None }
    }

    /// SQLSTATE on PostgreSQL, the extended result code on SQLite; `None` when the database did not answer at all.
    pub fn code(&self) -> Option<&str> {
        self.code.as_deref()
    }
}

impl From<io::Error> for DatabaseFault {
    fn from(error: io::Error) -> Self {
        Self { io: Some(error.kind()), ..Self::plain("input or output failed") }
    }
}

impl From<sqlx::Error> for DatabaseFault {
    fn from(error: sqlx::Error) -> Self {
        match error {
            sqlx::Error::Database(error) => Self {
                what: "the database refused",
                code: error.code().map(|code| code.into_owned()),
                constraint: error.constraint().map(str::to_owned),
                io: None,
            },
            sqlx::Error::Io(error) => error.into(),
            sqlx::Error::Tls(_) => Self::plain("TLS with the database failed"),
            sqlx::Error::Configuration(_) => Self::plain("the connection settings were refused"),
            sqlx::Error::PoolTimedOut => Self::plain("no connection became free in time"),
            sqlx::Error::PoolClosed => Self::plain("the store is closed"),
            sqlx::Error::WorkerCrashed => Self::plain("the database thread has ended"),
            sqlx::Error::BeginFailed => Self::plain("a transaction could not be opened"),
            sqlx::Error::RowNotFound => Self::plain("a row that must exist is missing"),
            sqlx::Error::Protocol(_) => Self::plain("the database did not speak its protocol"),
            _ => Self::plain("the driver failed"),
        }
    }
}

impl fmt::Display for DatabaseFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.what)?;
        if let Some(kind) = self.io {
            write!(f, ": {kind}")?;
        }
        if let Some(code) = &self.code {
            write!(f, ", code {code}")?;
        }
        if let Some(constraint) = &self.constraint {
            write!(f, ", constraint {constraint}")?;
        }
        Ok(())
    }
}

impl Error for DatabaseFault {}

/// Why the schema could not be brought up to date.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MigrationFault {
    /// The migration that ran is not the one this version carries.
    #[error("migration {0} ran with another text than this version carries")]
    Changed(i64),
    /// The database failed.
    #[error("the database failed")]
    Database(#[source] DatabaseFault),
    /// The migrations themselves cannot be used.
    #[error("the migrations cannot be applied")]
    Unusable,
}

impl From<sqlx::migrate::MigrateError> for MigrationFault {
    fn from(error: sqlx::migrate::MigrateError) -> Self {
        use sqlx::migrate::MigrateError as E;
        match error {
            E::Execute(error) | E::ExecuteMigration(error, _) => Self::Database(error.into()),
            E::VersionMismatch(version) => Self::Changed(version),
            _ => Self::Unusable,
        }
    }
}

//! The little that the store needs from a driver: bind values, run a statement, read columns.
//!
//! sqlx can say this generically over its `Database` trait only with a page of bounds per function. Both drivers
//! get the same few lines by macro instead, and everything above them is written once.

use sqlx::{AssertSqlSafe, Row, SqlSafeStr, SqlStr};
use std::{fmt, future::Future};

use crate::sql::Statements;

/// A value bound to a placeholder. A nullable one keeps its type, which PostgreSQL wants to know.
#[derive(Clone)]
pub enum Bind {
    /// Text or a typed NULL.
    Text(Option<String>),
    /// A number or a typed NULL.
    Int(Option<i64>),
    /// Bytes.
    Bytes(Vec<u8>),
}

impl fmt::Debug for Bind {
    /// Without the value: signed transactions are bound too.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Bind(..)")
    }
}

impl From<String> for Bind {
    fn from(value: String) -> Self {
        Self::Text(Some(value))
    }
}

impl From<&str> for Bind {
    fn from(value: &str) -> Self {
        Self::Text(Some(value.to_owned()))
    }
}

impl From<Option<String>> for Bind {
    fn from(value: Option<String>) -> Self {
        Self::Text(value)
    }
}

impl From<i64> for Bind {
    fn from(value: i64) -> Self {
        Self::Int(Some(value))
    }
}

impl From<Option<i64>> for Bind {
    fn from(value: Option<i64>) -> Self {
        Self::Int(value)
    }
}

/// A list of [`Bind`]s, in the order of the placeholders.
macro_rules! binds {
    ($($value:expr),* $(,)?) => { vec![$($crate::driver::Bind::from($value)),*] };
}
pub(crate) use binds;

/// The text of a statement that was put together at run time, from constants only; values are always bound.
pub(crate) fn assembled(sql: String) -> SqlStr {
    AssertSqlSafe(sql).into_sql_str()
}

/// A row of either database, read by column name.
///
/// An error means that the column is missing or holds another type: a row this version cannot read.
pub trait Columns {
    /// Text that must be there.
    fn text(&self, column: &'static str) -> Result<String, sqlx::Error>;
    /// Text that may be NULL.
    fn maybe_text(&self, column: &'static str) -> Result<Option<String>, sqlx::Error>;
    /// A number that must be there.
    fn int(&self, column: &'static str) -> Result<i64, sqlx::Error>;
    /// A number that may be NULL.
    fn maybe_int(&self, column: &'static str) -> Result<Option<i64>, sqlx::Error>;
    /// Bytes that must be there.
    fn bytes(&self, column: &'static str) -> Result<Vec<u8>, sqlx::Error>;
}

/// One of the two databases. Sealed by being nameable only inside this crate.
pub trait Dialect: sqlx::Database<Row: Columns> {
    /// For people.
    const LABEL: &'static str;
    /// Its SQL.
    const SQL: Statements;
    /// Opens a transaction that will write.
    const BEGIN_WRITE: &'static str;
    /// Opens a transaction whose reads all see one state.
    const BEGIN_SNAPSHOT: &'static str;

    /// Runs a statement to its end and returns its rows.
    fn rows(
        connection: &mut Self::Connection,
        sql: SqlStr,
        binds: Vec<Bind>,
    ) -> impl Future<Output = Result<Vec<Self::Row>, sqlx::Error>> + Send;

    /// Runs a statement to its end and returns how many rows it touched.
    fn execute(
        connection: &mut Self::Connection,
        sql: SqlStr,
        binds: Vec<Bind>,
    ) -> impl Future<Output = Result<u64, sqlx::Error>> + Send;
}

macro_rules! dialect {
    ($database:ident, $row:ty, $sql:expr, write: $write:literal, snapshot: $snapshot:literal) => {
        impl Dialect for sqlx::$database {
            const LABEL: &'static str = stringify!($database);
            const SQL: Statements = $sql;
            const BEGIN_WRITE: &'static str = $write;
            const BEGIN_SNAPSHOT: &'static str = $snapshot;

            async fn rows(
                connection: &mut Self::Connection,
                sql: SqlStr,
                binds: Vec<Bind>,
            ) -> Result<Vec<Self::Row>, sqlx::Error> {
                let mut query = sqlx::query::<Self>(sql);
                for bind in binds {
                    query = match bind {
                        Bind::Text(value) => query.bind(value),
                        Bind::Int(value) => query.bind(value),
                        Bind::Bytes(value) => query.bind(value),
                    };
                }
                query.fetch_all(connection).await
            }

            async fn execute(
                connection: &mut Self::Connection,
                sql: SqlStr,
                binds: Vec<Bind>,
            ) -> Result<u64, sqlx::Error> {
                let mut query = sqlx::query::<Self>(sql);
                for bind in binds {
                    query = match bind {
                        Bind::Text(value) => query.bind(value),
                        Bind::Int(value) => query.bind(value),
                        Bind::Bytes(value) => query.bind(value),
                    };
                }
                Ok(query.execute(connection).await?.rows_affected())
            }
        }

        impl Columns for $row {
            fn text(&self, column: &'static str) -> Result<String, sqlx::Error> {
                self.try_get(column)
            }
            fn maybe_text(&self, column: &'static str) -> Result<Option<String>, sqlx::Error> {
                self.try_get(column)
            }
            fn int(&self, column: &'static str) -> Result<i64, sqlx::Error> {
                self.try_get(column)
            }
            fn maybe_int(&self, column: &'static str) -> Result<Option<i64>, sqlx::Error> {
                self.try_get(column)
            }
            fn bytes(&self, column: &'static str) -> Result<Vec<u8>, sqlx::Error> {
                self.try_get(column)
            }
        }
    };
}

dialect!(
    Postgres,
    sqlx::postgres::PgRow,
    crate::sql::POSTGRES,
    // What the server's default is must not matter: after waiting for a lock, the next statement has to see what
    // the last holder committed.
    write: "BEGIN ISOLATION LEVEL READ COMMITTED, READ WRITE",
    snapshot: "BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY"
);
// IMMEDIATE takes the write lock at once: a transaction that reads first and writes later would fail on the upgrade.
dialect!(
    Sqlite,
    sqlx::sqlite::SqliteRow,
    crate::sql::SQLITE,
    write: "BEGIN IMMEDIATE",
    snapshot: "BEGIN"
);

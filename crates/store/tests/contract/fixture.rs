//! A database of one test's own, its store, and a way around the store.

use quittance_store::{PgStore, SqliteStore, Store, StoreError};
use quittance_testkit::harness::PgCluster;
use sqlx::{
    AssertSqlSafe, ConnectOptions, Connection, Executor, PgConnection, Row, sqlite::SqliteConnectOptions,
};
use std::{collections::BTreeSet, path::PathBuf, sync::Arc, time::Duration};
use tempfile::TempDir;

pub(crate) struct Fixture {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) database: Database,
}

pub(crate) enum Database {
    Sqlite(TempDir),
    Postgres { cluster: Arc<PgCluster>, url: String },
}

impl Fixture {
    pub(crate) async fn sqlite() -> Self {
        Database::sqlite().opened().await
    }

    pub(crate) async fn postgres() -> Self {
        Database::postgres().await.opened().await
    }

    /// As many stores on the database as it takes at once, this one among them: `count` processes' worth on
    /// PostgreSQL, and on SQLite the one there can be.
    pub(crate) async fn stores(&self, count: usize) -> Vec<Arc<dyn Store>> {
        let mut stores = vec![self.store.clone()];
        if let Database::Postgres { .. } = self.database {
            while stores.len() < count {
                stores.push(self.database.open().await.unwrap());
            }
        }
        stores
    }

    /// The process ends and another one starts.
    pub(crate) async fn restarted(self) -> Self {
        let Self { store, database } = self;
        assert_eq!(Arc::strong_count(&store), 1, "the store would live on");
        drop(store);
        database.opened().await
    }

    pub(crate) fn is_sqlite(&self) -> bool {
        matches!(self.database, Database::Sqlite(_))
    }

    /// Runs a statement that no store would; the number of rows it touched.
    pub(crate) async fn meddle(&self, sql: &str) -> Result<u64, sqlx::Error> {
        self.database.meddle(sql).await
    }

    /// Reads one column of text that no store would tell.
    pub(crate) async fn list(&self, sql: &str) -> BTreeSet<String> {
        let sql = AssertSqlSafe(sql);
        match &self.database {
            Database::Sqlite(_) => {
                let rows = self.database.side_door().connect().await.unwrap().fetch_all(sql).await.unwrap();
                rows.iter().map(|row| row.get(0)).collect()
            }
            Database::Postgres { url, .. } => {
                let rows = PgConnection::connect(url).await.unwrap().fetch_all(sql).await.unwrap();
                rows.iter().map(|row| row.get(0)).collect()
            }
        }
    }

    /// Reads one number that no store would tell.
    pub(crate) async fn peek(&self, sql: &str) -> i64 {
        self.database.peek(sql).await.unwrap()
    }
}

impl Database {
    pub(crate) fn sqlite() -> Self {
        Self::Sqlite(tempfile::tempdir().unwrap())
    }

    pub(crate) async fn postgres() -> Self {
        let cluster = PgCluster::shared().await.unwrap();
        let url = cluster.create_database().await.unwrap();
        Self::Postgres { cluster, url }
    }

    pub(crate) fn url(&self) -> String {
        match self {
            Self::Sqlite(_) => format!("sqlite://{}", self.file().display()),
            Self::Postgres { url, .. } => url.clone(),
        }
    }

    pub(crate) fn file(&self) -> PathBuf {
        match self {
            Self::Sqlite(directory) => directory.path().join("quittance.db"),
            Self::Postgres { .. } => panic!("not a file"),
        }
    }

    pub(crate) async fn open(&self) -> Result<Arc<dyn Store>, StoreError> {
        Ok(match self {
            Self::Sqlite(_) => Arc::new(SqliteStore::open(&self.url()).await?),
            Self::Postgres { url, .. } => Arc::new(PgStore::connect(url).await?),
        })
    }

    async fn opened(self) -> Fixture {
        let store = self.open().await.unwrap();
        Fixture { store, database: self }
    }

    pub(crate) async fn meddle(&self, sql: &str) -> Result<u64, sqlx::Error> {
        let sql = AssertSqlSafe(sql);
        match self {
            Self::Sqlite(_) => Ok(self.side_door().connect().await?.execute(sql).await?.rows_affected()),
            Self::Postgres { url, .. } => {
                Ok(PgConnection::connect(url).await?.execute(sql).await?.rows_affected())
            }
        }
    }

    pub(crate) async fn peek(&self, sql: &str) -> Result<i64, sqlx::Error> {
        let sql = AssertSqlSafe(sql);
        match self {
            Self::Sqlite(_) => self.side_door().connect().await?.fetch_one(sql).await?.try_get(0),
            Self::Postgres { url, .. } => PgConnection::connect(url).await?.fetch_one(sql).await?.try_get(0),
        }
    }

    fn side_door(&self) -> SqliteConnectOptions {
        SqliteConnectOptions::new().filename(self.file()).busy_timeout(Duration::from_secs(5))
    }
}

/// Asks until the answer is yes. Time has to pass for it, and a minute of it is a failure.
pub(crate) async fn eventually(mut ask: impl AsyncFnMut() -> bool) {
    let asking = async {
        while !ask().await {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), asking).await.expect("it never happened");
}

//! One file, one process.

use quittance_store::{PgStore, SqliteStore, StoreError, open, open_to_read};
use std::{
    error::Error,
    io::{BufRead as _, BufReader},
    os::unix::fs::MetadataExt as _,
    path::Path,
    process::{Child, Command, Stdio},
};

use crate::{fixture::Fixture, given::reserved};

#[tokio::test]
async fn a_second_opener_is_refused() {
    let fixture = Fixture::sqlite().await;
    let file = fixture.database.file();
    let refused = SqliteStore::open(&fixture.database.url()).await;
    assert!(matches!(refused, Err(StoreError::Locked)), "{refused:?}");

    // By another name it is the same file.
    let link = file.with_file_name("link.db");
    std::os::unix::fs::symlink(&file, &link).unwrap();
    let detour = file.parent().unwrap().join(".").join("quittance.db");
    for name in [link, detour] {
        let refused = SqliteStore::open(&format!("sqlite://{}", name.display())).await;
        assert!(matches!(refused, Err(StoreError::Locked)), "{refused:?}");
    }
    // And the one who has it is not disturbed.
    reserved(&*fixture.store).await;
    fixture.restarted().await.store.ping().await.unwrap();
}

/// A process that holds the store's lock as another quittance would, until its input ends.
fn other_process(file: &Path) -> Child {
    let mut child = Command::new("flock")
        .arg("--exclusive")
        .arg("--nonblock")
        .arg(file.with_extension("db.lock"))
        .args(["sh", "-c", "echo held; read end"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = String::new();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut said).unwrap();
    if said.is_empty() {
        child.wait().unwrap();
    }
    child
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_process_is_refused() {
    let Fixture { store, database } = Fixture::sqlite().await;
    reserved(&*store).await;
    let file = database.file();
    let mut refused = other_process(&file);
    assert!(!refused.wait().unwrap().success(), "the store holds its lock against another process");
    drop(store);

    // The other way round; and a process that is killed does not leave the lock behind.
    let mut holder = other_process(&file);
    assert!(matches!(database.open().await, Err(StoreError::Locked)));
    // Closing its input ends both `sh` and `flock`.
    drop(holder.stdin.take());
    holder.wait().unwrap();
    let store = database.open().await.unwrap();
    assert_eq!(store.find(&Default::default(), 10).await.unwrap().len(), 1);
}

#[tokio::test]
async fn only_the_owner_may_read_the_file() {
    let fixture = Fixture::sqlite().await;
    reserved(&*fixture.store).await;
    for entry in std::fs::read_dir(fixture.database.file().parent().unwrap()).unwrap() {
        let entry = entry.unwrap();
        assert_eq!(entry.metadata().unwrap().mode() & 0o077, 0, "{entry:?}");
    }
}

#[tokio::test]
async fn commits_are_written_through_the_log_to_the_disk() {
    let fixture = Fixture::sqlite().await;
    let mode = fixture.list("PRAGMA journal_mode").await;
    assert_eq!(mode.into_iter().collect::<Vec<_>>(), ["wal"]);
}

#[tokio::test]
async fn urls_that_cannot_be_a_store_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path().display();
    for url in [
        String::new(),
        "quittance.db".to_owned(),
        "mysql://root@localhost/quittance".to_owned(),
        "sqlite::memory:".to_owned(),
        "sqlite://:memory:".to_owned(),
        format!("sqlite:{here}/quittance.db"),
        "sqlite://".to_owned(),
        format!("sqlite://{here}/quittance.db?mode=memory"),
        format!("sqlite://{here}/quittance.db?vfs=unix-none"),
        "postgres//".to_owned(),
        "postgres://user@host:port/db".to_owned(),
        "postgres://localhost/db?sslmod=require".to_owned(),
        "postgres://localhost/db?options=-csynchronous_commit%3Doff".to_owned(),
        "postgres://localhost/db?sslmode=mandatory".to_owned(),
    ] {
        let refused = open(&url).await.map(drop);
        assert!(matches!(refused, Err(StoreError::Url(_))), "{url}: {refused:?}");
    }
    assert!(matches!(PgStore::connect("no url").await, Err(StoreError::Url(_))));
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0, "a refused URL leaves no file");
}

#[tokio::test]
async fn a_file_that_cannot_be_opened_is_an_outage_without_its_path() {
    let directory = tempfile::tempdir().unwrap();
    let not_a_database = directory.path().join("hidden-name.db");
    std::fs::write(
        &not_a_database,
        "not a database, but longer than the header of one would be, so read it".repeat(20),
    )
    .unwrap();
    for path in
        [directory.path().join("hidden-name/quittance.db"), directory.path().to_owned(), not_a_database]
    {
        let error = open(&format!("sqlite://{}", path.display())).await.map(drop).unwrap_err();
        assert!(matches!(error, StoreError::Unavailable(_) | StoreError::Migration(_)), "{error:?}");
        let mut said = format!("{error:?}");
        let mut cause: Option<&dyn Error> = Some(&error);
        while let Some(error) = cause {
            said += &format!(" {error} {error:?}");
            cause = error.source();
        }
        assert!(!said.contains("hidden-name"), "{said}");
    }
}

/// The file is looked at while its server is down, and the server finds it as it left it.
#[tokio::test]
async fn a_file_that_nobody_has_open_is_looked_at() {
    let Fixture { store, database } = Fixture::sqlite().await;
    let row = reserved(&*store).await;
    drop(store);
    let reader = open_to_read(&database.url()).await.unwrap();
    assert_eq!(reader.payment(row.id).await.unwrap().as_ref(), Some(&row));
    drop(reader);
    let store = database.open().await.unwrap();
    reserved(&*store).await;
    assert_eq!(store.find(&Default::default(), 10).await.unwrap().len(), 2);
}

#[tokio::test]
async fn looking_creates_no_file() {
    let directory = tempfile::tempdir().unwrap();
    for path in ["quittance.db", "nowhere/quittance.db"] {
        let url = format!("sqlite://{}", directory.path().join(path).display());
        let refused = open_to_read(&url).await.map(drop);
        assert!(matches!(refused, Err(StoreError::NoFile)), "{refused:?}");
    }
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
    std::fs::write(directory.path().join("quittance.db"), "").unwrap();
    let refused =
        open_to_read(&format!("sqlite://{}/quittance.db", directory.path().display())).await.map(drop);
    assert!(matches!(refused, Err(StoreError::Behind(1))), "{refused:?}");
}

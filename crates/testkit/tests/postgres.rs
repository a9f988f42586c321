//! The life of a throwaway cluster.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail like tests")]

use std::{path::PathBuf, sync::Arc};

use quittance_testkit::harness::PgCluster;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

/// Speaks just enough of the protocol to be let in to a database: `true` once the server says it may be used.
async fn can_enter(url: &str) -> bool {
    let (_, rest) = url.split_once("://").unwrap();
    let (user, rest) = rest.split_once('@').unwrap();
    let (address, database) = rest.split_once('/').unwrap();
    let Ok(mut stream) = TcpStream::connect(address).await else { return false };
    let parameters = format!("user\0{user}\0database\0{database}\0\0");
    let length = u32::try_from(8 + parameters.len()).unwrap();
    let hello = [&length.to_be_bytes()[..], &196_608_u32.to_be_bytes()[..], parameters.as_bytes()].concat();
    stream.write_all(&hello).await.unwrap();
    let mut answer = [0_u8; 9];
    // AuthenticationOk, as opposed to an error; and then not an error about the database.
    let mut next = [0_u8; 1];
    stream.read_exact(&mut answer).await.is_ok()
        && answer == [b'R', 0, 0, 0, 8, 0, 0, 0, 0]
        && stream.read_exact(&mut next).await.is_ok()
        && next == *b"S"
}

#[tokio::test]
async fn databases_are_fresh_and_survive_an_outage() {
    let cluster = PgCluster::start().await.unwrap();
    let (one, two) = (cluster.create_database().await.unwrap(), cluster.create_database().await.unwrap());
    assert_ne!(one, two);
    assert!(can_enter(&one).await && can_enter(&two).await);
    assert!(!can_enter(&one.replace("test_0", "no_such_database")).await);

    cluster.stop().await.unwrap();
    assert!(!can_enter(&one).await);
    cluster.stop().await.unwrap();
    cluster.resume().await.unwrap();
    assert!(can_enter(&one).await && can_enter(&two).await);
    assert!(cluster.socket_dir().join(format!(".s.PGSQL.{}", cluster.port())).exists());
}

#[tokio::test]
async fn a_dropped_cluster_leaves_nothing() {
    let cluster = PgCluster::start().await.unwrap();
    let url = cluster.create_database().await.unwrap();
    let dir = PathBuf::from(cluster.socket_dir());
    assert!(dir.exists());
    drop(cluster);
    assert!(!dir.exists());
    assert!(!can_enter(&url).await);
}

#[tokio::test]
async fn the_shared_cluster_ends_with_its_last_user() {
    let one = PgCluster::shared().await.unwrap();
    let two = PgCluster::shared().await.unwrap();
    assert!(Arc::ptr_eq(&one, &two));
    let url = one.create_database().await.unwrap();
    drop(one);
    assert!(can_enter(&url).await);
    drop(two);
    assert!(!can_enter(&url).await);
}

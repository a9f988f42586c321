//! Where a stranger's URL must not lead, and what must not come back from it.

use crate::{
    agents::{file_of, set_uri},
    files::Page,
    outcomes::gzip,
    stage::{RESOURCE, Stage, said},
};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::{net::TcpListener, time::Instant};

const NOT_PUBLIC: &str = "not a public one";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_behind_the_wall_is_reached() {
    let stage = Stage::start_with("report", |config| config).await;
    let agent = stage.agent_with("").await;
    let inside = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = inside.local_addr().unwrap().port();
    for (uri, reason) in [
        ("https://127.0.0.1/".to_owned(), NOT_PUBLIC),
        ("https://127.1/".into(), NOT_PUBLIC),
        ("https://2130706433/".into(), NOT_PUBLIC),
        ("https://0x7f.0.0.1/".into(), NOT_PUBLIC),
        ("https://0177.0.0.1/".into(), NOT_PUBLIC),
        ("https://localhost/".into(), NOT_PUBLIC),
        ("https://LOCALHOST/".into(), NOT_PUBLIC),
        ("https://0.0.0.0/".into(), NOT_PUBLIC),
        ("https://10.1.2.3/".into(), NOT_PUBLIC),
        ("https://100.64.0.1/".into(), NOT_PUBLIC),
        ("https://169.254.169.254/latest/meta-data/".into(), NOT_PUBLIC),
        ("https://172.16.0.1/".into(), NOT_PUBLIC),
        ("https://192.168.0.1/".into(), NOT_PUBLIC),
        ("https://[::1]/".into(), NOT_PUBLIC),
        ("https://[::ffff:127.0.0.1]/".into(), NOT_PUBLIC),
        ("https://[::ffff:a00:1]/".into(), NOT_PUBLIC),
        ("https://[::127.0.0.1]/".into(), NOT_PUBLIC),
        ("https://[64:ff9b::7f00:1]/".into(), NOT_PUBLIC),
        ("https://[2002:7f00:1::]/".into(), NOT_PUBLIC),
        ("https://[fe80::1]/".into(), NOT_PUBLIC),
        ("https://[fd00::1]/".into(), NOT_PUBLIC),
        (format!("https://127.0.0.1:{port}/"), "only port 443"),
        ("https://example.com:22/".into(), "only port 443"),
        ("https://example.com@127.0.0.1/".into(), "credentials"),
        ("https://user:secret@example.com/".into(), "credentials"),
        ("https://example.com\\@127.0.0.1/".into(), "neither a URI"),
        (format!("http://127.0.0.1:{port}/"), "only https is fetched"),
        ("file:///etc/passwd".into(), "not supported"),
        ("ar://abc".into(), "not supported"),
    ] {
        set_uri(&stage.chain, agent.id, &uri).await;
        let answer = stage.check(agent.requirement(agent.wallet, Value::Null)).await;
        assert_eq!(said(&answer), ("not-read", "file"), "{uri}: {answer}");
        let told = answer["reason"].as_str().unwrap();
        assert!(told.contains(reason), "{uri}: {told}");
        // The reason repeats nothing of what a stranger wrote.
        assert!(
            !told.contains("127.") && !told.contains("secret") && !told.contains("http:"),
            "{uri}: {told}"
        );
    }
    let knocked = tokio::time::timeout(Duration::from_millis(50), inside.accept()).await;
    assert!(knocked.is_err(), "somebody connected");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_comes_back_is_bounded() {
    let stage = Stage::start("report").await;
    let agent = stage.agent_with("").await;
    let files = &stage.files;
    let mut huge = file_of(&[RESOURCE]).to_string().into_bytes();
    huge.resize(262_145, b' ');
    let bomb = gzip(&vec![b' '; 100_000_000]);
    assert!(bomb.len() < 200_000);
    files.put("/1", Page::Redirect("/2".into()));
    files.put("/2", Page::Redirect("/3".into()));
    files.put("/3", Page::Redirect("/4".into()));
    files.put("/4", Page::Redirect("/file".into()));
    files.put("/file", Page::Json(file_of(&[RESOURCE])));
    for (uri, reason) in [
        (files.put("/huge", Page::Bytes(huge.clone())), "larger than 256 KiB"),
        (files.put("/endless", Page::Endless), "larger than 256 KiB"),
        (files.put("/bomb", Page::Encoded("gzip", bomb)), "larger than 256 KiB"),
        (files.put("/slow", Page::Slow), "in time"),
        (files.put("/brotli", Page::Encoded("br", vec![1, 2, 3])), "Content-Encoding"),
        (files.put("/broken", Page::Encoded("gzip", vec![1, 2, 3])), "Content-Encoding"),
        (files.put("/paid", Page::Status(402)), "status 402"),
        (files.put("/created", Page::Status(201)), "status 201"),
        (files.put("/away", Page::Redirect("file:///etc/passwd".into())), "only https"),
        (files.put("/login", Page::Redirect("http://a:b@127.0.0.1/".into())), "credentials"),
        (files.put("/html", Page::Bytes(b"<html>MARKER</html>".to_vec())), "not JSON"),
        (files.put("/list", Page::Json(json!([]))), "not a JSON object"),
        (format!("{}/1", files.url), "more than 3 times"),
    ] {
        set_uri(&stage.chain, agent.id, &uri).await;
        let started = Instant::now();
        let answer = stage.check(agent.requirement(agent.wallet, Value::Null)).await;
        assert_eq!(said(&answer), ("not-read", "file"), "{uri}: {answer}");
        assert!(answer["reason"].as_str().unwrap().contains(reason), "{uri}: {answer}");
        assert!(started.elapsed() < Duration::from_secs(8), "{uri}");
        assert!(!answer.to_string().contains("MARKER"));
    }
    // Three are fine, and exactly the limit as well.
    huge.pop();
    for uri in [format!("{}/2", files.url), files.put("/full", Page::Bytes(huge))] {
        set_uri(&stage.chain, agent.id, &uri).await;
        let answer = stage.check(agent.requirement(agent.wallet, Value::Null)).await;
        assert_eq!(said(&answer).0, "verified-wallet", "{uri}: {answer}");
    }
    assert!(!stage.server.log_text().contains("MARKER"));
}

//! What only a resolver of the test's own can show. 127.0.0.2 stands for the world here, 127.0.0.1 for the inside.

use super::*;
use futures::future::BoxFuture;
use quittance_protocol::payee::Cid;
use std::{
    collections::VecDeque,
    io,
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};

const WORLD: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2));
const INSIDE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// Answers from a list, one for each lookup.
#[derive(Debug, Default)]
struct Script {
    answers: Mutex<VecDeque<Vec<IpAddr>>>,
    lookups: AtomicUsize,
}

impl Script {
    fn new(answers: &[&[IpAddr]]) -> Arc<Self> {
        let answers = answers.iter().map(|answer| answer.to_vec()).collect();
        Arc::new(Self { answers: Mutex::new(answers), lookups: AtomicUsize::new(0) })
    }
}

impl Lookup for Script {
    fn lookup(&self, _: String) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> {
        self.lookups.fetch_add(1, Ordering::SeqCst);
        let answer = self.answers.lock().unwrap().pop_front();
        Box::pin(async move { answer.ok_or_else(|| io::ErrorKind::NotFound.into()) })
    }
}

/// A server that counts connections, and answers each with the next text.
#[derive(Clone, Debug)]
struct Host {
    port: u16,
    connections: Arc<AtomicUsize>,
    at_once_max: Arc<AtomicUsize>,
}

async fn host(address: IpAddr, port: u16, answers: &[String], takes: Duration) -> Host {
    let listener = TcpListener::bind((address, port)).await.unwrap();
    let host = Host {
        port: listener.local_addr().unwrap().port(),
        connections: Arc::default(),
        at_once_max: Arc::default(),
    };
    let (shared, answers) = (host.clone(), answers.to_vec());
    let at_once = Arc::new(AtomicUsize::new(0));
    tokio::spawn(async move {
        loop {
            let (mut connection, _) = listener.accept().await.unwrap();
            let nth = shared.connections.fetch_add(1, Ordering::SeqCst);
            let now = at_once.fetch_add(1, Ordering::SeqCst) + 1;
            shared.at_once_max.fetch_max(now, Ordering::SeqCst);
            let answer = answers[nth.min(answers.len() - 1)].clone();
            let at_once = at_once.clone();
            tokio::spawn(async move {
                let _ = connection.read(&mut [0; 4096]).await;
                tokio::time::sleep(takes).await;
                at_once.fetch_sub(1, Ordering::SeqCst);
                let _ = connection.write_all(answer.as_bytes()).await;
            });
        }
    });
    host
}

fn ok() -> String {
    "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}".into()
}

fn moved(to: &str) -> String {
    format!("HTTP/1.1 302 Found\r\nLocation: {to}\r\nContent-Length: 0\r\n\r\n")
}

fn fetcher(script: &Arc<Script>, gateways: &[Url]) -> Fetcher {
    let rules = Rules { any_scheme_and_port: true, may: |address| address == WORLD };
    Fetcher::with_lookup(rules, gateways, script.clone()).unwrap()
}

async fn fetch(fetcher: &Fetcher, url: &str) -> Result<Fetched, FetchError> {
    fetcher.https(url.parse().unwrap(), deadline()).await
}

fn deadline() -> Instant {
    #[allow(clippy::disallowed_methods)] // a test's own time
    let now = Instant::now();
    now + Duration::from_secs(8)
}

#[tokio::test]
async fn what_was_looked_at_is_what_is_connected_to() {
    let world = host(WORLD, 0, &[ok()], Duration::ZERO).await;
    // A second lookup would lead inside; there is none.
    let script = Script::new(&[&[WORLD], &[INSIDE]]);
    let file = fetch(&fetcher(&script, &[]), &format!("http://rebinding.example:{}/", world.port)).await;
    assert_eq!(file.unwrap().bytes, b"{}");
    assert_eq!((script.lookups.load(Ordering::SeqCst), world.connections.load(Ordering::SeqCst)), (1, 1));
}

#[tokio::test]
async fn a_redirect_is_looked_at_anew() {
    let inside = host(INSIDE, 0, &[ok()], Duration::ZERO).await;
    // The same name and port, another answer: what was public a moment ago is not any more.
    let world = host(WORLD, inside.port, &[moved("/again"), ok()], Duration::ZERO).await;
    let url = format!("http://rebinding.example:{}/", world.port);
    let script = Script::new(&[&[WORLD], &[INSIDE]]);
    let refused = fetch(&fetcher(&script, &[]), &url).await;
    assert!(matches!(refused, Err(FetchError::NotPublic)), "{refused:?}");
    assert_eq!(inside.connections.load(Ordering::SeqCst), 0);

    // An address needs no lookup and is looked at all the same.
    let to = [moved(&format!("http://127.0.0.1:{}/", inside.port))];
    let world = host(WORLD, 0, &to, Duration::ZERO).await;
    let script = Script::new(&[&[WORLD]]);
    let refused = fetch(&fetcher(&script, &[]), &format!("http://world.example:{}/", world.port)).await;
    assert!(matches!(refused, Err(FetchError::NotPublic)), "{refused:?}");
    assert_eq!(inside.connections.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn one_private_address_refuses_the_host() {
    let world = host(WORLD, 0, &[ok()], Duration::ZERO).await;
    for answer in [&[WORLD, INSIDE][..], &[INSIDE, WORLD], &[INSIDE]] {
        let script = Script::new(&[answer]);
        let refused = fetch(&fetcher(&script, &[]), &format!("http://mixed.example:{}/", world.port)).await;
        assert!(matches!(refused, Err(FetchError::NotPublic)), "{refused:?}");
    }
    assert_eq!(world.connections.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn a_stranger_does_not_lead_to_the_gateway() {
    let gateway = host(INSIDE, 0, &[ok()], Duration::ZERO).await;
    let url: Url = format!("http://127.0.0.1:{}/", gateway.port).parse().unwrap();
    let world = host(WORLD, 0, &[moved(url.join("admin").unwrap().as_str())], Duration::ZERO).await;
    let fetcher = fetcher(&Script::new(&[&[WORLD]]), &[url]);
    let refused = fetch(&fetcher, &format!("http://world.example:{}/", world.port)).await;
    assert!(matches!(refused, Err(FetchError::NotPublic)), "{refused:?}");
    assert_eq!(gateway.connections.load(Ordering::SeqCst), 0);
    // The operator's own gateway may be inside.
    let cid = Cid::parse("QmT78zSuBmuS4z925WZfrqQ1qHaJ56DQaTfyMUF7F8ff5o").unwrap();
    let file = fetcher.ipfs(&cid, "agent.json", deadline()).await.unwrap();
    assert_eq!((file.bytes.as_slice(), file.source), (&b"{}"[..], FileSource::IpfsGateway));
}

#[tokio::test]
async fn a_gateway_leads_strangers_ways_only() {
    let inside = host(INSIDE, 0, &[ok()], Duration::ZERO).await;
    let to = [moved(&format!("http://127.0.0.1:{}/", inside.port))];
    let gateway = host(INSIDE, 0, &to, Duration::ZERO).await;
    let fetcher =
        fetcher(&Script::new(&[]), &[format!("http://127.0.0.1:{}/", gateway.port).parse().unwrap()]);
    let cid = Cid::parse("QmT78zSuBmuS4z925WZfrqQ1qHaJ56DQaTfyMUF7F8ff5o").unwrap();
    let refused = fetcher.ipfs(&cid, "agent.json", deadline()).await;
    assert!(matches!(refused, Err(FetchError::NotPublic)), "{refused:?}");
    assert_eq!(inside.connections.load(Ordering::SeqCst), 0);
}

/// What its hash proves can be kept for ever, and what a gateway is believed for only as long as any other file.
#[tokio::test]
async fn only_what_is_proven_is_kept_for_ever() {
    let answer = |headers: &str, body: &str| {
        format!("HTTP/1.1 200 OK\r\n{headers}Content-Length: {}\r\n\r\n{body}", body.len())
    };
    let raw = "bafkreifzjut3te2nhyekklss27nh3k72ysco7y32koao5eei66wof36n5e"; // "hello world"
    let dag = "QmT78zSuBmuS4z925WZfrqQ1qHaJ56DQaTfyMUF7F8ff5o";
    for (cid, headers, source, keep) in [
        (raw, "", FileSource::Ipfs, None),
        (raw, "Cache-Control: no-store\r\n", FileSource::Ipfs, None),
        (dag, "", FileSource::IpfsGateway, Some(60)),
        (dag, "Cache-Control: public, max-age=29030400, immutable\r\n", FileSource::IpfsGateway, Some(60)),
        (dag, "Cache-Control: no-store\r\n", FileSource::IpfsGateway, Some(0)),
    ] {
        let gateway = host(INSIDE, 0, &[answer(headers, "hello world")], Duration::ZERO).await;
        let url = format!("http://127.0.0.1:{}/", gateway.port).parse().unwrap();
        let fetcher = fetcher(&Script::new(&[]), &[url]);
        let file = fetcher.ipfs(&Cid::parse(cid).unwrap(), "", deadline()).await.unwrap();
        assert_eq!((file.source, file.keep.map(|keep| keep.as_secs())), (source, keep), "{headers}");
    }
}

#[tokio::test]
async fn two_at_a_time_to_one_host() {
    let world = host(WORLD, 0, &[ok()], Duration::from_millis(100)).await;
    let script = Script::new(&[[WORLD].as_slice(); 6]);
    let fetcher = fetcher(&script, &[]);
    let url = format!("http://world.example:{}/", world.port);
    let files = futures::future::join_all((0..6).map(|_| fetch(&fetcher, &url))).await;
    assert!(files.iter().all(Result::is_ok), "{files:?}");
    assert_eq!(world.at_once_max.load(Ordering::SeqCst), 2);
}

#[test]
fn a_server_says_how_long_less_than_a_minute() {
    let of = |values: &[&'static str]| {
        let mut headers = reqwest::header::HeaderMap::new();
        for value in values {
            headers.append(CACHE_CONTROL, reqwest::header::HeaderValue::from_static(value));
        }
        keep(&headers).as_secs()
    };
    assert_eq!((of(&[]), of(&["public, max-age=3600"]), of(&["max-age=7"])), (60, 60, 7));
    assert_eq!((of(&["private, No-Store"]), of(&["max-age=7", "no-cache"]), of(&["max-age=x"])), (0, 0, 60));
}

//! A web server that gives registration files, and answers that are none.

use axum::{
    Router,
    body::{Body, Bytes},
    extract::State,
    http::{HeaderMap, Response, Uri, header},
};
use serde_json::Value;
use std::{
    collections::HashMap,
    net::SocketAddr,
    sync::{Arc, Mutex},
    time::Duration,
};
use tokio::sync::watch;

/// What stands under a path.
#[derive(Clone, Debug)]
pub(crate) enum Page {
    Json(Value),
    Bytes(Vec<u8>),
    /// With this Content-Encoding.
    Encoded(&'static str, Vec<u8>),
    Status(u16),
    Redirect(String),
    /// Headers at once, then a byte a second.
    Slow,
    /// More than anybody wants.
    Endless,
    /// Not to be kept.
    NoStore(Value),
    /// Nothing until [`Files::release`].
    Held(Value),
}

/// How long a test waits for a request.
const WAIT_DEADLINE: Duration = Duration::from_secs(30);

#[derive(Debug, Default)]
struct Shelf {
    pages: HashMap<String, Page>,
    hits: HashMap<String, usize>,
    hosts: Vec<String>,
    /// Tells waiters that something was asked for.
    asked: watch::Sender<()>,
    /// Lets answers go that are held.
    released: watch::Sender<()>,
}

/// The server; ends with the test's runtime.
#[derive(Clone, Debug)]
pub(crate) struct Files {
    pub(crate) url: String,
    pub(crate) address: SocketAddr,
    shelf: Arc<Mutex<Shelf>>,
}

impl Files {
    pub(crate) async fn start() -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let url = format!("http://{address}");
        let shelf = Arc::<Mutex<Shelf>>::default();
        let router = Router::new().fallback(give).with_state(shelf.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        Self { url, address, shelf }
    }

    /// Puts a page there and says where.
    pub(crate) fn put(&self, path: &str, page: Page) -> String {
        self.shelf.lock().unwrap().pages.insert(path.to_owned(), page);
        format!("{}{path}", self.url)
    }

    pub(crate) fn hits(&self, path: &str) -> usize {
        self.shelf.lock().unwrap().hits.get(path).copied().unwrap_or_default()
    }

    /// Waits until a page has been asked for so often.
    pub(crate) async fn wait_for(&self, path: &str, hits: usize) {
        let mut asked = self.shelf.lock().unwrap().asked.subscribe();
        let reached = asked.wait_for(|()| self.hits(path) >= hits);
        tokio::time::timeout(WAIT_DEADLINE, reached).await.expect("nobody asked for the page").unwrap();
    }

    /// Gives the answers that are held now.
    pub(crate) fn release(&self) {
        self.shelf.lock().unwrap().released.send_replace(());
    }

    /// The hosts that requests named, in order.
    pub(crate) fn hosts(&self) -> Vec<String> {
        self.shelf.lock().unwrap().hosts.clone()
    }

    pub(crate) fn all_hits(&self) -> usize {
        self.shelf.lock().unwrap().hits.values().sum()
    }
}

async fn give(State(shelf): State<Arc<Mutex<Shelf>>>, uri: Uri, headers: HeaderMap) -> Response<Body> {
    let path = uri.path_and_query().unwrap().as_str().to_owned();
    let (page, mut released) = {
        let mut shelf = shelf.lock().unwrap();
        shelf.hosts.extend(headers.get(header::HOST).map(|host| host.to_str().unwrap().to_owned()));
        *shelf.hits.entry(path.clone()).or_default() += 1;
        let page = shelf.pages.get(&path).cloned();
        let (asked, released) = (shelf.asked.clone(), shelf.released.subscribe());
        drop(shelf);
        asked.send_replace(());
        (page, released)
    };
    let answer = Response::builder();
    match page {
        Some(Page::Json(file)) => answer.body(Body::from(file.to_string())),
        Some(Page::Held(file)) => {
            released.changed().await.unwrap();
            answer.body(Body::from(file.to_string()))
        }
        Some(Page::NoStore(file)) => {
            answer.header(header::CACHE_CONTROL, "private, no-store").body(Body::from(file.to_string()))
        }
        Some(Page::Bytes(bytes)) if path.ends_with("format=raw") => {
            answer.header(header::CONTENT_TYPE, "application/vnd.ipld.raw").body(Body::from(bytes))
        }
        Some(Page::Bytes(bytes)) => answer.body(Body::from(bytes)),
        Some(Page::Encoded(encoding, bytes)) => {
            answer.header(header::CONTENT_ENCODING, encoding).body(Body::from(bytes))
        }
        Some(Page::Status(status)) => answer.status(status).body(Body::from("not a file")),
        Some(Page::Redirect(to)) => answer.status(302).header(header::LOCATION, to).body(Body::empty()),
        Some(Page::Slow) => answer.body(chunks(Duration::from_secs(1), b" ")),
        Some(Page::Endless) => answer.body(chunks(Duration::ZERO, &[b' '; 65_536])),
        None => answer.status(404).body(Body::empty()),
    }
    .unwrap()
}

fn chunks(pause: Duration, chunk: &'static [u8]) -> Body {
    Body::from_stream(futures::stream::unfold((), move |()| async move {
        tokio::time::sleep(pause).await;
        Some((Ok::<_, std::io::Error>(Bytes::from_static(chunk)), ()))
    }))
}

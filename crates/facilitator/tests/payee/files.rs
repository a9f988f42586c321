//! A web server that gives registration files, and answers that are none.

use axum::{
    Router,
    body::{Body, Bytes},
    extract::State,
    http::{Response, Uri, header},
};
use serde_json::Value;
use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::Duration,
};

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
}

#[derive(Debug, Default)]
struct Shelf {
    pages: HashMap<String, Page>,
    hits: HashMap<String, usize>,
}

/// The server; ends with the test's runtime.
#[derive(Clone, Debug)]
pub(crate) struct Files {
    pub(crate) url: String,
    shelf: Arc<Mutex<Shelf>>,
}

impl Files {
    pub(crate) async fn start() -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let shelf = Arc::<Mutex<Shelf>>::default();
        let router = Router::new().fallback(give).with_state(shelf.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        Self { url, shelf }
    }

    /// Puts a page there and says where.
    pub(crate) fn put(&self, path: &str, page: Page) -> String {
        self.shelf.lock().unwrap().pages.insert(path.to_owned(), page);
        format!("{}{path}", self.url)
    }

    pub(crate) fn hits(&self, path: &str) -> usize {
        self.shelf.lock().unwrap().hits.get(path).copied().unwrap_or_default()
    }

    pub(crate) fn all_hits(&self) -> usize {
        self.shelf.lock().unwrap().hits.values().sum()
    }
}

async fn give(State(shelf): State<Arc<Mutex<Shelf>>>, uri: Uri) -> Response<Body> {
    let path = uri.path_and_query().unwrap().as_str().to_owned();
    let page = {
        let mut shelf = shelf.lock().unwrap();
        *shelf.hits.entry(path.clone()).or_default() += 1;
        shelf.pages.get(&path).cloned()
    };
    let answer = Response::builder();
    match page {
        Some(Page::Json(file)) => answer.body(Body::from(file.to_string())),
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

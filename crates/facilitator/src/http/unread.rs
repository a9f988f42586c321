//! A request whose body nobody read to its end ends its connection. The answer has to say so: a caller that keeps the
//! connection would send its next request into the closing.

use axum::{
    body::{Body, Bytes},
    http::{HeaderValue, Request, Response, header},
    middleware::Next,
};
use http_body::{Body as _, Frame, SizeHint};
use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, ready},
};

/// `Connection: close` on answers to requests that were not read.
pub(super) async fn closes(request: Request<Body>, next: Next) -> Response<Body> {
    let (parts, body) = request.into_parts();
    let read = Arc::new(AtomicBool::new(body.is_end_stream()));
    let body = Body::new(Watched { body, read: read.clone() });
    let mut response = next.run(Request::from_parts(parts, body)).await;
    if !read.load(Ordering::Relaxed) {
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

/// A body that tells whether it was read to its end.
struct Watched {
    body: Body,
    read: Arc<AtomicBool>,
}

impl http_body::Body for Watched {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(cx));
        if frame.is_none() || self.body.is_end_stream() {
            self.read.store(true, Ordering::Relaxed);
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

//! How far a request has come, told to the connection's seat. One whose body nobody read to its end ends its connection, and
//! the answer has to say so: a caller that keeps the connection would send its next request into the closing.

use super::seats::Seat;
use axum::{
    Extension,
    body::{Body, Bytes},
    http::{HeaderValue, Request, Response, header},
    middleware::Next,
};
use http_body::{Body as _, Frame, SizeHint};
use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

/// `Connection: close` on answers to requests that were not read.
pub(super) async fn closes(
    Extension(seat): Extension<Arc<Seat>>,
    request: Request<Body>,
    next: Next,
) -> Response<Body> {
    let (parts, body) = request.into_parts();
    seat.head_read();
    if body.is_end_stream() {
        seat.request_read();
    }
    let body = Body::new(Watched { body, seat: seat.clone() });
    let mut response = next.run(Request::from_parts(parts, body)).await;
    if !seat.answered() {
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

/// A body that tells when it was read to its end.
struct Watched {
    body: Body,
    seat: Arc<Seat>,
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
            self.seat.request_read();
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

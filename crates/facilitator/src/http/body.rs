//! The request's body, and the answer's body that knows whether it was written.

use super::shape::TransportFault;
use crate::answer::{Arrival, Outbox};
use axum::{
    body::{Body, Bytes},
    http::{HeaderMap, header},
};
use http_body::{Frame, SizeHint};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use serde_json::Value;
use std::{
    convert::Infallible,
    pin::Pin,
    task::{Context, Poll},
};

/// Reads a JSON body of at most `bytes_max` bytes. Nesting is bounded by the JSON reader (128 levels).
pub(crate) async fn read_json(
    headers: &HeaderMap,
    body: Body,
    bytes_max: usize,
) -> Result<Value, TransportFault> {
    if !is_json(headers) {
        return Err(TransportFault::WRONG_CONTENT_TYPE);
    }
    let announced = headers.get(header::CONTENT_LENGTH).and_then(|v| v.to_str().ok()?.parse::<usize>().ok());
    if announced.is_some_and(|length| length > bytes_max) {
        return Err(TransportFault::TOO_LARGE);
    }
    let bytes = match Limited::new(body, bytes_max).collect().await {
        Ok(collected) => collected.to_bytes(),
        Err(error) if error.is::<LengthLimitError>() => return Err(TransportFault::TOO_LARGE),
        Err(_) => return Err(TransportFault::BROKEN_BODY),
    };
    serde_json::from_slice(&bytes).map_err(|_| TransportFault::NOT_JSON)
}

/// `application/json` or `application/*+json`, with any parameters.
fn is_json(headers: &HeaderMap) -> bool {
    let Some(value) = headers.get(header::CONTENT_TYPE).and_then(|v| v.to_str().ok()) else { return false };
    let essence = value.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    essence == "application/json" || (essence.starts_with("application/") && essence.ends_with("+json"))
}

/// One chunk, and the delivery that begins when the connection takes it.
pub(crate) struct DeliveredBody {
    bytes: Option<Bytes>,
    arrival: Option<Box<dyn Arrival>>,
    outbox: Outbox,
}

impl DeliveredBody {
    pub(crate) fn new(bytes: Bytes, arrival: Box<dyn Arrival>, outbox: Outbox) -> Self {
        Self { bytes: Some(bytes), arrival: Some(arrival), outbox }
    }
}

impl http_body::Body for DeliveredBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let Some(bytes) = self.bytes.take() else { return Poll::Ready(None) };
        if let Some(arrival) = self.arrival.take() {
            self.outbox.push(arrival);
        }
        Poll::Ready(Some(Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        self.bytes.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        let length = self.bytes.as_ref().map_or(0, Bytes::len);
        SizeHint::with_exact(u64::try_from(length).unwrap_or(u64::MAX))
    }
}

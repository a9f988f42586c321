//! The request's body, and the answer's body that knows whether it was written.

use super::{
    App, guard,
    places::Place,
    shape::{Endpoint, TransportFault},
};
use crate::{
    answer::{Arrival, Outbox},
    fault::Fault,
};
use axum::{
    body::{Body, Bytes},
    extract::FromRequest,
    http::{HeaderMap, Request, Response, header},
};
use http_body::{Frame, SizeHint};
use http_body_util::BodyExt;
use quittance_protocol::wire::{Echo, Json};
use std::{
    convert::Infallible,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::{Instant, sleep},
};

/// Longest time for a body to come. Honest bodies are a few packets.
const BODY_TIME: Duration = Duration::from_secs(10);
/// What is left of that when the process is to stop: a request that has not come is not in flight, and its caller can ask again.
const STOPPING: Duration = Duration::from_secs(1);
/// Bytes of a body that need no room: every connection may have them, and payments are smaller.
const SMALL_BYTES_MAX: usize = 16 * 1024;
/// Bytes of all larger bodies together, beyond the small part of each; a single body of the largest size always fits.
const LARGE_BYTES_MAX: usize = 32 * 1024 * 1024;

/// Room in memory for large bodies. It is taken for what has come, not for what is announced, and kept until the request is
/// answered, since parsed JSON is larger still.
#[derive(Clone, Debug)]
pub(crate) struct BodyRoom(Arc<Semaphore>);

impl BodyRoom {
    pub(super) fn new(body_bytes_max: usize) -> Self {
        Self(Arc::new(Semaphore::new(body_bytes_max.clamp(LARGE_BYTES_MAX, Semaphore::MAX_PERMITS))))
    }

    /// `None`: there is no room for so many bytes more.
    fn take(&self, bytes: usize) -> Option<OwnedSemaphorePermit> {
        self.0.clone().try_acquire_many_owned(u32::try_from(bytes).ok()?).ok()
    }
}

/// A request that has come as a whole and has a place. Only then does it cost the others anything.
#[derive(Debug)]
pub(super) struct Received {
    pub(super) headers: HeaderMap,
    pub(super) json: Json,
    pub(super) place: Place,
    /// When its head had come.
    pub(super) started: Instant,
    _room: Option<OwnedSemaphorePermit>,
}

impl FromRequest<App> for Received {
    type Rejection = Response<Body>;

    async fn from_request(request: Request<Body>, app: &App) -> Result<Self, Response<Body>> {
        #[allow(clippy::disallowed_methods)] // the edge where a request's time begins
        let started = Instant::now();
        let endpoint = Endpoint::of_path(request.uri().path());
        Self::receive(request, app, started).await.map_err(|not_received| match not_received {
            NotReceived::Theirs(fault) => guard::transport_fault_with(fault, endpoint, &Echo::default()),
            NotReceived::Ours(fault) => guard::fault(&fault, endpoint, &Echo::default()),
        })
    }
}

enum NotReceived {
    Theirs(TransportFault),
    Ours(Fault),
}

impl From<TransportFault> for NotReceived {
    fn from(fault: TransportFault) -> Self {
        Self::Theirs(fault)
    }
}

impl Received {
    async fn receive(request: Request<Body>, app: &App, started: Instant) -> Result<Self, NotReceived> {
        let (parts, body) = request.into_parts();
        check_head(&parts.headers, app.body_bytes_max)?;
        let (bytes, room) = tokio::select! {
            read = read(body, app) => read?,
            () = sleep(BODY_TIME.min(app.request_timeout)) => return Err(TransportFault::SLOW_BODY.into()),
            () = app.facilitator.stopping_for(STOPPING) => return Err(NotReceived::Ours(Fault::Stopping)),
        };
        let place = app.places.take().ok_or(NotReceived::Ours(Fault::Busy))?;
        let json = Json::read(&bytes).ok_or(TransportFault::NOT_JSON)?;
        Ok(Self { headers: parts.headers, json, place, started, _room: room })
    }
}

/// What the head says about the body.
fn check_head(headers: &HeaderMap, bytes_max: usize) -> Result<(), TransportFault> {
    if !is_json(headers) {
        return Err(TransportFault::WRONG_CONTENT_TYPE);
    }
    if !is_utf8(headers) {
        return Err(TransportFault::WRONG_CHARSET);
    }
    if !is_uncompressed(headers) {
        return Err(TransportFault::WRONG_CONTENT_ENCODING);
    }
    let announced = headers.get(header::CONTENT_LENGTH).and_then(|v| v.to_str().ok()?.parse::<usize>().ok());
    match announced {
        Some(length) if length > bytes_max => Err(TransportFault::TOO_LARGE),
        _ => Ok(()),
    }
}

/// Copies what comes: kept chunks of a few bytes would hold far more memory than they have bytes.
async fn read(mut body: Body, app: &App) -> Result<(Vec<u8>, Option<OwnedSemaphorePermit>), NotReceived> {
    let (mut bytes, mut room) = (Vec::new(), None::<OwnedSemaphorePermit>);
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.map_err(|_| TransportFault::BROKEN_BODY)?.into_data() else { continue };
        let length = bytes.len() + data.len();
        if length > app.body_bytes_max {
            return Err(TransportFault::TOO_LARGE.into());
        }
        let taken = room.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
        let more = length.saturating_sub(SMALL_BYTES_MAX + taken);
        if more > 0 {
            let more = app.body_room.take(more).ok_or(NotReceived::Ours(Fault::Busy))?;
            match &mut room {
                Some(room) => room.merge(more),
                None => room = Some(more),
            }
        }
        bytes.extend_from_slice(&data);
    }
    Ok((bytes, room))
}

fn content_type(headers: &HeaderMap) -> Option<&str> {
    headers.get(header::CONTENT_TYPE)?.to_str().ok()
}

/// `application/json` or `application/*+json`, with any parameters.
fn is_json(headers: &HeaderMap) -> bool {
    let essence = content_type(headers).unwrap_or_default().split(';').next().unwrap_or_default();
    let essence = essence.trim().to_ascii_lowercase();
    essence == "application/json" || (essence.starts_with("application/") && essence.ends_with("+json"))
}

/// JSON is UTF-8, and a parameter that says so says nothing new. One that says otherwise may be right: then the text would be
/// read as another one.
fn is_utf8(headers: &HeaderMap) -> bool {
    let parameters = content_type(headers).unwrap_or_default().split(';').skip(1);
    parameters.filter_map(|parameter| parameter.split_once('=')).all(|(name, value)| {
        let value = value.trim().trim_matches('"');
        !name.trim().eq_ignore_ascii_case("charset")
            || value.eq_ignore_ascii_case("utf-8")
            || value.eq_ignore_ascii_case("utf8")
    })
}

/// Nothing is unpacked: a payment is small, and what it unpacks to need not be.
fn is_uncompressed(headers: &HeaderMap) -> bool {
    let codings = headers.get_all(header::CONTENT_ENCODING).iter();
    codings.flat_map(|value| value.as_bytes().split(|byte| *byte == b',')).all(|coding| {
        let coding = coding.trim_ascii();
        coding.is_empty() || coding.eq_ignore_ascii_case(b"identity")
    })
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

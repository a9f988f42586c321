//! What stands before every handler: keys, a place among the requests in flight, and answers in full shape.

use super::{
    App,
    shape::{self, Endpoint, RETRY_AFTER_SECONDS, Said, TransportFault},
};
use crate::{fault::Fault, metrics};
use axum::{
    body::Body,
    extract::State,
    http::{HeaderMap, HeaderValue, Request, Response, StatusCode, header},
    middleware::Next,
};
use quittance_protocol::wire::Echo;
use std::{any::Any, time::Duration};
use subtle::ConstantTimeEq;
use tokio::time::Instant;

/// How long a process that is to stop goes on with a request; connections are cut some seconds later.
const STOPPING: Duration = Duration::from_secs(6);

/// A fault of the request itself.
pub(super) fn transport_fault(fault: TransportFault, path: &str) -> Response<Body> {
    transport_fault_with(fault, Endpoint::of_path(path), &Echo::default())
}

pub(super) fn transport_fault_with(fault: TransportFault, endpoint: Endpoint, echo: &Echo) -> Response<Body> {
    let code = fault.code(endpoint);
    let mut response = shape::answer(fault.status, Some(code), fault.body(endpoint, echo));
    if fault.status == StatusCode::UNAUTHORIZED {
        response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    response
}

/// An outage of ours: 503, `Retry-After`, full shape.
pub(super) fn fault(fault: &Fault, endpoint: Endpoint, echo: &Echo) -> Response<Body> {
    // Logged once, here. Faults name no URL, key or payload.
    tracing::warn!(?endpoint, network = %echo.network.escape_default(), %fault, "no decision");
    let (status, code) = (StatusCode::SERVICE_UNAVAILABLE, endpoint.unexpected());
    let mut response = shape::answer(status, Some(code), endpoint.fault(fault, echo));
    response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static(RETRY_AFTER_SECONDS));
    response
}

/// `Authorization: Bearer KEY`, compared in constant time with each accepted key.
pub(super) async fn authorized(State(app): State<App>, request: Request<Body>, next: Next) -> Response<Body> {
    if app.api_keys.is_empty() {
        return next.run(request).await;
    }
    let key = bearer_key(request.headers()).unwrap_or_default();
    // No early exit: the number of keys is no secret, which of them almost matched is.
    let known = app
        .api_keys
        .iter()
        .fold(subtle::Choice::from(0), |known, accepted| known | accepted.expose().as_bytes().ct_eq(key));
    if bool::from(known) {
        return next.run(request).await;
    }
    transport_fault(TransportFault::UNAUTHORIZED, request.uri().path())
}

/// What stands behind `Bearer`, in any spelling of that.
pub(crate) fn bearer_key(headers: &HeaderMap) -> Option<&[u8]> {
    let (scheme, key) = headers.get(header::AUTHORIZATION)?.as_bytes().split_at_checked(7)?;
    scheme.eq_ignore_ascii_case(b"bearer ").then_some(key)
}

/// Refuses what would only queue.
pub(super) async fn place(State(app): State<App>, request: Request<Body>, next: Next) -> Response<Body> {
    let Some(_place) = app.places.take() else {
        return fault(&Fault::Busy, Endpoint::of_path(request.uri().path()), &Echo::default());
    };
    next.run(request).await
}

/// An answer within `server.request_timeout_ms` of the request's beginning, or what stands in for it; sooner when the process
/// is to stop.
pub(super) async fn in_time(
    app: &App,
    started: Instant,
    answer: impl Future<Output = Response<Body>>,
) -> Result<Response<Body>, Fault> {
    tokio::select! {
        answer = answer => Ok(answer),
        () = tokio::time::sleep_until(started + app.request_timeout) => Err(Fault::Timeout),
        () = app.facilitator.stopping_for(STOPPING) => Err(Fault::Stopping),
    }
}

/// Counts and times every answer.
pub(super) async fn measured(request: Request<Body>, next: Next) -> Response<Body> {
    let endpoint = Endpoint::of_path(request.uri().path()).name();
    #[allow(clippy::disallowed_methods)] // the edge where an answer is timed
    let started = Instant::now();
    let response = next.run(request).await;
    let code = response.extensions().get::<Said>().map_or(metrics::NO_CODE, |said| said.0.as_str());
    metrics::answered(endpoint, response.status().as_u16(), code, started.elapsed());
    response
}

/// A bug of ours decides nothing about a payment. The panic's text may hold anything and is not shown.
pub(super) fn panicked(_: Box<dyn Any + Send + 'static>) -> Response<Body> {
    fault(&Fault::Internal, Endpoint::Other, &Echo::default())
}

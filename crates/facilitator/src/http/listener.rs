//! Accepting connections, and ending them in order.

use super::connection::Connection;
use crate::answer::Outbox;
use axum::{Router, body::Body, http::Request};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    server::graceful::GracefulShutdown,
};
use std::{sync::Arc, time::Duration};
use tokio::{net::TcpListener, sync::Semaphore};
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

/// Open connections.
const CONNECTIONS_MAX: usize = 4096;
/// Longest time for a request's header, and for the next request on a kept connection.
const HEADER_TIMEOUT: Duration = Duration::from_secs(30);
/// Largest request header, all fields together.
const HEADER_BYTES_MAX: usize = 32 * 1024;
/// Longest time for connections to end once the process is to stop.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(10);

/// Serves until `stopping`, then lets what is in flight finish.
pub(crate) async fn serve(listener: TcpListener, router: Router, stopping: CancellationToken) {
    let graceful = GracefulShutdown::new();
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let accepted = tokio::select! {
            () = stopping.cancelled() => break,
            accepted = accept(&listener, &places) => accepted,
        };
        let Some((stream, place)) = accepted else { continue };
        let outbox = Outbox::default();
        let service = {
            let (router, outbox) = (router.clone(), outbox.clone());
            service_fn(move |mut request: Request<Incoming>| {
                request.extensions_mut().insert(outbox.clone());
                router.clone().oneshot(request.map(Body::new))
            })
        };
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEADER_TIMEOUT)
            .max_buf_size(HEADER_BYTES_MAX)
            .serve_connection(TokioIo::new(Connection::new(stream, outbox)), service);
        let connection = graceful.watch(connection);
        tokio::spawn(async move {
            let _place = place;
            // A broken connection is the caller's affair; what it asked for goes on.
            let _ = connection.await;
        });
    }
    drop(listener);
    let _ = tokio::time::timeout(DRAIN_TIMEOUT, graceful.shutdown()).await;
}

async fn accept(
    listener: &TcpListener,
    places: &Arc<Semaphore>,
) -> Option<(tokio::net::TcpStream, tokio::sync::OwnedSemaphorePermit)> {
    let place = places.clone().acquire_owned().await.ok()?;
    match listener.accept().await {
        Ok((stream, _)) => {
            let _ = stream.set_nodelay(true);
            Some((stream, place))
        }
        Err(_) => {
            // Out of file descriptors, most likely: give the machine a moment instead of spinning.
            tokio::time::sleep(Duration::from_millis(50)).await;
            None
        }
    }
}

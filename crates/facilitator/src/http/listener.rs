//! Accepting connections, and ending them in order.

use super::{
    connection::Connection,
    seats::{Seat, Seats},
};
use crate::answer::Outbox;
use axum::{Router, body::Body, http::Request};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    server::graceful::GracefulShutdown,
};
use std::{sync::Arc, time::Duration};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

/// Longest time between two requests on a kept connection. Longer than load balancers and most clients keep theirs (60 s), so
/// that they and not we end it: who sends into an ending loses the request.
const KEPT_TIME: Duration = Duration::from_secs(75);
/// Largest request header, all fields together.
const HEADER_BYTES_MAX: usize = 32 * 1024;
/// Longest time for connections to end once the process is to stop: what is answered last still has a moment to be read, and
/// the end comes before the ten seconds after which containers are killed.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(8);

/// Serves until `stopping`, then lets what is in flight finish.
pub(crate) async fn serve(
    listener: TcpListener,
    router: Router,
    connections_max: usize,
    stopping: CancellationToken,
) {
    let graceful = GracefulShutdown::new();
    let seats = Seats::new(connections_max);
    loop {
        let accepted = tokio::select! {
            () = stopping.cancelled() => break,
            accepted = accept(&listener, &seats) => accepted,
        };
        let Some((stream, seat)) = accepted else { continue };
        let (seat, outbox) = (Arc::new(seat), Outbox::default());
        let service = {
            let (router, seat, outbox) = (router.clone(), seat.clone(), outbox.clone());
            service_fn(move |mut request: Request<Incoming>| {
                request.extensions_mut().insert(outbox.clone());
                request.extensions_mut().insert(seat.clone());
                router.clone().oneshot(request.map(Body::new))
            })
        };
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(KEPT_TIME)
            .max_buf_size(HEADER_BYTES_MAX)
            .serve_connection(
                TokioIo::new(Connection::new(stream, outbox, seat.clone(), stopping.clone())),
                service,
            );
        let connection = graceful.watch(connection);
        tokio::spawn(async move {
            // A broken connection is the caller's affair; what it asked for goes on.
            tokio::select! {
                _ = connection => {}
                () = seat.given_away() => {}
            }
        });
    }
    drop(listener);
    let _ = tokio::time::timeout(DRAIN_TIMEOUT, graceful.shutdown()).await;
}

async fn accept(listener: &TcpListener, seats: &Arc<Seats>) -> Option<(TcpStream, Seat)> {
    match listener.accept().await {
        Ok((stream, _)) => {
            let _ = stream.set_nodelay(true);
            Some((stream, seats.take().await))
        }
        Err(_) => {
            // Out of file descriptors, most likely: make room, and give the machine a moment instead of spinning.
            seats.give_away();
            tokio::time::sleep(Duration::from_millis(50)).await;
            None
        }
    }
}

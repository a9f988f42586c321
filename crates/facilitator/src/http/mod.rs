//! The HTTP surface: routes, and what surrounds every one of them.

mod body;
mod connection;
pub(crate) mod guard;
mod health;
mod listener;
mod payee;
mod payments;
mod places;
mod seats;
mod settlements;
pub(crate) mod shape;
mod supported;
mod unread;

pub(crate) use listener::serve;

use crate::{
    config::{Secret, ServerSettings},
    facilitator::Facilitator,
};
use axum::{
    Router,
    body::Body,
    extract::State,
    http::{HeaderName, HeaderValue, Method, Request, Response, StatusCode, Uri, header},
    middleware,
    response::IntoResponse,
    routing::{get, post},
};
use body::BodyRoom;
use places::Places;
use shape::TransportFault;
use std::{sync::Arc, time::Duration};
use tower::{ServiceBuilder, ServiceExt, util::MapRequestLayer};
use tower_http::{
    catch_panic::CatchPanicLayer,
    cors::{AllowHeaders, AllowOrigin, CorsLayer},
};

/// What handlers share.
#[derive(Clone, Debug)]
pub(crate) struct App {
    pub(crate) facilitator: Arc<Facilitator>,
    pub(crate) body_bytes_max: usize,
    pub(crate) request_timeout: Duration,
    pub(crate) api_keys: Arc<Vec<Secret>>,
    pub(crate) places: Places,
    pub(crate) body_room: BodyRoom,
}

/// The public listener's routes.
pub(crate) fn router(facilitator: Arc<Facilitator>, server: &ServerSettings) -> Router {
    let app = App {
        facilitator,
        body_bytes_max: server.body_bytes_max,
        request_timeout: server.request_timeout,
        api_keys: Arc::new(server.api_keys.clone()),
        places: Places::default(),
        body_room: BodyRoom::new(server.body_bytes_max),
    };
    // What has a body takes its place when that has come (`body::Received`).
    let place = middleware::from_fn_with_state(app.clone(), guard::place);
    let guarded = Router::new()
        .route("/verify", post(payments::verify))
        .route("/settle", post(payments::settle))
        .route("/payee", post(payee::payee))
        .route("/supported", get(supported::supported).route_layer(place.clone()))
        .route("/settlements", get(settlements::list).route_layer(place.clone()))
        .route("/settlements/{id}", get(settlements::one).route_layer(place))
        .method_not_allowed_fallback(wrong_method)
        .layer(middleware::from_fn_with_state(app.clone(), guard::authorized))
        .layer(middleware::from_fn(guard::measured));
    let open = Router::new()
        .route("/healthz", get(health::healthz))
        .route("/readyz", get(health::readyz))
        .method_not_allowed_fallback(wrong_method);
    let routes = guarded
        .merge(open)
        .fallback(not_found)
        .with_state(app)
        .layer(CatchPanicLayer::custom(guard::panicked));
    // Outside the router, so that it sees the path as it will be matched.
    let outer = ServiceBuilder::new()
        .layer(middleware::from_fn(unread::closes))
        .layer(MapRequestLayer::new(normalise_path))
        .service(with_cors(routes, &server.cors_origins));
    Router::new().fallback_service(outer)
}

async fn wrong_method(request: Request<Body>) -> Response<Body> {
    guard::transport_fault(TransportFault::WRONG_METHOD, request.uri().path())
}

async fn not_found() -> Response<Body> {
    (StatusCode::NOT_FOUND, axum::Json(serde_json::json!({ "error": "not_found" }))).into_response()
}

/// `//verify` and `/verify/` are `/verify`: Go clients keep a base URL's trailing slash, and a redirected POST is lost.
fn normalise_path(mut request: Request<Body>) -> Request<Body> {
    let path = request.uri().path();
    let trimmed = format!("/{}", path.trim_matches('/'));
    if trimmed != path {
        let target = match request.uri().query() {
            Some(query) => format!("{trimmed}?{query}"),
            None => trimmed,
        };
        if let Ok(uri) = target.parse::<Uri>() {
            *request.uri_mut() = uri;
        }
    }
    request
}

/// Closed by default. An allowed origin may send any header: clients ask for more than they need.
fn with_cors(routes: Router, origins: &[HeaderValue]) -> Router {
    if origins.is_empty() {
        return routes;
    }
    let cors = CorsLayer::new()
        .allow_origin(AllowOrigin::list(origins.iter().cloned()))
        .allow_methods([Method::GET, Method::POST])
        .allow_headers(AllowHeaders::mirror_request())
        .expose_headers([
            header::RETRY_AFTER,
            HeaderName::from_static("extension-responses"),
            shape::IDEMPOTENCY_REPLAYED,
        ]);
    let preflights = middleware::from_fn_with_state(routes.clone(), preflights);
    routes.layer(cors).layer(preflights)
}

/// The CORS layer takes every `OPTIONS` for a preflight. One that is none goes past it, and a preflight's answer has no body.
async fn preflights(
    State(routes): State<Router>,
    request: Request<Body>,
    next: middleware::Next,
) -> Response<Body> {
    if request.method() != Method::OPTIONS {
        return next.run(request).await;
    }
    let of_a_preflight = [header::ORIGIN, header::ACCESS_CONTROL_REQUEST_METHOD];
    if !of_a_preflight.iter().all(|name| request.headers().contains_key(name)) {
        return routes.oneshot(request).await.into_response();
    }
    let mut response = next.run(request).await;
    *response.status_mut() = StatusCode::NO_CONTENT;
    response
}

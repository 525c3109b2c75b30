//! As much of Google Pub/Sub as tests need, in memory: topics and subscriptions by HTTP and
//! JSON, messages by gRPC, leases, waits before redelivery, and counts of deliveries. Where `PUBSUB_EMULATOR_HOST` names
//! a server, that is asked in its place. It promises nothing about speed or safety.
#![forbid(unsafe_code)]

mod proto;
mod rest;
mod state;

use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use anyhow::Result;
use axum::Router;
use axum::extract::State as With;
use axum::http::{Request, Response};
use axum::routing::{get, post};
use futures_util::Stream;
use tonic::Status;
use tonic_prost::ProstCodec;
use tower::service_fn;

use proto::{Acknowledge, Empty, ModifyAckDeadline, Publish, Published, Pulled, StreamingPull};
use state::{State, StreamId};

/// The variable that names another server to use in its place, as Google's own clients read it.
const EMULATOR_HOST: &str = "PUBSUB_EMULATOR_HOST";

/// Host and port of the server that all tests of this process share: the one that `PUBSUB_EMULATOR_HOST` names, else
/// this one.
///
/// # Panics
/// When it cannot be started.
pub fn host() -> String {
    static HOST: OnceLock<String> = OnceLock::new();
    let start = || launch().expect("the emulator of Pub/Sub must start").to_string();
    let named = hyperfleet_service::settings::environment().remove(EMULATOR_HOST);
    HOST.get_or_init(|| named.filter(|host| !host.is_empty()).unwrap_or_else(start)).clone()
}

/// Serves on a port of its own until the process ends, on a thread of its own: a test's runtime ends with the test.
fn launch() -> Result<SocketAddr> {
    let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
    listener.set_nonblocking(true)?;
    let address = listener.local_addr()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    std::thread::Builder::new().name("pubsub".to_owned()).spawn(move || runtime.block_on(serve(listener)))?;
    Ok(address)
}

/// Serves on a listener for ever.
async fn serve(listener: std::net::TcpListener) -> Result<()> {
    let listener = tokio::net::TcpListener::from_std(listener)?;
    let incoming = futures_util::stream::unfold(listener, async |listener| {
        let connection = listener.accept().await.map(|(connection, _)| connection);
        Some((connection, listener))
    });
    let routes = tonic::service::Routes::from(router());
    let server = tonic::transport::Server::builder().accept_http1(true).add_routes(routes);
    Ok(server.serve_with_incoming(incoming).await?)
}

type Body = tonic::body::Body;

fn router() -> Router {
    let subscriptions =
        get(rest::subscription).put(rest::make_subscription).delete(rest::remove_subscription);
    Router::new()
        .route("/v1/projects/{project}/topics/{name}", get(rest::topic).put(rest::make_topic))
        .route("/v1/projects/{project}/subscriptions/{name}", subscriptions)
        .route("/google.pubsub.v1.Publisher/Publish", post(publish))
        .route("/google.pubsub.v1.Subscriber/Acknowledge", post(acknowledge))
        .route("/google.pubsub.v1.Subscriber/ModifyAckDeadline", post(modify_ack_deadline))
        .route("/google.pubsub.v1.Subscriber/StreamingPull", post(streaming_pull))
        .with_state(Arc::new(State::default()))
}

async fn publish(With(state): With<Arc<State>>, request: Request<axum::body::Body>) -> Response<Body> {
    let answer = service_fn(move |request: tonic::Request<Publish>| {
        let Publish { topic, messages } = request.into_inner();
        let result = state.publish(&topic, messages).map(|message_ids| Published { message_ids });
        async move { result.map(tonic::Response::new) }
    });
    tonic::server::Grpc::new(ProstCodec::<Published, Publish>::default()).unary(answer, request).await
}

async fn acknowledge(With(state): With<Arc<State>>, request: Request<axum::body::Body>) -> Response<Body> {
    let answer = service_fn(move |request: tonic::Request<Acknowledge>| {
        let Acknowledge { subscription, ack_ids } = request.into_inner();
        state.acknowledge(&subscription, &ack_ids);
        async move { Ok::<_, Status>(tonic::Response::new(Empty {})) }
    });
    tonic::server::Grpc::new(ProstCodec::<Empty, Acknowledge>::default()).unary(answer, request).await
}

async fn modify_ack_deadline(
    With(state): With<Arc<State>>,
    request: Request<axum::body::Body>,
) -> Response<Body> {
    let answer = service_fn(move |request: tonic::Request<ModifyAckDeadline>| {
        let ModifyAckDeadline { subscription, ack_ids, ack_deadline_seconds } = request.into_inner();
        let time = Duration::from_secs(u64::try_from(ack_deadline_seconds).unwrap_or(0));
        state.modify_ack_deadline(&subscription, &ack_ids, time);
        async move { Ok::<_, Status>(tonic::Response::new(Empty {})) }
    });
    tonic::server::Grpc::new(ProstCodec::<Empty, ModifyAckDeadline>::default()).unary(answer, request).await
}

async fn streaming_pull(With(state): With<Arc<State>>, request: Request<axum::body::Body>) -> Response<Body> {
    let answer = service_fn(move |request: tonic::Request<tonic::Streaming<StreamingPull>>| {
        let state = Arc::clone(&state);
        async move {
            let mut asked = request.into_inner();
            let first = asked.message().await?.ok_or_else(|| Status::invalid_argument("nothing asked"))?;
            let stream = state.open(&first.subscription, first.max_outstanding_messages)?;
            Ok::<_, Status>(tonic::Response::new(pulled(Pull { state, stream, asked })))
        }
    });
    tonic::server::Grpc::new(ProstCodec::<Pulled, StreamingPull>::default()).streaming(answer, request).await
}

/// One open stream; dropped, what it had leased is soon given to others.
struct Pull {
    state: Arc<State>,
    stream: StreamId,
    asked: tonic::Streaming<StreamingPull>,
}

impl Drop for Pull {
    fn drop(&mut self) {
        self.state.close(&self.stream);
    }
}

fn pulled(pull: Pull) -> impl Stream<Item = Result<Pulled, Status>> + Send {
    futures_util::stream::unfold(pull, async |mut pull| {
        loop {
            let received = match pull.state.lease(&pull.stream) {
                Err(status) => return Some((Err(status), pull)),
                Ok(received) => received,
            };
            if !received.is_empty() {
                return Some((Ok(Pulled { received_messages: received }), pull));
            }
            tokio::select! {
                () = pull.state.changed() => {}
                () = tokio::time::sleep(Duration::from_millis(10)) => {}
                // The client ends its half when it goes; until then it only says that it is still there.
                asked = pull.asked.message() => if !matches!(asked, Ok(Some(_))) { return None },
            }
        }
    })
}

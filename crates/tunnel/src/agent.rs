//! The end of a tunnel in the agent: dials the control plane, then serves its requests over HTTP/2.

mod forward;
pub mod rules;
mod timed_body;

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use atoll_client::cluster_api::{ByteStream, ClusterApi, Upgrade, set_upgrade};
use atoll_client::memory_limits::{self, Charge, ReadError};
use atoll_client::path::encoded;
use atoll_client::{BoxError, ResponseBody};
use atoll_meta::{Status, json};
use http::{HeaderValue, Request, Response};
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::time::Instant;

use self::forward::Forwarding;
use crate::error::TunnelError;
use crate::protocol::{CONNECTION_WINDOW, KeepAlive, MAX_HEADERS, MAX_STREAMS, PROTOCOL, STREAM_WINDOW};

const FIRST_PAUSE: Duration = Duration::from_millis(200);
const LAST_PAUSE: Duration = Duration::from_secs(30);
/// A tunnel that ends sooner was probably replaced at once by the tunnel of another agent.
const STEADY: Duration = Duration::from_secs(30);
/// Time for a connection and the control plane's response.
const TIMEOUT: Duration = Duration::from_secs(60);

/// An agent that keeps a tunnel open.
#[derive(Clone)]
pub struct Agent {
    /// Name of the cluster in the control plane.
    pub cluster: String,
    /// The registering workspace.
    pub above: Arc<dyn ClusterApi>,
    /// The API of the cluster. The control plane has the rights of the agent's account there, within the rules.
    pub below: Arc<dyn ClusterApi>,
    pub keep_alive: KeepAlive,
    /// Source of random numbers.
    pub random: Arc<dyn Fn() -> u64 + Send + Sync>,
}

/// Keeps a tunnel open, for as long as it is polled.
pub async fn run(agent: Agent) {
    let mut pause = FIRST_PAUSE;
    // The last problem, which is logged once.
    let mut last = None;
    loop {
        let began = Instant::now();
        let ended = match agent.open().await {
            Ok(stream) => {
                tracing::info!(cluster = agent.cluster, "the tunnel to the control plane is open");
                last = None;
                serve(stream, agent.below.clone(), agent.keep_alive).await.map_err(TunnelError::Broken)
            }
            Err(problem) => Err(problem),
        };
        if began.elapsed() >= STEADY {
            pause = FIRST_PAUSE;
        }
        let problem = ended.err().map_or_else(|| "it was closed".to_string(), |problem| problem.to_string());
        if last.as_ref() != Some(&problem) {
            tracing::warn!(cluster = agent.cluster, "no tunnel to the control plane: {problem}; retrying");
            last = Some(problem);
        }
        tokio::time::sleep(jittered(pause, (agent.random)())).await;
        pause = (pause * 2).min(LAST_PAUSE);
    }
}

/// Returns between half of a pause and all of it, so that agents do not return all at once.
fn jittered(pause: Duration, random: u64) -> Duration {
    let share = u32::try_from(random % 1000).unwrap_or(0);
    pause / 2 + pause / 2 * share / 1000
}

impl Agent {
    /// Opens the stream of a tunnel.
    async fn open(&self) -> Result<Box<dyn ByteStream>, TunnelError> {
        let path = format!("/services/sync/{}/tunnel", encoded(&self.cluster));
        let mut request = Request::new(());
        *request.uri_mut() = path.parse().map_err(|error| TunnelError::Broken(BoxError::from(error)))?;
        set_upgrade(request.headers_mut(), HeaderValue::from_static(PROTOCOL));
        let answer = tokio::time::timeout(TIMEOUT, self.above.upgrade(request)).await;
        match answer.map_err(|_| TunnelError::Slow)?? {
            Upgrade::Switched(_, stream) => Ok(stream),
            Upgrade::Refused(response) => Err(refusal(response).await),
        }
    }
}

/// Reads why the control plane refused the tunnel.
async fn refusal(response: Response<ResponseBody>) -> TunnelError {
    let code = response.status().as_u16();
    let most = memory_limits::MAX_ERROR_RESPONSE;
    let mut charge = Charge::default();
    let reading = memory_limits::read(response.into_body(), most, &mut charge);
    let bytes = match tokio::time::timeout(TIMEOUT, reading).await {
        Ok(Ok(bytes) | Err(ReadError::TooLong(bytes))) => bytes,
        Ok(Err(ReadError::Broken(error))) => return TunnelError::Broken(error),
        Ok(Err(ReadError::Refused(status))) => return TunnelError::Refused(code, status.message().into()),
        Err(_) => return TunnelError::Slow,
    };
    let status = json::parse(&bytes).ok().and_then(|parsed| Status::from_value(&parsed.value));
    let message = status.map_or_else(
        || String::from_utf8_lossy(&bytes).into_owned(),
        |status| status.bounded(memory_limits::MAX_MESSAGE).message().to_string(),
    );
    TunnelError::Refused(code, atoll_meta::text::clean(&message, memory_limits::MAX_MESSAGE))
}

/// Serves the requests of the control plane until either end closes the tunnel or it breaks.
pub async fn serve(
    stream: impl ByteStream + 'static,
    cluster: Arc<dyn ClusterApi>,
    keep_alive: KeepAlive,
) -> Result<(), BoxError> {
    let forwarding = Arc::new(Forwarding::new(cluster));
    let service = service_fn(move |request| {
        let forwarding = forwarding.clone();
        async move { Ok::<_, Infallible>(forwarding.handle(request).await) }
    });
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder
        .timer(TokioTimer::new())
        .enable_connect_protocol()
        .keep_alive_interval(keep_alive.interval)
        .keep_alive_timeout(keep_alive.timeout)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_concurrent_streams(MAX_STREAMS)
        .max_header_list_size(MAX_HEADERS)
        // The control plane may give up many requests at once.
        .max_pending_accept_reset_streams(MAX_STREAMS as usize);
    builder.serve_connection(TokioIo::new(stream), service).await.map_err(BoxError::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_are_spread() {
        let pause = Duration::from_secs(10);
        assert_eq!(jittered(pause, 0), Duration::from_secs(5));
        assert_eq!(jittered(pause, 500), Duration::from_millis(7500));
        assert!(jittered(pause, 1999) < pause);
    }
}

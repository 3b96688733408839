//! Gate for writes to the cluster: open only while the cluster's identity, claim and lease are verified.

use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use atoll_client::{BoxError, BoxFuture, Client, ResponseBody, Transport};
use bytes::Bytes;
use http::{Request, Response};
use http_body::Frame;
use http_body_util::BodyExt;
use tokio::sync::Notify;
use tokio::time::Instant;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum GateState {
    Closed,
    /// Until this time, unless renewed.
    Open(Instant),
    /// Closed forever.
    Stopped,
}

pub struct WriteGate {
    state: Mutex<GateState>,
    /// Wakes waiters in order, so that test runs are reproducible.
    changed: Notify,
    /// Notified when the cluster must be checked again at once.
    pub recheck: Notify,
}

impl WriteGate {
    pub fn new() -> Arc<WriteGate> {
        Arc::new(WriteGate {
            state: Mutex::new(GateState::Closed),
            changed: Notify::new(),
            recheck: Notify::new(),
        })
    }

    /// Opens the gate until the given time. Returns whether it was closed.
    pub fn open(&self, until: Instant) -> bool {
        let mut state = self.state();
        let was_closed = *state == GateState::Closed;
        if *state != GateState::Stopped {
            *state = GateState::Open(until);
            self.changed.notify_waiters();
        }
        was_closed
    }

    /// Closes the gate until it is opened again.
    pub fn close(&self) {
        let mut state = self.state();
        if *state != GateState::Stopped {
            *state = GateState::Closed;
        }
    }

    /// Closes the gate and requests a check after a lost connection, because the next server may be another
    /// cluster.
    pub fn suspend(&self) {
        let mut state = self.state();
        if matches!(*state, GateState::Open(_)) {
            *state = GateState::Closed;
            self.recheck.notify_one();
        }
    }

    /// Closes the gate forever.
    pub fn stop(&self) {
        *self.state() = GateState::Stopped;
        self.changed.notify_waiters();
    }

    pub fn is_stopped(&self) -> bool {
        *self.state() == GateState::Stopped
    }

    /// Whether the cluster may be written to now.
    pub fn is_open(&self) -> bool {
        matches!(*self.state(), GateState::Open(until) if until > Instant::now())
    }

    /// Waits until the cluster may be written to; returns false if the gate is closed forever.
    pub async fn wait_open(&self) -> bool {
        loop {
            let mut changed = std::pin::pin!(self.changed.notified());
            // Register before checking, so that no notification is missed.
            changed.as_mut().enable();
            let now = *self.state();
            match now {
                GateState::Stopped => return false,
                GateState::Open(until) if until > Instant::now() => return true,
                // Expired: the last checks have failed.
                GateState::Open(_) | GateState::Closed => changed.await,
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, GateState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Transport that detects broken connections. A new connection may lead to another cluster.
pub struct DisconnectDetector {
    pub client: Client,
    pub gate: Arc<WriteGate>,
}

impl Transport for DisconnectDetector {
    fn send(&self, request: Request<Bytes>) -> BoxFuture<'_, Result<Response<ResponseBody>, BoxError>> {
        let lasts = request.uri().query().is_some_and(|query| query.contains("watch=true"));
        Box::pin(async move {
            let answer = self.client.send(request).await;
            match answer {
                Ok(answer) if lasts => {
                    Ok(answer.map(|body| WatchBody { body, gate: self.gate.clone() }.boxed_unsync()))
                }
                Ok(answer) => Ok(answer),
                Err(error) => {
                    self.gate.suspend();
                    Err(error)
                }
            }
        })
    }
}

/// Body of a watch whose end is detected.
struct WatchBody {
    body: ResponseBody,
    gate: Arc<WriteGate>,
}

impl http_body::Body for WatchBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let frame = Pin::new(&mut self.body).poll_frame(context);
        if matches!(frame, Poll::Ready(None | Some(Err(_)))) {
            self.gate.suspend();
        }
        frame
    }
}

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
enum Standing {
    Closed,
    /// Until this time, unless renewed.
    Open(Instant),
    /// Closed forever.
    Over,
}

pub struct Trust {
    standing: Mutex<Standing>,
    /// Wakes waiters in order, so that test runs are reproducible.
    changed: Notify,
    /// Notified when the cluster must be checked again at once.
    pub doubts: Notify,
}

impl Trust {
    pub fn new() -> Arc<Trust> {
        Arc::new(Trust {
            standing: Mutex::new(Standing::Closed),
            changed: Notify::new(),
            doubts: Notify::new(),
        })
    }

    /// Opens the gate until the given time. Returns whether it was closed.
    pub fn open(&self, until: Instant) -> bool {
        let mut standing = self.standing();
        let was_closed = *standing == Standing::Closed;
        if *standing != Standing::Over {
            *standing = Standing::Open(until);
            self.changed.notify_waiters();
        }
        was_closed
    }

    /// Closes the gate until it is opened again.
    pub fn close(&self) {
        let mut standing = self.standing();
        if *standing != Standing::Over {
            *standing = Standing::Closed;
        }
    }

    /// Closes the gate and requests a check after a lost connection, because the next server may be another
    /// cluster.
    pub fn doubt(&self) {
        let mut standing = self.standing();
        if matches!(*standing, Standing::Open(_)) {
            *standing = Standing::Closed;
            self.doubts.notify_one();
        }
    }

    /// Closes the gate forever.
    pub fn end(&self) {
        *self.standing() = Standing::Over;
        self.changed.notify_waiters();
    }

    pub fn is_over(&self) -> bool {
        *self.standing() == Standing::Over
    }

    /// Whether the cluster may be written to now.
    pub fn is_open(&self) -> bool {
        matches!(*self.standing(), Standing::Open(until) if until > Instant::now())
    }

    /// Waits until the cluster may be written to; returns false if the gate is closed forever.
    pub async fn opened(&self) -> bool {
        loop {
            let mut changed = std::pin::pin!(self.changed.notified());
            // Register before checking, so that no notification is missed.
            changed.as_mut().enable();
            let now = *self.standing();
            match now {
                Standing::Over => return false,
                Standing::Open(until) if until > Instant::now() => return true,
                // Expired: the last checks have failed.
                Standing::Open(_) | Standing::Closed => changed.await,
            }
        }
    }

    fn standing(&self) -> MutexGuard<'_, Standing> {
        self.standing.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Transport that detects broken connections. A new connection may lead to another cluster.
pub struct Noticing {
    pub client: Client,
    pub trust: Arc<Trust>,
}

impl Transport for Noticing {
    fn send(&self, request: Request<Bytes>) -> BoxFuture<'_, Result<Response<ResponseBody>, BoxError>> {
        let lasts = request.uri().query().is_some_and(|query| query.contains("watch=true"));
        Box::pin(async move {
            let answer = self.client.send(request).await;
            match answer {
                Ok(answer) if lasts => {
                    Ok(answer.map(|body| Noticed { body, trust: self.trust.clone() }.boxed_unsync()))
                }
                Ok(answer) => Ok(answer),
                Err(error) => {
                    self.trust.doubt();
                    Err(error)
                }
            }
        })
    }
}

/// Body of a watch whose end is detected.
struct Noticed {
    body: ResponseBody,
    trust: Arc<Trust>,
}

impl http_body::Body for Noticed {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let frame = Pin::new(&mut self.body).poll_frame(context);
        if matches!(frame, Poll::Ready(None | Some(Err(_)))) {
            self.trust.doubt();
        }
        frame
    }
}

//! A fake control plane that serves a fixed list of view lines.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use atoll_client::{BoxError, BoxFuture, ResponseBody, Transport};
use atoll_fleet::view::{ObjectTarget, Record, Report, ReportResponse, State, SyncLine};
use atoll_testkit::wait::eventually;
use bytes::Bytes;
use http::{Method, Request, Response};
use http_body::Frame;
use http_body_util::{BodyExt, Full};
use serde_json::Value;
use tokio::sync::mpsc;

/// Serves lines of a sync view, and stores the reports that it receives.
#[derive(Default)]
pub struct FakeControlPlane {
    state: Mutex<PlaneState>,
}

#[derive(Default)]
struct PlaneState {
    /// Lines for new views.
    lines: Vec<SyncLine>,
    listeners: Vec<mpsc::UnboundedSender<Bytes>>,
    records: BTreeMap<String, Record>,
    heartbeat: Value,
    views: usize,
    heartbeats: usize,
    /// The response to reports.
    response: ReportResponse,
}

struct Body(mpsc::UnboundedReceiver<Bytes>);

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        self.0.poll_recv(context).map(|bytes| bytes.map(|bytes| Ok(Frame::data(bytes))))
    }
}

impl Transport for FakeControlPlane {
    fn send(&self, request: Request<Bytes>) -> BoxFuture<'_, Result<Response<ResponseBody>, BoxError>> {
        Box::pin(async move {
            assert_eq!(request.uri().path(), "/services/sync/east");
            let mut state = self.state.lock().unwrap();
            if request.method() == Method::POST {
                let report: Report = serde_json::from_slice(request.body())?;
                for record in report.records {
                    state.records.insert(record.target.name.clone(), record);
                }
                if let Some(heartbeat) = report.heartbeat {
                    state.heartbeat = heartbeat;
                    state.heartbeats += 1;
                }
                let response = serde_json::to_vec(&state.response)?;
                let body = Full::new(Bytes::from(response)).map_err(|never| match never {});
                return Ok(Response::new(body.boxed_unsync()));
            }
            let (sender, receiver) = mpsc::unbounded_channel();
            for line in &state.lines {
                sender.send(line.bytes().into())?;
            }
            state.views += 1;
            state.listeners.push(sender);
            Ok(Response::new(Body(receiver).boxed_unsync()))
        })
    }
}

impl FakeControlPlane {
    /// Returns a control plane whose view starts with these lines.
    pub fn with_lines(control_plane: &str, lines: Vec<SyncLine>) -> Arc<FakeControlPlane> {
        let above = FakeControlPlane::default();
        let synced = SyncLine::Synced {
            control_plane: control_plane.into(),
            uid: "cluster".into(),
            workspaces: Vec::new(),
            workspace: "w".into(),
            id: String::new(),
            observe: false,
        };
        above.state.lock().unwrap().lines = lines.into_iter().chain([synced]).collect();
        Arc::new(above)
    }

    /// Sends a line to all open views and keeps it for later ones, because a syncer reopens a view that is
    /// silent for long.
    pub fn send_line(&self, line: &SyncLine) {
        let mut state = self.state.lock().unwrap();
        if let Some(target) = target(line) {
            state.lines.retain(|line_kept| self::target(line_kept) != Some(target));
            state.lines.insert(0, line.clone());
        }
        state.listeners.retain(|listener| listener.send(line.bytes().into()).is_ok());
    }

    /// Requests an interval of heartbeats.
    pub fn set_heartbeat_interval(&self, interval: Duration) {
        let milliseconds = u64::try_from(interval.as_millis()).unwrap();
        self.state.lock().unwrap().response.heartbeat_milliseconds = Some(milliseconds);
    }

    /// Ends every view. New views get these lines.
    pub fn end_views(&self, lines: Vec<SyncLine>) {
        let mut state = self.state.lock().unwrap();
        let synced = state.lines.pop().unwrap();
        state.lines = lines.into_iter().chain([synced]).collect();
        state.listeners.clear();
    }

    pub fn record(&self, name: &str) -> Option<Record> {
        self.state.lock().unwrap().records.get(name).cloned()
    }

    pub fn forget_records(&self) {
        self.state.lock().unwrap().records.clear();
    }

    pub fn heartbeat(&self) -> Value {
        self.state.lock().unwrap().heartbeat.clone()
    }

    /// Returns the number of received heartbeats.
    pub fn heartbeats(&self) -> usize {
        self.state.lock().unwrap().heartbeats
    }

    pub fn views(&self) -> usize {
        self.state.lock().unwrap().views
    }

    pub async fn wait_for_record(&self, name: &str, state: State) -> Record {
        eventually(&format!("{name} is {state:?}"), async || {
            self.record(name).is_some_and(|record| record.state == state)
        })
        .await;
        self.record(name).unwrap()
    }
}

/// Returns the target of a line.
fn target(line: &SyncLine) -> Option<&ObjectTarget> {
    match line {
        SyncLine::Object { target, .. } | SyncLine::Remove { target, .. } => Some(target),
        _ => None,
    }
}

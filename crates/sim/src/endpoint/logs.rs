//! Logs of containers.

use std::sync::Arc;
use std::time::Duration;

use atoll_meta::time;
use bytes::Bytes;
use http::Response;
use tokio::sync::mpsc;

use super::request::Query;
use super::{Body, ContainerRequest};
use crate::kubelet::Kubelet;

/// Interval at which followed logs are checked for new lines.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Options of a log request.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LogOptions {
    follow: bool,
    timestamps: bool,
    tail: Option<usize>,
    since: Option<i64>,
    limit: Option<usize>,
}

impl LogOptions {
    pub(crate) fn of(query: &Query, now: i64) -> LogOptions {
        let number = |name: &str| query.value(name).and_then(|text| text.parse::<usize>().ok());
        let after = query.value("sinceTime").and_then(|text| time::parse(text).ok()).map(|time| time.seconds);
        let ago = query.value("sinceSeconds").and_then(|text| text.parse::<i64>().ok());
        LogOptions {
            follow: query.value("follow") == Some("true"),
            timestamps: query.value("timestamps") == Some("true"),
            tail: number("tailLines"),
            since: after.or(ago.map(|seconds| now.saturating_sub(seconds))),
            limit: number("limitBytes"),
        }
    }
}

pub fn answer(request: ContainerRequest, kubelet: Arc<Kubelet>) -> Response<Body> {
    let options = LogOptions::of(&request.query, kubelet.now().seconds);
    let (first, next) = lines_from(&request, options, 0);
    let mut first = first.into_bytes();
    if let Some(limit) = options.limit {
        first.truncate(limit);
    }
    if !options.follow {
        return Response::new(Body::PodStatistics(Some(Bytes::from(first)).filter(|text| !text.is_empty())));
    }
    let (sender, receiver) = mpsc::channel(4);
    tokio::spawn(async move {
        let mut next = next;
        if !first.is_empty() && sender.send(first.into()).await.is_err() {
            return;
        }
        let mut interval = tokio::time::interval(POLL_INTERVAL);
        // Ends with the container, its pod, or the client.
        loop {
            interval.tick().await;
            let is_over = !request.running.pod().is_serving() || !kubelet.has(&request.running);
            let (more, after) = lines_from(&request, LogOptions { tail: None, ..options }, next);
            next = after;
            if sender.is_closed() || (!more.is_empty() && sender.send(more.into()).await.is_err()) || is_over
            {
                return;
            }
        }
    });
    Response::new(Body::Stream(receiver))
}

/// Returns the lines from number `from`, and the number of the next line.
fn lines_from(request: &ContainerRequest, options: LogOptions, from: u64) -> (String, u64) {
    let pod = request.running.pod();
    let Some(log) = pod.log(&request.container) else { return (String::new(), from) };
    let (lines, next) = log.since(from);
    let lines: Vec<&(i64, String)> =
        lines.filter(|(when, _)| options.since.is_none_or(|since| *when >= since)).collect();
    let skip = options.tail.map_or(0, |tail| lines.len().saturating_sub(tail));
    let mut text = String::new();
    for (when, line) in lines.into_iter().skip(skip) {
        if options.timestamps {
            text.push_str(&time::format(*when));
            text.push(' ');
        }
        text.push_str(line);
        text.push('\n');
    }
    (text, next)
}

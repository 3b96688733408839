//! Logs of containers.

use std::sync::Arc;
use std::time::Duration;

use atoll_meta::time;
use bytes::Bytes;
use http::Response;
use tokio::sync::mpsc;

use super::request::Query;
use super::{Asked, Body};
use crate::kubelet::Kubelet;

/// Interval at which followed logs are checked for new lines.
const LOOK: Duration = Duration::from_millis(100);

/// Options of a log request.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Wanted {
    follow: bool,
    timestamps: bool,
    tail: Option<usize>,
    since: Option<i64>,
    limit: Option<usize>,
}

impl Wanted {
    pub(crate) fn of(query: &Query, now: i64) -> Wanted {
        let number = |name: &str| query.value(name).and_then(|text| text.parse::<usize>().ok());
        let after = query.value("sinceTime").and_then(|text| time::parse(text).ok()).map(|time| time.seconds);
        let ago = query.value("sinceSeconds").and_then(|text| text.parse::<i64>().ok());
        Wanted {
            follow: query.value("follow") == Some("true"),
            timestamps: query.value("timestamps") == Some("true"),
            tail: number("tailLines"),
            since: after.or(ago.map(|seconds| now.saturating_sub(seconds))),
            limit: number("limitBytes"),
        }
    }
}

pub fn answer(asked: Asked, kubelet: Arc<Kubelet>) -> Response<Body> {
    let wanted = Wanted::of(&asked.query, kubelet.now().seconds);
    let (first, next) = said(&asked, wanted, 0);
    let mut first = first.into_bytes();
    if let Some(limit) = wanted.limit {
        first.truncate(limit);
    }
    if !wanted.follow {
        return Response::new(Body::Whole(Some(Bytes::from(first)).filter(|text| !text.is_empty())));
    }
    let (sender, receiver) = mpsc::channel(4);
    tokio::spawn(async move {
        let mut next = next;
        if !first.is_empty() && sender.send(first.into()).await.is_err() {
            return;
        }
        let mut interval = tokio::time::interval(LOOK);
        // Ends with the container, its pod, or the client.
        loop {
            interval.tick().await;
            let is_over = !asked.running.pod().is_serving() || !kubelet.has(&asked.running);
            let (more, after) = said(&asked, Wanted { tail: None, ..wanted }, next);
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
fn said(asked: &Asked, wanted: Wanted, from: u64) -> (String, u64) {
    let pod = asked.running.pod();
    let Some(log) = pod.log(&asked.container) else { return (String::new(), from) };
    let (lines, next) = log.since(from);
    let lines: Vec<&(i64, String)> =
        lines.filter(|(when, _)| wanted.since.is_none_or(|since| *when >= since)).collect();
    let skip = wanted.tail.map_or(0, |tail| lines.len().saturating_sub(tail));
    let mut text = String::new();
    for (when, line) in lines.into_iter().skip(skip) {
        if wanted.timestamps {
            text.push_str(&time::format(*when));
            text.push(' ');
        }
        text.push_str(line);
        text.push('\n');
    }
    (text, next)
}

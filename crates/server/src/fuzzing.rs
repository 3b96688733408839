//! Access to private parsers for the targets in `fuzz/`.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use atoll_authn::User;
use atoll_meta::Status;
use bytes::Bytes;
use http::HeaderMap;
use http_body::Frame;
use serde_json::Value;

pub use crate::connect::location::{forward_query, log_query};
pub use crate::decode::object;
pub use crate::negotiate::{Clause, Output, clauses, media_type};
pub use crate::options::{FieldValidation, ListOptions, WriteOptions, delete};
pub use crate::paging::Token;
pub use crate::query::Query;
pub use crate::verbs::patch::{Patch, PatchKind};

/// Parses YAML.
pub fn yaml(body: &[u8]) -> Result<Value, String> {
    crate::decode::yaml::parse(body).map(|(value, _)| value)
}

/// Returns the user that headers ask to impersonate.
pub fn impersonated(headers: &HeaderMap) -> Result<Option<User>, Status> {
    crate::impersonation::requested_user(headers)
}

/// Returns the trace ID in the headers, or a new one.
pub fn trace(headers: &HeaderMap) -> Option<String> {
    crate::trace::trace_parent(headers).map(|trace_parent| trace_parent.trace)
}

/// Returns scheme, name and port of a proxy target.
pub fn proxied(text: &str) -> Result<(&str, &str, &str), Status> {
    let target = crate::connect::location::ProxyTarget::parse("pod", text)?;
    Ok((target.scheme, target.name, target.port))
}

/// Returns a page with rewritten links.
pub fn page(page: &[u8]) -> Vec<u8> {
    let rewriter = crate::connect::rewrite::LinkRewriter {
        before: "/api/v1/namespaces/default/pods/a/proxy".into(),
        backend: "10.0.0.1:80".into(),
        host: "127.0.0.1:6443".into(),
    };
    crate::connect::page::HtmlRewriter::rewritten(rewriter, page)
}

/// Parses a snapshot that arrives in chunks of `size` and returns the number of objects.
pub fn snapshot(content: &[u8], size: usize) -> Result<usize, Status> {
    let chunks: Vec<_> = content.chunks(size.max(1)).map(Bytes::copy_from_slice).collect();
    let store = atoll_store::memory::MemoryStore::new();
    finished(crate::snapshot::read(&store, Chunks(chunks.into_iter()))).map(|copy| copy.entries.len())
}

struct Chunks(std::vec::IntoIter<Bytes>);

impl http_body::Body for Chunks {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(self.0.next().map(Frame::data).map(Ok))
    }
}

/// Polls a future that never waits.
fn finished<T>(future: impl Future<Output = T>) -> T {
    let mut future = std::pin::pin!(future);
    loop {
        if let Poll::Ready(outcome) = future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            return outcome;
        }
    }
}

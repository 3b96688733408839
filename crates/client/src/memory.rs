//! How much memory a server may cost its clients. A server may be anybody's: what it answers is read only up to these limits, and
//! what is read and kept of it is charged to a [`Budget`].

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use atoll_meta::Status;
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::Instant;

use crate::BoxError;
use crate::unreached::{self, Cause};

/// One answer. An object has at most about 3 MiB (kube-apiserver accepts no larger request, and etcd stores 1.5 MiB by default),
/// discovery and OpenAPI documents of clusters with hundreds of CustomResourceDefinitions a few MiB. Only pages of lists are
/// larger at times, and those are asked for again with a smaller limit.
pub const ANSWER: usize = 16 << 20;
/// One line of a watch: an object and a few words around it.
pub const LINE: usize = 8 << 20;
/// An answer that is not a success: a Status, or a page of a proxy on the way.
pub const REFUSAL: usize = 1 << 20;
/// One answer as values in memory, which take up to ninety times the room of their JSON.
pub const PARSED: usize = 64 << 20;
/// Everything of one cluster together: two pages that are being read, watches, and what a syncer remembers of nodes, Pods and
/// placed objects. Enough for 100,000 Pods beside 20,000 placed objects.
pub const CLUSTER: usize = 256 << 20;

/// Pages of lists that are read from one cluster at once.
const PAGES: usize = 2;
/// For how long a refusal is told after it last happened. Whoever was refused tries again within ten seconds.
const TOLD: Duration = Duration::from_secs(60);
/// Answers smaller than this are not measured before they are parsed.
const SMALL: usize = 64 << 10;
/// A message of a server, for people.
const MESSAGE: usize = 4096;

/// What one server may cost in memory, and what it costs at the moment.
pub struct Budget {
    limit: usize,
    used: AtomicUsize,
    refusals: AtomicU64,
    last: Mutex<Option<(Cause, String, Instant)>>,
    pages: Semaphore,
}

impl Budget {
    pub fn new(limit: usize) -> Arc<Budget> {
        Arc::new(Budget {
            limit,
            used: AtomicUsize::new(0),
            refusals: AtomicU64::new(0),
            last: Mutex::default(),
            pages: Semaphore::new(PAGES),
        })
    }

    pub fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    /// How often something was refused because it was too large, or because the budget was used up.
    pub fn refusals(&self) -> u64 {
        self.refusals.load(Ordering::Relaxed)
    }

    /// What was refused of late, if anything was.
    pub fn refused(&self) -> Option<(Cause, String)> {
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let recent = last.as_ref().filter(|(_, _, at)| at.elapsed() < TOLD);
        recent.map(|(cause, what, _)| (*cause, what.clone()))
    }

    /// Remembers an answer that was too large however little was asked for.
    pub fn note(&self, status: &Status) {
        if is_too_large(status) {
            self.refuse(Cause::AnswerTooLarge, status.message());
        }
    }

    fn refuse(&self, cause: Cause, what: &str) {
        self.refusals.fetch_add(1, Ordering::Relaxed);
        let last = (cause, what.to_string(), Instant::now());
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some(last);
    }

    /// Waits until a page of a list may be read.
    pub async fn page(&self) -> Option<SemaphorePermit<'_>> {
        // Never closed.
        self.pages.acquire().await.ok()
    }

    fn take(&self, bytes: usize) -> Result<(), Status> {
        let grown = |used: usize| used.checked_add(bytes).filter(|used| *used <= self.limit);
        match self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, grown) {
            Ok(_) => Ok(()),
            Err(used) => {
                let mebibytes = |bytes: usize| bytes.div_ceil(1 << 20);
                let what = format!(
                    "{} MiB are in use, {} MiB are allowed, and what it sent last would take {} MiB more",
                    mebibytes(used),
                    mebibytes(self.limit),
                    mebibytes(bytes)
                );
                self.refuse(Cause::MemoryBudgetExceeded, &what);
                Err(unreached::no_answer(Cause::MemoryBudgetExceeded, &what))
            }
        }
    }
}

/// What something takes of a budget, until it is dropped.
#[derive(Default)]
pub struct Charge {
    budget: Option<Arc<Budget>>,
    bytes: usize,
}

impl Charge {
    /// Nothing yet. Without a budget everything is allowed.
    pub fn new(budget: Option<Arc<Budget>>) -> Charge {
        Charge { budget, bytes: 0 }
    }

    /// Nothing yet, of the same budget.
    pub(crate) fn another(&self) -> Charge {
        Charge::new(self.budget.clone())
    }

    pub fn grow(&mut self, bytes: usize) -> Result<(), Status> {
        if let Some(budget) = &self.budget {
            budget.take(bytes)?;
            self.bytes += bytes;
        }
        Ok(())
    }

    pub fn shrink(&mut self, bytes: usize) {
        let bytes = bytes.min(self.bytes);
        self.bytes -= bytes;
        if let Some(budget) = &self.budget {
            budget.used.fetch_sub(bytes, Ordering::Relaxed);
        }
    }

    /// Another amount than before.
    pub fn set(&mut self, bytes: usize) -> Result<(), Status> {
        match bytes.checked_sub(self.bytes) {
            Some(more) => self.grow(more),
            None => {
                self.shrink(self.bytes - bytes);
                Ok(())
            }
        }
    }

    /// Remembers something that was too large.
    pub(crate) fn note_too_large(&self, what: &str) {
        if let Some(budget) = &self.budget {
            budget.refuse(Cause::AnswerTooLarge, what);
        }
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.shrink(self.bytes);
    }
}

/// The budgets of all clusters that a process talks to, by workspace and name.
#[derive(Default)]
pub struct Budgets {
    known: Mutex<BTreeMap<(String, String), Weak<Budget>>>,
}

/// What a cluster costs at the moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Usage {
    pub workspace: String,
    pub cluster: String,
    pub bytes: usize,
    pub refusals: u64,
}

impl Budgets {
    /// A budget for a cluster, which is shown for as long as somebody has it.
    pub fn open(&self, workspace: &str, cluster: &str) -> Arc<Budget> {
        let budget = Budget::new(CLUSTER);
        let mut known = self.known();
        known.retain(|_, budget| budget.strong_count() > 0);
        known.insert((workspace.into(), cluster.into()), Arc::downgrade(&budget));
        budget
    }

    pub fn usage(&self) -> Vec<Usage> {
        let known = self.known();
        let usage = known.iter().filter_map(|((workspace, cluster), budget)| {
            let budget = budget.upgrade()?;
            let (workspace, cluster) = (workspace.clone(), cluster.clone());
            Some(Usage { workspace, cluster, bytes: budget.used(), refusals: budget.refusals() })
        });
        usage.collect()
    }

    fn known(&self) -> MutexGuard<'_, BTreeMap<(String, String), Weak<Budget>>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Why a body was not read to its end.
pub enum Unread {
    /// It has more bytes than are allowed; these came first.
    TooLong(Bytes),
    Refused(Status),
    Broken(BoxError),
}

/// Reads a body of at most `limit` bytes into one piece, however many pieces it comes in.
pub async fn read<B>(mut body: B, limit: usize, charge: &mut Charge) -> Result<Bytes, Unread>
where
    B: http_body::Body<Data = Bytes> + Unpin,
    B::Error: Into<BoxError>,
{
    let mut read = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.map_err(|error| Unread::Broken(error.into()))?.into_data() else { continue };
        if data.len() > limit - read.len() {
            return Err(Unread::TooLong(read.freeze()));
        }
        charge.grow(data.len()).map_err(Unread::Refused)?;
        read.extend_from_slice(&data);
    }
    Ok(read.freeze())
}

/// Whether an answer was refused because of its size alone, so that a part of it may be asked for.
pub fn is_too_large(status: &Status) -> bool {
    status.has_cause(Cause::AnswerTooLarge.name())
}

/// At most about so many bytes are needed for JSON as values: a map takes a node with room for eleven entries, however few it
/// has, and a value takes at least 32 bytes.
pub fn parsed_size(json: &[u8]) -> usize {
    const NODE: usize = 640;
    const VALUE: usize = 32;
    if json.len() < SMALL {
        return json.len();
    }
    let (mut size, mut before) = (json.len(), 0);
    for byte in json {
        match byte {
            b',' | b'[' | b'{' => size += VALUE,
            // One entry in eleven is the first of another node.
            b':' if before == b'"' => size += NODE / 11,
            _ => {}
        }
        if before == b'{' && *byte != b'}' {
            size += NODE;
        }
        before = *byte;
    }
    size
}

/// What a server says, as far as people can read it in one go.
pub fn shortened(text: &str) -> &str {
    if text.len() <= MESSAGE {
        return text;
    }
    let end = (0..=MESSAGE).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    &text[..end]
}

#[cfg(test)]
mod tests {
    use http_body_util::Full;

    use super::*;

    #[test]
    fn charges_are_given_back() {
        let budget = Budget::new(100);
        let mut first = Charge::new(Some(budget.clone()));
        let mut second = Charge::new(Some(budget.clone()));
        first.grow(60).unwrap();
        second.grow(40).unwrap();
        assert_eq!(budget.refused(), None);
        let refused = second.grow(1).unwrap_err();
        assert_eq!(Cause::of(&refused), Some(Cause::MemoryBudgetExceeded));
        assert_eq!((budget.used(), budget.refusals()), (100, 1));
        assert_eq!(budget.refused().map(|(cause, _)| cause), Some(Cause::MemoryBudgetExceeded));
        first.set(10).unwrap();
        second.shrink(1000);
        assert_eq!(budget.used(), 10);
        second.grow(usize::MAX).unwrap_err();
        drop(first);
        assert_eq!(budget.used(), 0);
        Charge::new(None).grow(usize::MAX).unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn refusals_are_told_for_a_while() {
        let budget = Budget::new(1);
        let status = unreached::no_answer(Cause::AnswerTooLarge, "a page");
        assert!(is_too_large(&status));
        budget.note(&Status::service_unavailable("busy"));
        assert_eq!(budget.refused(), None);
        budget.note(&status);
        assert_eq!(budget.refused(), Some((Cause::AnswerTooLarge, "a page".into())));
        tokio::time::advance(TOLD).await;
        assert_eq!(budget.refused(), None);
    }

    #[tokio::test]
    async fn bodies_are_read_up_to_their_limit() {
        let mut charge = Charge::new(Some(Budget::new(10)));
        let body = |bytes: &'static [u8]| Full::new(Bytes::from_static(bytes));
        assert!(matches!(read(body(b"12345"), 5, &mut charge).await, Ok(read) if read == "12345"));
        assert!(matches!(read(body(b"123456"), 5, &mut charge).await, Err(Unread::TooLong(_))));
        assert!(matches!(read(body(b"123456"), 100, &mut charge).await, Err(Unread::Refused(_))));
        // One byte at a time, without an end.
        let mut charge = Charge::default();
        assert!(
            matches!(read(Endless, 1000, &mut charge).await, Err(Unread::TooLong(first)) if first.len() == 1000)
        );
    }

    struct Endless;

    impl http_body::Body for Endless {
        type Data = Bytes;
        type Error = BoxError;

        fn poll_frame(
            self: std::pin::Pin<&mut Self>,
            _: &mut std::task::Context<'_>,
        ) -> std::task::Poll<Option<Result<http_body::Frame<Bytes>, BoxError>>> {
            std::task::Poll::Ready(Some(Ok(http_body::Frame::data(Bytes::from_static(b"1")))))
        }
    }

    #[test]
    fn values_are_measured_before_they_are_made() {
        let least = |json: &str, each: usize| {
            let count = (1 << 20) / json.len();
            let text = format!("[{}0]", format!("{json},").repeat(count));
            let size = parsed_size(text.as_bytes());
            assert!(size > count * each, "{json}: {size} for {count}");
        };
        least("0", 32);
        least("{}", 32);
        least("[]", 32);
        least(r#"{"a":0}"#, 632);
        // A string is about as large as it was.
        let long = format!("\"{}\"", "a, b".repeat(1 << 18));
        assert!(parsed_size(long.as_bytes()) < long.len() * 10);
        assert_eq!(parsed_size(b"{}"), 2);
    }

    #[test]
    fn messages_end_between_characters() {
        assert_eq!(shortened("short"), "short");
        let long = "é".repeat(MESSAGE);
        assert_eq!(shortened(&long).len(), MESSAGE);
        assert_eq!(shortened(&long[..MESSAGE - 1 + 1]).len(), MESSAGE);
    }
}

//! The test suite that every backend must pass:
//!
//! ```ignore
//! atoll_store::suite!(|| Subject::new(MemoryStore::new()));
//! ```
//!
//! The suite does not assume that revisions are dense, nor that a subscriber has received a change when the
//! write returns, except for the cases that [`suite_embedded!`](crate::suite_embedded) adds.

pub mod compaction;
pub mod conditions;
pub mod history;
pub mod load;
pub mod raising;
pub mod random;
pub mod reading;
pub mod subscriber;
pub mod subscribing;
pub mod workload;

use std::any::Any;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use crate::{Condition, Entry, Key, Page, Range, Revision, Store, Write, WriteError};

/// Time limit of one case.
const TIMEOUT: Duration = Duration::from_secs(120);

/// A fresh store and a value that must be dropped after it.
pub struct Subject {
    pub store: Arc<dyn Store>,
    _keep: Box<dyn Any + Send>,
}

impl Subject {
    pub fn new(store: impl Store) -> Self {
        Subject { store: Arc::new(store), _keep: Box::new(()) }
    }

    /// A store that needs `keep`, such as its directory, until it is dropped.
    pub fn keeping(store: impl Store, keep: impl Any + Send) -> Self {
        Subject { store: Arc::new(store), _keep: Box::new(keep) }
    }
}

/// Runs one case on a new store.
pub fn run<F: Future<Output = ()>>(make: impl FnOnce() -> Subject, case: impl FnOnce(Arc<dyn Store>) -> F) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(4).enable_all().build();
    let subject = make();
    let outcome = runtime
        .expect("a runtime")
        .block_on(async { tokio::time::timeout(TIMEOUT, case(subject.store.clone())).await });
    outcome.expect("the case hangs");
}

/// Generates one `#[test]` for each case. The argument creates a fresh [`Subject`].
#[macro_export]
macro_rules! suite {
    ($make:expr) => {
        $crate::suite_cases! { $make;
            conditions {
                any_always_writes,
                absent_only_creates,
                present_only_replaces,
                at_requires_the_exact_revision,
                deleting_nothing_is_unmet,
                a_deleted_key_can_be_created_again,
                unmet_reports_the_current_revision,
                unmet_changes_nothing,
                guards_are_checked_on_other_keys,
                the_failed_guard_is_named,
                guards_fence_a_stale_leader,
            }
            reading {
                revisions_ascend,
                ranges_are_in_byte_order,
                ranges_respect_their_bounds,
                limits_leave_out_the_rest,
                every_revision_can_be_read,
                the_future_cannot_be_read,
            }
            subscribing {
                subscribes_from_every_revision,
                subscribing_from_the_future_fails,
                a_subscriber_that_breaks_is_removed,
                a_subscriber_may_break_during_replay,
                replay_and_live_changes_have_no_gap,
                hints_are_passed_to_subscribers,
            }
            compaction {
                current_values_are_kept,
                older_revisions_are_gone,
                history_after_it_stays,
                compacting_twice_or_backwards_does_nothing,
                compacting_the_future_compacts_to_the_current_revision,
                no_revision_is_reused,
                a_subscriber_survives_compaction,
                reads_under_compaction_are_right_or_refused,
            }
            raising {
                the_next_revision_is_higher,
                values_survive,
                history_is_gone,
                raising_never_lowers_the_revision,
                subscribers_are_notified,
                raising_beyond_the_limit_fails,
            }
            load {
                values_of_every_size,
                odd_keys,
                many_keys,
                one_creator_wins,
                no_increment_is_lost,
                random_histories,
                random_histories_under_compaction,
            }
        }
    };
}

/// [`suite!`](crate::suite) with additional cases for embedded stores, which guarantee more.
#[macro_export]
macro_rules! suite_embedded {
    ($make:expr) => {
        $crate::suite! { $make }
        $crate::suite_cases! { $make;
            subscribing {
                subscribers_receive_a_change_before_the_write_returns,
                keys_are_shared,
            }
        }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! suite_cases {
    ($make:expr; $($area:ident { $($case:ident,)* })*) => {
        $($(
            #[test]
            fn $case() {
                $crate::suite::run($make, $crate::suite::$area::$case);
            }
        )*)*
    };
}

/// A write of `value` to `key` without conditions.
pub fn put(key: &str, value: impl AsRef<[u8]>) -> Write {
    let value = Some(Bytes::copy_from_slice(value.as_ref()));
    Write { key: Key::from(key), expect: Condition::Any, value, guards: Vec::new(), hint: None }
}

/// A deletion of `key` without conditions.
pub fn delete(key: &str) -> Write {
    Write { value: None, ..put(key, "") }
}

/// Adds a condition on the written key.
pub fn when(condition: Condition, write: Write) -> Write {
    Write { expect: condition, ..write }
}

/// Executes a write that must succeed.
pub async fn done(store: &Arc<dyn Store>, write: Write) -> Revision {
    let key = write.key.clone();
    store.write(write).await.unwrap_or_else(|error| panic!("writing {key}: {error:?}"))
}

/// Executes many writes concurrently, all of which must succeed.
pub async fn write_all(store: &Arc<dyn Store>, writes: impl Iterator<Item = Write>) {
    let tasks: Vec<_> = writes
        .map(|write| {
            let store = store.clone();
            tokio::spawn(async move { done(&store, write).await })
        })
        .collect();
    for task in tasks {
        task.await.expect("a writer");
    }
}

/// Executes a write whose conditions must not hold. Returns the key that failed and its actual revision.
pub async fn refused(store: &Arc<dyn Store>, write: Write) -> (String, Option<Revision>) {
    match store.write(write).await {
        Err(WriteError::Unmet { key, actual, .. }) => (key.to_string(), actual),
        other => panic!("expected an unmet condition, got {other:?}"),
    }
}

/// All current entries.
pub async fn all(store: &Arc<dyn Store>) -> Page {
    store.range(Range::all(), None, 0).await.expect("reading everything")
}

/// Entries as text, for comparison.
pub fn texts(entries: &[Entry]) -> Vec<(String, String)> {
    let text = |value: &Bytes| String::from_utf8_lossy(value).into_owned();
    entries.iter().map(|entry| (entry.key.to_string(), text(&entry.value))).collect()
}

//! What every backend must do, as tests that a backend runs against itself:
//!
//! ```ignore
//! atoll_store::suite!(|| Subject::new(MemoryStore::new()));
//! ```
//!
//! Nothing here assumes that revisions are dense, nor that a follower has a change when its writer is answered,
//! except for what [`suite_embedded!`](crate::suite_embedded) adds.

pub mod compaction;
pub mod conditions;
pub mod follower;
pub mod following;
pub mod history;
pub mod load;
pub mod raising;
pub mod random;
pub mod reading;
pub mod workload;

use std::any::Any;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use crate::{Condition, Entry, Key, Page, Range, Revision, Store, Write, WriteError};

/// How long a case may take before it counts as hanging.
const PATIENCE: Duration = Duration::from_secs(120);

/// A fresh store, and what must outlive it.
pub struct Subject {
    pub store: Arc<dyn Store>,
    _keep: Box<dyn Any + Send>,
}

impl Subject {
    pub fn new(store: impl Store) -> Self {
        Subject { store: Arc::new(store), _keep: Box::new(()) }
    }

    /// A store that needs something else (its directory, say) until it is gone.
    pub fn keeping(store: impl Store, keep: impl Any + Send) -> Self {
        Subject { store: Arc::new(store), _keep: Box::new(keep) }
    }
}

/// Runs one case on a store of its own.
pub fn run<F: Future<Output = ()>>(make: impl FnOnce() -> Subject, case: impl FnOnce(Arc<dyn Store>) -> F) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(4).enable_all().build();
    let subject = make();
    let outcome = runtime
        .expect("a runtime")
        .block_on(async { tokio::time::timeout(PATIENCE, case(subject.store.clone())).await });
    outcome.expect("the case hangs");
}

/// Makes one `#[test]` of each case. The argument makes a fresh [`Subject`].
#[macro_export]
macro_rules! suite {
    ($make:expr) => {
        $crate::suite_cases! { $make;
            conditions {
                any_writes_whatever_is_there,
                absent_only_creates,
                present_only_replaces,
                at_needs_the_very_revision,
                deleting_nothing_is_unmet,
                a_deleted_key_can_be_created_again,
                unmet_tells_what_is_there,
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
            following {
                follows_from_every_point,
                the_future_cannot_be_followed,
                a_follower_that_breaks_is_left_alone,
                a_follower_may_break_while_it_catches_up,
                replay_and_live_fit_together,
                memos_are_handed_through,
            }
            compaction {
                what_is_current_stays,
                older_revisions_are_gone,
                history_after_it_stays,
                compacting_twice_or_backwards_does_nothing,
                compacting_the_future_stops_now,
                no_revision_is_reused,
                a_follower_outlives_compaction,
                reads_under_compaction_are_right_or_refused,
            }
            raising {
                the_next_revision_is_higher,
                values_survive,
                history_is_gone,
                it_never_lowers,
                followers_are_told,
                there_is_a_limit,
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

/// The same for stores within this process, which promise a little more.
#[macro_export]
macro_rules! suite_embedded {
    ($make:expr) => {
        $crate::suite! { $make }
        $crate::suite_cases! { $make;
            following {
                followers_know_before_the_writer_does,
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
    Write { key: Key::from(key), expect: Condition::Any, value, guards: Vec::new(), memo: None }
}

/// A deletion of `key` without conditions.
pub fn delete(key: &str) -> Write {
    Write { value: None, ..put(key, "") }
}

/// The same write under a condition on its own key.
pub fn when(condition: Condition, write: Write) -> Write {
    Write { expect: condition, ..write }
}

/// Carries out a write that must succeed.
pub async fn done(store: &Arc<dyn Store>, write: Write) -> Revision {
    let key = write.key.clone();
    store.write(write).await.unwrap_or_else(|error| panic!("writing {key}: {error:?}"))
}

/// Carries out many writes that must succeed, all at once.
pub async fn pour(store: &Arc<dyn Store>, writes: impl Iterator<Item = Write>) {
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

/// Carries out a write whose conditions must not hold. Returns the key that failed and its actual revision.
pub async fn refused(store: &Arc<dyn Store>, write: Write) -> (String, Option<Revision>) {
    match store.write(write).await {
        Err(WriteError::Unmet { key, actual, .. }) => (key.to_string(), actual),
        other => panic!("expected an unmet condition, got {other:?}"),
    }
}

/// Everything there is now.
pub async fn all(store: &Arc<dyn Store>) -> Page {
    store.range(Range::all(), None, 0).await.expect("reading everything")
}

/// Entries as text, for comparing.
pub fn texts(entries: &[Entry]) -> Vec<(String, String)> {
    let text = |value: &Bytes| String::from_utf8_lossy(value).into_owned();
    entries.iter().map(|entry| (entry.key.to_string(), text(&entry.value))).collect()
}

//! Conditions and guards.

use std::sync::Arc;

use super::{all, delete, done, put, refused, texts, when};
use crate::Condition::{Absent, Any, At, Present};
use crate::{Condition, Guard, Key, Store, Write, WriteError};

fn guarded(write: Write, guards: &[(&str, Condition)]) -> Write {
    let guard = |(key, condition): &(&str, Condition)| Guard { key: Key::from(*key), condition: *condition };
    Write { guards: guards.iter().map(guard).collect(), ..write }
}

pub async fn any_always_writes(store: Arc<dyn Store>) {
    let first = done(&store, when(Any, put("a", "1"))).await;
    let second = done(&store, when(Any, put("a", "2"))).await;
    assert!(second > first && first >= 1);
    let page = all(&store).await;
    assert_eq!(texts(&page.entries), [("a".into(), "2".into())]);
    assert_eq!(page.entries[0].revision, second);
}

pub async fn absent_only_creates(store: Arc<dyn Store>) {
    let created = done(&store, when(Absent, put("a", "1"))).await;
    assert_eq!(refused(&store, when(Absent, put("a", "2"))).await, ("a".into(), Some(created)));
    assert_eq!(refused(&store, when(Absent, delete("a"))).await, ("a".into(), Some(created)));
}

pub async fn present_only_replaces(store: Arc<dyn Store>) {
    assert_eq!(refused(&store, when(Present, put("a", "1"))).await, ("a".into(), None));
    done(&store, put("a", "1")).await;
    done(&store, when(Present, put("a", "2"))).await;
    done(&store, when(Present, delete("a"))).await;
    assert_eq!(refused(&store, when(Present, put("a", "3"))).await, ("a".into(), None));
}

pub async fn at_requires_the_exact_revision(store: Arc<dyn Store>) {
    assert_eq!(refused(&store, when(At(1), put("a", "1"))).await, ("a".into(), None));
    let first = done(&store, put("a", "1")).await;
    let other = done(&store, put("b", "1")).await;
    for wrong in [0, first - 1, first + 1, other, other + 100] {
        if wrong != first {
            assert_eq!(refused(&store, when(At(wrong), put("a", "2"))).await, ("a".into(), Some(first)));
        }
    }
    let second = done(&store, when(At(first), put("a", "2"))).await;
    assert_eq!(refused(&store, when(At(first), delete("a"))).await, ("a".into(), Some(second)));
    done(&store, when(At(second), delete("a"))).await;
    assert_eq!(refused(&store, when(At(second), put("a", "3"))).await, ("a".into(), None));
}

pub async fn deleting_nothing_is_unmet(store: Arc<dyn Store>) {
    for condition in [Any, Absent, Present, At(0)] {
        assert_eq!(refused(&store, when(condition, delete("a"))).await, ("a".into(), None));
    }
    done(&store, put("a", "1")).await;
    done(&store, delete("a")).await;
    assert_eq!(refused(&store, delete("a")).await, ("a".into(), None));
}

pub async fn a_deleted_key_can_be_created_again(store: Arc<dyn Store>) {
    let first = done(&store, when(Absent, put("a", "1"))).await;
    let deleted = done(&store, delete("a")).await;
    assert!(deleted > first, "a deletion has a revision of its own");
    assert!(all(&store).await.entries.is_empty());
    let second = done(&store, when(Absent, put("a", "2"))).await;
    assert!(second > deleted);
    assert_eq!(texts(&all(&store).await.entries), [("a".into(), "2".into())]);
}

pub async fn unmet_reports_the_current_revision(store: Arc<dyn Store>) {
    let first = done(&store, put("a", "1")).await;
    let last = done(&store, put("b", "1")).await;
    match store.write(when(Absent, put("a", "2"))).await {
        Err(WriteError::Unmet { key, actual, revision }) => {
            assert_eq!((&*key, actual, revision), ("a", Some(first), last));
        }
        other => panic!("{other:?}"),
    }
}

pub async fn unmet_changes_nothing(store: Arc<dyn Store>) {
    done(&store, put("a", "1")).await;
    let before = all(&store).await;
    refused(&store, when(Absent, put("a", "2"))).await;
    refused(&store, when(Present, put("b", "2"))).await;
    refused(&store, guarded(put("b", "2"), &[("a", Absent)])).await;
    let after = all(&store).await;
    assert_eq!(after.entries, before.entries);
    assert_eq!(after.revision, before.revision, "a rejected write gets no revision");
    assert_eq!(store.revision().await, Ok(before.revision));
}

pub async fn guards_are_checked_on_other_keys(store: Arc<dyn Store>) {
    let epoch = done(&store, put("epoch", "1")).await;
    for holding in [[("epoch", Any)], [("epoch", Present)], [("epoch", At(epoch))], [("other", Absent)]] {
        done(&store, guarded(put("a", "1"), &holding)).await;
    }
    for failing in [("epoch", Absent), ("epoch", At(epoch + 1)), ("other", Present), ("other", At(epoch))] {
        let (key, _) = refused(&store, guarded(put("a", "2"), &[failing])).await;
        assert_eq!(key, failing.0);
    }
    refused(&store, guarded(delete("a"), &[("epoch", Absent)])).await;
    assert_eq!(all(&store).await.entries.len(), 2);
}

pub async fn the_failed_guard_is_named(store: Arc<dyn Store>) {
    let a = done(&store, put("a", "1")).await;
    let guards = [("a", At(a)), ("b", Absent), ("c", Present), ("d", Absent)];
    assert_eq!(refused(&store, guarded(put("e", "1"), &guards)).await, ("c".into(), None));
    let both = guarded(when(Present, put("e", "1")), &[("a", Absent)]);
    let (key, _) = refused(&store, both).await;
    assert!(key == "e" || key == "a", "one of the two that fail, not {key}");
    // A guard may be on the written key itself.
    assert_eq!(refused(&store, guarded(put("a", "2"), &[("a", Absent)])).await, ("a".into(), Some(a)));
    done(&store, guarded(put("a", "2"), &[("a", At(a))])).await;
}

pub async fn guards_fence_a_stale_leader(store: Arc<dyn Store>) {
    let mine = done(&store, put("epoch", "me")).await;
    done(&store, guarded(put("work", "1"), &[("epoch", At(mine))])).await;
    let successor = done(&store, put("epoch", "another")).await;
    let (key, actual) = refused(&store, guarded(put("work", "2"), &[("epoch", At(mine))])).await;
    assert_eq!((key.as_str(), actual), ("epoch", Some(successor)));
    done(&store, guarded(put("work", "3"), &[("epoch", At(successor))])).await;
}

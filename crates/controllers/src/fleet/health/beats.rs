//! When something was last heard of each cluster, by our own watch.
//!
//! A Lease says who renewed it and when; only that it has changed counts, and when that was seen here. Clocks of other machines,
//! and ones that jump, have no say in whether a cluster is there.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use atoll_fleet::marks;
use atoll_informer::Key;
use atoll_meta::object;
use serde_json::Value;
use tokio::time::Instant;

/// What was heard of a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heard {
    Never,
    /// Nothing since we look, but we have not looked for long: what was said before still counts.
    NotYet {
        left: Duration,
    },
    /// Not for too long.
    LongAgo {
        why: Silence,
    },
    /// And for this long that counts.
    Lately {
        left: Duration,
    },
}

/// What is known of one who says nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Silence {
    /// It has said that it stops.
    Stopped,
    /// It is connected all the same.
    Connected,
    /// It is not.
    Gone,
}

struct Beat {
    /// What is renewed.
    spec: Value,
    /// When it was last seen to change, or seen at all.
    since: Instant,
    /// Whether it has changed since we look.
    has_changed: bool,
    /// Since when nobody is connected.
    closed: Option<Instant>,
}

impl Beat {
    /// Whether somebody was connected for so long without a word that it cannot have been well. A connection to one that hangs is
    /// closed after a while; one to a process that has ended, at once.
    fn was_connected(&self) -> bool {
        // Three heartbeats.
        let seconds = self.spec["leaseDurationSeconds"].as_u64().unwrap_or(30);
        let silent = self.closed.map(|closed| closed.saturating_duration_since(self.since));
        silent.is_none_or(|silent| silent >= Duration::from_secs(seconds) / 2)
    }
}

#[derive(Default)]
pub struct Beats {
    known: Mutex<HashMap<Key, Beat>>,
}

impl Beats {
    /// A Lease as it is shown. The cluster that it is about, if that is to be looked at now.
    pub fn saw(&self, lease: &Value, patience: Duration) -> Option<Key> {
        let name = object::label(lease, marks::CLUSTER)?;
        if object::name(lease) != marks::heartbeat(name)
            || object::namespace(lease) != marks::SYSTEM_NAMESPACE
        {
            return None;
        }
        let cluster = Key::of(lease).in_workspace(name);
        let (spec, now) = (&lease["spec"], Instant::now());
        let closed = (object::annotation(lease, marks::VIEW) != Some("open")).then_some(now);
        let mut known = self.known();
        let Some(beat) = known.get_mut(&cluster) else {
            let beat = Beat { spec: spec.clone(), since: now, has_changed: false, closed };
            known.insert(cluster.clone(), beat);
            return Some(cluster);
        };
        beat.closed = closed.map(|now| beat.closed.unwrap_or(now));
        if beat.spec == *spec {
            return None;
        }
        // One that is renewed again and again need not be looked at each time.
        let is_news = !beat.has_changed || now.saturating_duration_since(beat.since) >= patience;
        *beat = Beat { spec: spec.clone(), since: now, has_changed: true, closed };
        is_news.then_some(cluster)
    }

    /// A Lease that was not there when we began to look was made since.
    pub fn made(&self, cluster: &Key) {
        if let Some(beat) = self.known().get_mut(cluster) {
            beat.has_changed = true;
        }
    }

    pub fn forget(&self, cluster: &Key) {
        self.known().remove(cluster);
    }

    pub fn heard(&self, cluster: &Key, patience: Duration) -> Heard {
        let known = self.known();
        let Some(beat) = known.get(cluster) else { return Heard::Never };
        let left = patience.saturating_sub(beat.since.elapsed());
        match (left.is_zero(), beat.has_changed) {
            (false, true) => Heard::Lately { left },
            (false, false) => Heard::NotYet { left },
            (true, has_changed) => {
                let why = match beat.spec["holderIdentity"].as_str() {
                    None | Some("") => Silence::Stopped,
                    // What was so before we began to look need not be so any longer.
                    Some(_) if beat.was_connected() && has_changed => Silence::Connected,
                    Some(_) => Silence::Gone,
                };
                Heard::LongAgo { why }
            }
        }
    }

    fn known(&self) -> MutexGuard<'_, HashMap<Key, Beat>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(40);

    fn lease(renewed: &str, holder: &str, view: &str) -> Value {
        json!({
            "metadata": {
                "name": "cluster-east", "namespace": "atoll-system", "labels": { "atoll.dev/cluster": "east" },
                "annotations": { "atoll.dev/view": view, "atoll.dev/workspace-id": "w" },
            },
            "spec": { "renewTime": renewed, "holderIdentity": holder, "leaseDurationSeconds": 30 },
        })
    }

    #[tokio::test(start_paused = true)]
    async fn only_changes_count_and_when_they_were_seen() {
        let (beats, key) = (Beats::default(), Key::new("w", "", "east"));
        let heard = || beats.heard(&key, PATIENCE);
        let pass = async |seconds: u64| tokio::time::advance(Duration::from_secs(seconds)).await;
        assert_eq!(heard(), Heard::Never);
        // How it was when we began to look says nothing about whether anybody is there.
        assert_eq!(beats.saw(&lease("1999", "one", "open"), PATIENCE), Some(key.clone()));
        assert_eq!(heard(), Heard::NotYet { left: PATIENCE });
        pass(40).await;
        assert_eq!(heard(), Heard::LongAgo { why: Silence::Gone });
        // Any change will do, whatever time it names: forward by years, or back.
        for renewed in ["2099", "1970", "2026"] {
            assert!(beats.saw(&lease(renewed, "one", "open"), PATIENCE).is_some(), "it was silent");
            assert_eq!(heard(), Heard::Lately { left: PATIENCE });
            pass(30).await;
            assert_eq!(heard(), Heard::Lately { left: Duration::from_secs(10) });
            assert_eq!(beats.saw(&lease(&format!("{renewed}-1"), "one", "open"), PATIENCE), None);
            pass(39).await;
            assert!(matches!(heard(), Heard::Lately { .. }));
            // The same again is nothing new.
            assert_eq!(beats.saw(&lease(&format!("{renewed}-1"), "one", "open"), PATIENCE), None);
            pass(1).await;
            assert_eq!(heard(), Heard::LongAgo { why: Silence::Connected });
        }
        // Who is cut off only long after its last word was hanging; whose connection ends soon after it has ended itself.
        beats.saw(&lease("2026-1", "one", "closed"), PATIENCE);
        assert_eq!(heard(), Heard::LongAgo { why: Silence::Connected });
        beats.saw(&lease("2026-2", "one", "open"), PATIENCE);
        pass(12).await;
        beats.saw(&lease("2026-2", "one", "closed"), PATIENCE);
        pass(28).await;
        beats.saw(&lease("2026-2", "one", "closed"), PATIENCE);
        assert_eq!(heard(), Heard::LongAgo { why: Silence::Gone });
        beats.saw(&lease("2026-2", "", "closed"), PATIENCE);
        assert!(matches!(heard(), Heard::Lately { .. }), "who says good-bye was there");
        pass(40).await;
        assert_eq!(heard(), Heard::LongAgo { why: Silence::Stopped });
        beats.forget(&key);
        assert_eq!(heard(), Heard::Never);
        let mut other = lease("1", "one", "open");
        other["metadata"]["name"] = "another".into();
        assert_eq!(beats.saw(&other, PATIENCE), None, "anybody can label a lease");
    }
}

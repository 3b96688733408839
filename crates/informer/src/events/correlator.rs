//! Correlates events: counts repeated events, combines similar ones, and limits the rate per source and
//! object.
//!
//! ```text
//! event ─► aggregate: ten messages that differ ─► "(combined from similar events): …"
//! ─► deduplicate: the same event again ─► name and count of the first
//! ─► rate limit per source and object ─► dropped
//! ```

// upstream: staging/src/k8s.io/client-go/tools/record/events_cache.go

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::hash::{BuildHasher, RandomState};

use atoll_meta::object;
use atoll_meta::time::Timestamp;
use serde_json::{Value, json};

/// Number of different messages at which events are aggregated (`defaultAggregateMaxEvents`).
const MAX_SIMILAR: usize = 10;
/// Seconds without an event after which an aggregation starts again (`defaultAggregateIntervalInSeconds`).
const AGGREGATION_SECONDS: f64 = 600.0;
/// Rate limit: burst per source and object, then one event in `REFILL_SECONDS` (`defaultSpamBurst`,
/// `defaultSpamQPS`).
const BURST: f64 = 25.0;
const REFILL_SECONDS: f64 = 300.0;
/// Entries per cache (`maxLruCacheEntries`).
const CACHE_SIZE: usize = 4096;

pub struct Correlator {
    groups: LruCache<Group>,
    recorded: LruCache<RecordedEvent>,
    sources: LruCache<Bucket>,
    /// Hashes keys, so that the caches do not hold texts.
    hasher: RandomState,
}

/// Events that differ only in their messages.
#[derive(Default)]
struct Group {
    messages: VecDeque<u64>,
    last: Option<Timestamp>,
}

/// An event that was recorded.
#[derive(Default)]
struct RecordedEvent {
    name: String,
    first: Value,
    count: i64,
}

struct Bucket {
    tokens: f64,
    last: Timestamp,
}

impl Default for Correlator {
    fn default() -> Self {
        Correlator {
            groups: LruCache::new(CACHE_SIZE),
            recorded: LruCache::new(CACHE_SIZE),
            sources: LruCache::new(CACHE_SIZE),
            hasher: RandomState::new(),
        }
    }
}

impl Correlator {
    /// Returns the event to write: a new one if its count is 1, else an update of the event with its name.
    /// `None` if the rate limit is exceeded. `workspace` is the workspace of the involved object.
    pub fn correlate(&mut self, workspace: &str, event: Value, now: Timestamp) -> Option<Value> {
        let (source, kind, same) = self.keys(workspace, &event);
        let (mut event, key) = match self.must_aggregate(kind, &event, now) {
            true => (combined(event, now), kind),
            false => (event, same),
        };
        let recorded = self.recorded.entry(key, RecordedEvent::default);
        match recorded.count {
            0 => {
                *recorded = RecordedEvent {
                    name: object::name(&event).into(),
                    first: event["firstTimestamp"].clone(),
                    count: 1,
                };
            }
            _ => {
                recorded.count += 1;
                object::set_name(&mut event, &recorded.name);
                event["firstTimestamp"] = recorded.first.clone();
                event["count"] = recorded.count.into();
            }
        }
        self.take_token(source, now).then_some(event)
    }

    /// Returns the hash keys of the source, of the aggregate, and of the event.
    fn keys(&self, workspace: &str, event: &Value) -> (u64, u64, u64) {
        let text = |pointer: &str| event.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let about = ["kind", "namespace", "name", "uid", "apiVersion"];
        let about = about.map(|field| event["involvedObject"][field].as_str().unwrap_or_default());
        let source = (workspace, text("/source/component"), about, text("/type"));
        let reporting = [text("/reportingComponent"), text("/reportingInstance")];
        let content = (text("/involvedObject/fieldPath"), text("/message"));
        (
            self.hasher.hash_one(source),
            self.hasher.hash_one((source, text("/reason"), reporting)),
            self.hasher.hash_one((source, text("/reason"), content)),
        )
    }

    /// Whether the aggregate has reached the limit of different messages.
    fn must_aggregate(&mut self, kind: u64, event: &Value, now: Timestamp) -> bool {
        let message = self.hasher.hash_one(event["message"].as_str().unwrap_or_default());
        let group = self.groups.entry(kind, Group::default);
        if group.last.is_none_or(|last| seconds_between(last, now) > AGGREGATION_SECONDS) {
            group.messages.clear();
        }
        group.last = Some(now);
        if !group.messages.contains(&message) {
            group.messages.push_back(message);
        }
        let must_aggregate = group.messages.len() >= MAX_SIMILAR;
        if must_aggregate {
            group.messages.pop_front();
        }
        must_aggregate
    }

    fn take_token(&mut self, source: u64, now: Timestamp) -> bool {
        let bucket = self.sources.entry(source, || Bucket { tokens: BURST, last: now });
        let gained = seconds_between(bucket.last, now).max(0.0) / REFILL_SECONDS;
        bucket.tokens = (bucket.tokens + gained).min(BURST);
        bucket.last = now;
        let take_token = bucket.tokens >= 1.0;
        if take_token {
            bucket.tokens -= 1.0;
        }
        take_token
    }
}

/// Returns the combined event, with the latest message.
fn combined(event: Value, now: Timestamp) -> Value {
    let time = now.to_time();
    let message = event["message"].as_str().unwrap_or_default();
    let (name, uid) = (&event["involvedObject"]["name"], &event["involvedObject"]["uid"]);
    let text = |value: &Value| value.as_str().unwrap_or_default().to_string();
    json!({
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": super::name(&text(name), &text(uid), now), "namespace": event["metadata"]["namespace"]},
        "involvedObject": event["involvedObject"],
        "reason": event["reason"],
        "message": format!("(combined from similar events): {message}"),
        "source": event["source"],
        "firstTimestamp": time,
        "lastTimestamp": time,
        "count": 1,
        "type": event["type"],
        "eventTime": null,
        "reportingComponent": "",
        "reportingInstance": "",
    })
}

fn seconds_between(earlier: Timestamp, later: Timestamp) -> f64 {
    (later.seconds - earlier.seconds) as f64 + (f64::from(later.nanos) - f64::from(earlier.nanos)) / 1e9
}

/// A cache that evicts the least recently used entry.
struct LruCache<V> {
    most: usize,
    values: HashMap<u64, (u64, V)>,
    /// Keys by time of last use.
    order: BTreeMap<u64, u64>,
    asked: u64,
}

impl<V> LruCache<V> {
    fn new(most: usize) -> LruCache<V> {
        LruCache { most, values: HashMap::new(), order: BTreeMap::new(), asked: 0 }
    }

    fn entry(&mut self, key: u64, new: impl FnOnce() -> V) -> &mut V {
        if !self.values.contains_key(&key)
            && self.values.len() >= self.most
            && let Some((_, oldest)) = self.order.pop_first()
        {
            self.values.remove(&oldest);
        }
        self.asked += 1;
        let (asked, value) = self.values.entry(key).or_insert_with(|| (self.asked, new()));
        self.order.remove(asked);
        *asked = self.asked;
        self.order.insert(self.asked, key);
        value
    }
}

#[cfg(test)]
mod tests;

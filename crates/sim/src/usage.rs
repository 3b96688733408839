//! Usage of containers: from annotations of their pod, or a share of their requests.

use std::ops::AddAssign;

use atoll_meta::object;
use atoll_meta::quantity::Quantity;
use serde_json::Value;

/// Annotation with the usage of each container of a pod, or of a node without its pods:
/// `cpu=250m,memory=64Mi`. `cpu=80%` is a share of the request, and `proxy/cpu=10m` applies to one container.
const USAGE: &str = "sim.atoll.dev/usage";
/// The equivalent annotations of KWOK.
const KWOK_ANNOTATIONS: [&str; 2] = ["kwok.x-k8s.io/usage-cpu", "kwok.x-k8s.io/usage-memory"];
const RESOURCES: [&str; 2] = ["cpu", "memory"];
/// Default usage as a percentage of the request.
const DEFAULT_PERCENT: u64 = 50;
/// Usage of a container without requests, by resource.
const WITHOUT_REQUEST: [u64; 2] = [1_000_000, 1 << 20];

/// CPU usage in nanocores, and memory usage in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    pub nanocores: u64,
    pub bytes: u64,
}

impl Usage {
    /// Returns the usage of a running container.
    pub fn of_container(container: &Value, pod: &Value) -> Usage {
        let name = container["name"].as_str().unwrap_or_default();
        let own = object::annotation(pod, USAGE).unwrap_or_default();
        let [nanocores, bytes] = [0, 1].map(|place| {
            let resource = RESOURCES[place];
            let requested = amount(resource, container["resources"]["requests"][resource].as_str());
            let read = |text: &str| match text.strip_suffix('%') {
                Some(share) => share.trim().parse().ok().map(|share| part(requested.unwrap_or(0), share)),
                None => amount(resource, Some(text)),
            };
            entry_of(own, name, resource)
                .and_then(read)
                .or_else(|| object::annotation(pod, KWOK_ANNOTATIONS[place]).and_then(read))
                .or_else(|| requested.map(|requested| part(requested, DEFAULT_PERCENT)))
                .unwrap_or(WITHOUT_REQUEST[place])
        });
        Usage { nanocores, bytes }
    }

    /// Returns the usage of a node without its pods.
    pub fn of_node(node: &Value) -> Usage {
        let own = object::annotation(node, USAGE).unwrap_or_default();
        let of = |resource: &str| amount(resource, entry_of(own, "", resource)).unwrap_or(0);
        Usage { nanocores: of("cpu"), bytes: of("memory") }
    }
}

impl AddAssign for Usage {
    fn add_assign(&mut self, other: Usage) {
        self.nanocores = self.nanocores.saturating_add(other.nanocores);
        self.bytes = self.bytes.saturating_add(other.bytes);
    }
}

/// Returns the entry of a resource: the one for the container, or the one for all.
fn entry_of<'a>(text: &'a str, container: &str, resource: &str) -> Option<&'a str> {
    let mut for_all = None;
    for (key, amount) in text.split(',').filter_map(|entry| entry.split_once('=')) {
        match key.trim().split_once('/') {
            Some((name, of)) if name == container && of == resource => return Some(amount.trim()),
            None if key.trim() == resource => for_all = Some(amount.trim()),
            _ => {}
        }
    }
    for_all
}

/// Parses a quantity as an amount of its resource.
fn amount(resource: &str, text: Option<&str>) -> Option<u64> {
    let quantity = Quantity::parse(text?).ok()?;
    match resource {
        "cpu" => u64::try_from(quantity.millis()).ok()?.checked_mul(1_000_000),
        _ => u64::try_from(quantity.units()).ok(),
    }
}

fn part(pod: u64, hundredths: u64) -> u64 {
    u64::try_from(u128::from(pod) * u128::from(hundredths) / 100).unwrap_or(u64::MAX)
}

/// Current usage, and CPU time so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Meter {
    pub usage: Usage,
    /// Start of the current usage, in milliseconds.
    since: u64,
    /// CPU nanoseconds before that.
    spent: u64,
}

impl Meter {
    /// Sets the current usage.
    pub fn set(&mut self, usage: Usage, now: u64) {
        self.spent = self.spent(now);
        self.since = now;
        self.usage = usage;
    }

    /// Returns the CPU time so far, in nanoseconds.
    pub fn spent(&self, now: u64) -> u64 {
        let recent = u128::from(self.usage.nanocores) * u128::from(now.saturating_sub(self.since)) / 1000;
        self.spent.saturating_add(u64::try_from(recent).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const MEBI: u64 = 1 << 20;

    #[test]
    fn annotations_say_what_containers_use() {
        let container = json!({"name": "main", "resources": {"requests": {"cpu": "200m", "memory": "64Mi"}}});
        let (millis, kwok) = (1_000_000, ("kwok.x-k8s.io/usage-cpu", "kwok.x-k8s.io/usage-memory"));
        for (annotations, cpu, memory) in [
            (json!({}), 100 * millis, 32 * MEBI),
            (json!({USAGE: "cpu=250m,memory=1Gi"}), 250 * millis, 1024 * MEBI),
            (json!({USAGE: "cpu = 150%"}), 300 * millis, 32 * MEBI),
            (json!({USAGE: "cpu=1,main/cpu=2,other/cpu=3"}), 2000 * millis, 32 * MEBI),
            (json!({USAGE: "other/cpu=3"}), 100 * millis, 32 * MEBI),
            (json!({USAGE: "cpu=much,memory"}), 100 * millis, 32 * MEBI),
            (json!({USAGE: "cpu=-1"}), 100 * millis, 32 * MEBI),
            (json!({USAGE: "cpu=0,memory=0"}), 0, 0),
            (json!({kwok.0: "1", kwok.1: "5Mi"}), 1000 * millis, 5 * MEBI),
            (json!({kwok.0: "1", USAGE: "cpu=2"}), 2000 * millis, 32 * MEBI),
        ] {
            let pod = json!({"metadata": {"annotations": annotations}});
            let found = Usage::of_container(&container, &pod);
            assert_eq!(found, Usage { nanocores: cpu, bytes: memory }, "{annotations}");
        }
        let modest = Usage::of_container(&json!({"name": "main"}), &json!({}));
        assert_eq!(modest, Usage { nanocores: millis, bytes: MEBI });
        let node = json!({"metadata": {"annotations": {USAGE: "cpu=50m,memory=300Mi"}}});
        assert_eq!(Usage::of_node(&node), Usage { nanocores: 50 * millis, bytes: 300 * MEBI });
        assert_eq!(Usage::of_node(&json!({})), Usage::default());
    }

    #[test]
    fn cpu_time_adds_up_and_never_decreases() {
        let cores = |count: u64| Usage { nanocores: count * 1_000_000_000, bytes: 0 };
        let mut meter = Meter::default();
        meter.set(cores(2), 1000);
        assert_eq!(meter.spent(2500), 3_000_000_000);
        meter.set(cores(0), 2500);
        assert_eq!(meter.spent(60_000), 3_000_000_000);
        meter.set(cores(1), 60_000);
        assert_eq!(meter.spent(61_000), 4_000_000_000);
        assert_eq!(meter.spent(0), 3_000_000_000, "an earlier time");
    }
}

//! Limits on records, whichever syncer sends them.

use atoll_meta::json;
use atoll_meta::quantity::Quantity;
use atoll_meta::text::{clean, is_control};
use serde_json::{Map, Value};

use super::{PodCounts, Record, ServiceEndpoints};

/// Largest status of an object. Controllers write a few KiB; some custom resources use more.
pub const LARGEST_STATUS: usize = 256 << 10;
/// Longest message about an object.
pub const LONGEST_MESSAGE: usize = 4096;
/// Longest reason of unschedulable Pods.
pub const LONGEST_REASON: usize = 512;
const LONGEST_QUANTITY: usize = 64;
/// Deepest nesting of a status. Those of Kubernetes have about ten levels.
const DEEPEST: usize = 32;

impl Record {
    /// Limits a record: no control characters, a valid generation, and a status of limited size.
    pub fn bounded(mut self) -> Record {
        let is_status = self.status.is_null() || self.status.is_object();
        if !is_status || !tidy(&mut self.status, DEEPEST) || json::to_vec(&self.status).len() > LARGEST_STATUS
        {
            self.status = Value::Null;
            self.observed = false;
            if self.message.is_empty() {
                self.message = format!(
                    "the status in the cluster is not shown: it has more than {} KiB or more than {DEEPEST} levels",
                    LARGEST_STATUS >> 10
                );
            }
        }
        self.generation = self.generation.max(0);
        self.message = clean(&self.message, LONGEST_MESSAGE);
        self.pods = self.pods.map(PodCounts::bounded);
        let is_service = self.target.is_service();
        self.endpoints = self.endpoints.filter(|_| is_service).map(ServiceEndpoints::bounded);
        self.replicas = self.replicas.map(|replicas| replicas.clamp(0, i64::from(i32::MAX)));
        self
    }
}

impl PodCounts {
    fn bounded(mut self) -> PodCounts {
        let counts =
            [&mut self.total, &mut self.ready, &mut self.pending, &mut self.unschedulable, &mut self.bound];
        for count in counts {
            *count = (*count).clamp(0, i64::from(i32::MAX));
        }
        self.reason = clean(&self.reason, LONGEST_REASON).replace('\n', " ");
        let is_quantity = |text: &str| text.len() <= LONGEST_QUANTITY && Quantity::parse(text).is_ok();
        self.usage = self.usage.filter(|usage| is_quantity(&usage.cpu) && is_quantity(&usage.memory));
        if let Some(usage) = &mut self.usage {
            usage.pods = usage.pods.clamp(0, self.ready);
            for request in [&mut usage.requests.cpu, &mut usage.requests.memory] {
                request.take_if(|text| !is_quantity(text));
            }
        }
        self
    }
}

/// Removes control characters from all texts in a value; `false` if it is nested too deeply.
fn tidy(value: &mut Value, levels: usize) -> bool {
    match value {
        Value::String(text) => {
            if is_untidy(text) {
                *text = clean(text, LARGEST_STATUS);
            }
            true
        }
        Value::Array(items) => levels > 0 && items.iter_mut().all(|item| tidy(item, levels - 1)),
        Value::Object(fields) => {
            if fields.keys().any(|name| is_untidy(name)) {
                let named = std::mem::take(fields).into_iter();
                *fields =
                    named.map(|(name, value)| (clean(&name, LARGEST_STATUS), value)).collect::<Map<_, _>>();
            }
            levels > 0 && fields.values_mut().all(|value| tidy(value, levels - 1))
        }
        _ => true,
    }
}

fn is_untidy(text: &str) -> bool {
    text.chars().any(|character| !matches!(character, '\n' | '\t') && is_control(character))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::view::PodUsage;

    #[test]
    fn records_are_limited() {
        let small = Record { status: json!({ "a": 1 }), message: "fine".into(), ..Record::default() };
        assert_eq!(small.clone().bounded(), small);
        let status = json!({ "a": "x".repeat(LARGEST_STATUS) });
        let kept = Record { status, observed: true, ..Record::default() }.bounded();
        assert!(kept.status.is_null() && !kept.observed && kept.message.contains("256 KiB"), "{kept:?}");
        let odd = Record { status: "text".into(), message: "\u{1b}[2J".repeat(10_000), ..Record::default() };
        let kept = odd.bounded();
        assert!(
            kept.status.is_null()
                && kept.message.len() <= LONGEST_MESSAGE
                && !kept.message.contains('\u{1b}')
        );
        let mut deep = json!({});
        for _ in 0..DEEPEST {
            deep = json!({ "a": [deep] });
        }
        assert!(Record { status: deep, ..Record::default() }.bounded().status.is_null());
    }

    #[test]
    fn counts_of_pods_are_limited() {
        let usage =
            |cpu: &str| Some(PodUsage { cpu: cpu.into(), memory: "1Gi".into(), ..PodUsage::default() });
        let counts =
            PodCounts { total: -1, bound: i64::MAX, reason: "x".repeat(5000), ..PodCounts::default() };
        for (cpu, expected) in [("250m", usage("250m")), ("many", None)] {
            let pods = Some(PodCounts { usage: usage(cpu), ..counts.clone() });
            let kept = Record { pods, ..Record::default() }.bounded().pods.unwrap();
            assert_eq!((kept.total, kept.bound, kept.reason.len()), (0, i64::from(i32::MAX), LONGEST_REASON));
            assert_eq!(kept.usage, expected);
        }
    }

    #[test]
    fn control_characters_are_removed() {
        let status = json!({
            "conditions": [{ "message": "line\nof\ttext \u{1b}]0;title\u{7}", "\u{202e}type": "Ready" }],
            "plain é": ["漢"],
        });
        let record = Record { status, generation: i64::MIN, ..Record::default() }.bounded();
        let expected = json!({
            "conditions": [{ "message": "line\nof\ttext ]0;title", "type": "Ready" }],
            "plain é": ["漢"],
        });
        assert_eq!((record.status, record.generation), (expected, 0));
    }
}

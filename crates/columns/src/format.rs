//! Formatting of values for people.

// upstream: pkg/printers/internalversion/printers.go
// upstream: staging/src/k8s.io/apimachinery/pkg/util/duration/duration.go

use atoll_meta::LabelSelector;
use atoll_meta::time::{self, Timestamp, human_duration};
use serde_json::Value;

use crate::fields::{list, map, text};

const NANOS: i128 = 1_000_000_000;

/// Formats the time since a timestamp.
pub fn since(time: &str, now: Timestamp) -> String {
    match moment(time) {
        Some(then) => human_duration(between(then, now)),
        None => "<unknown>".to_owned(),
    }
}

pub fn moment(text: &str) -> Option<Timestamp> {
    let parsed = time::parse(text).or_else(|_| time::parse_micro(text)).ok();
    parsed.filter(|moment| !moment.is_zero())
}

/// Returns the whole seconds from one time to another, rounded towards zero.
pub fn between(from: Timestamp, to: Timestamp) -> i64 {
    let nanos = |moment: Timestamp| i128::from(moment.seconds) * NANOS + i128::from(moment.nanos);
    i64::try_from((nanos(to) - nanos(from)) / NANOS).unwrap_or(i64::MAX)
}

/// Formats labels as `a=b,c=d`.
pub fn labels(object: &Value, path: &str) -> String {
    let pairs = map(object, path).map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()));
    let joined = pairs.collect::<Vec<_>>().join(",");
    if joined.is_empty() { "<none>".to_owned() } else { joined }
}

/// Formats a label selector for the command line; `None` if it is invalid.
pub fn selector(selector: Option<&Value>) -> Option<String> {
    let selector = LabelSelector::from_object(selector.unwrap_or(&Value::Null)).ok()?;
    Some(selector.to_string())
}

/// Formats a label selector as Go prints the struct.
pub fn selector_struct(selector: &Value) -> String {
    let labels: String = map(selector, "matchLabels")
        .map(|(key, value)| format!("{key}: {},", value.as_str().unwrap_or_default()))
        .collect();
    let expressions: String = list(selector, "matchExpressions")
        .iter()
        .map(|expression| {
            let values: Vec<&str> = list(expression, "values").iter().filter_map(Value::as_str).collect();
            format!(
                "LabelSelectorRequirement{{Key:{},Operator:{},Values:[{}],}},",
                text(expression, "key"),
                text(expression, "operator"),
                values.join(" ")
            )
        })
        .collect();
    format!(
        "&LabelSelector{{MatchLabels:map[string]string{{{labels}}},\
         MatchExpressions:[]LabelSelectorRequirement{{{expressions}}},}}"
    )
}

/// Formats the first elements of a list and the number of the others; `otherwise` if the result is empty.
pub fn first_few<T: AsRef<str>>(all: &[T], most: usize, otherwise: &str) -> String {
    let shown = all.iter().take(most).map(AsRef::as_ref).collect::<Vec<_>>().join(",");
    match all.len() {
        length if length > most => format!("{shown} + {} more...", length - most),
        _ if shown.is_empty() => otherwise.to_owned(),
        _ => shown,
    }
}

/// Sorts and deduplicates texts.
pub fn distinct<'t>(texts: impl Iterator<Item = &'t str>) -> String {
    let mut texts: Vec<&str> = texts.collect();
    texts.sort_unstable();
    texts.dedup();
    texts.join(",")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn ages_are_formatted() {
        let now = Timestamp::new(1_000_000, 500_000_000);
        let at = |seconds: i64| time::format(seconds);
        let cases = [
            (at(1_000_000), "0s"),
            (at(1_000_001), "0s"),
            (at(1_000_002), "0s"),
            (at(1_000_003), "<invalid>"),
            (at(999_881), "119s"),
            (at(999_700), "5m"),
            (at(0), "11d"),
            (String::new(), "<unknown>"),
            (time::format_micro(999_999, 600_000_000), "0s"),
            (time::format_micro(999_999, 500_000_000), "1s"),
        ];
        for (time, expected) in cases {
            assert_eq!(since(&time, now), expected, "{time}");
        }
    }

    #[test]
    fn selectors_are_formatted() {
        let cases = [
            (json!({}), Some("")),
            (json!({ "matchLabels": { "b": "1", "a": "2" } }), Some("a=2,b=1")),
            (
                json!({ "matchLabels": { "m": "" }, "matchExpressions": [
                    { "key": "z", "operator": "NotIn", "values": ["y", "x"] },
                    { "key": "c", "operator": "In", "values": ["1"] },
                    { "key": "e", "operator": "Exists" },
                    { "key": "d", "operator": "DoesNotExist" },
                ] }),
                Some("c in (1),!d,e,m=,z notin (x,y)"),
            ),
            (json!({ "matchExpressions": [{ "key": "a", "operator": "In" }] }), None),
        ];
        for (given, expected) in cases {
            assert_eq!(selector(Some(&given)).as_deref(), expected, "{given}");
        }
        assert_eq!(selector(None).as_deref(), Some(""));
    }

    #[test]
    fn long_lists_are_truncated() {
        assert_eq!(first_few(&["a", "b", "c"], 3, "<unset>"), "a,b,c");
        assert_eq!(first_few(&["a", "b", "c", "d", "e"], 3, "<unset>"), "a,b,c + 2 more...");
        assert_eq!(first_few::<&str>(&[], 3, "<unset>"), "<unset>");
    }
}

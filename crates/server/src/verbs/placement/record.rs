//! Fields of a Placement besides its shares: its decision maker, a move under way, and past decisions.

use atoll_fleet::placement::{
    LONGEST_BY, LeftOut, MAX_DECISIONS, MAX_DECISIONS_BYTES, MAX_LEFT_OUT, PlacementDecision, Share,
    is_printable,
};
use atoll_fleet::{Placement, autoscaling, placed_by};
use atoll_meta::text::clean;
use atoll_meta::{FieldError, FieldPath, names, time};
use serde_json::Value;

use super::numbers;
use super::shares::MAX_SHARES;

/// The default of `by`.
const BY_HAND: &str = "hand";
/// Longest name of a phase, and of a reason.
const LONGEST_WORD: usize = 63;
/// Longest invalid text in an error.
const SHOWN: usize = 64;

/// Adds the recorded fields of `wanted` to a placement, or returns all errors. Only a scheduler records moves,
/// missing and blocked replicas and decisions, because room is reserved for the target of a move. The writes of others end a move.
pub fn add(
    wanted: &Value,
    current: &Placement,
    decided: &mut Placement,
    is_scheduler: bool,
) -> Result<(), Vec<FieldError>> {
    let spec = &wanted["spec"];
    let path = FieldPath::new("spec");
    let mut errors = Vec::new();
    if let Some(by) = maker(&path.child("by"), &spec["by"], &mut errors)
        && !decided.clusters.is_empty()
    {
        decided.by = by;
    }
    let (phase, target) = (
        word(&path.child("phase"), &spec["phase"], &mut errors),
        targets(&path.child("target"), &spec["target"], &mut errors),
    );
    let missing = missing(&path.child("missing"), &spec["missing"], &mut errors);
    let blocked = word(&path.child("blocked"), &spec["blocked"], &mut errors);
    let left_out = left_out(&path.child("leftOut"), &spec["leftOut"], &mut errors);
    let autoscaler = autoscaler(&path.child("autoscaler"), &spec["autoscaler"], &mut errors);
    if is_scheduler {
        (decided.phase, decided.target) = (phase, target);
        if !decided.clusters.is_empty() {
            decided.left_out = left_out;
            (decided.missing, decided.blocked, decided.autoscaler) = (missing, blocked, autoscaler);
        }
    } else if is_release(current, decided) {
        // It is released with its target, from the cluster in which it acts.
        decided.autoscaler = current.autoscaler.clone();
    }
    // Writers that do not know the past decisions must not erase them.
    decided.decisions = match &spec["decisions"] {
        Value::Null => current.decisions.clone(),
        _ if !is_scheduler => current.decisions.clone(),
        given => decisions(&path.child("decisions"), given, &mut errors),
    };
    if decided.decisions_size() > MAX_DECISIONS_BYTES {
        errors.push(FieldError::too_long(&path.child("decisions"), MAX_DECISIONS_BYTES));
    }
    if errors.is_empty() { Ok(()) } else { Err(errors) }
}

fn maker(path: &FieldPath, given: &Value, errors: &mut Vec<FieldError>) -> Option<String> {
    let by = match given {
        Value::Null => BY_HAND,
        Value::String(by) if by.is_empty() => BY_HAND,
        Value::String(by) => by,
        other => {
            errors.push(FieldError::invalid(path, other.clone(), "must be a string"));
            return None;
        }
    };
    if !is_printable(by, LONGEST_BY) {
        let message = format!("must have at most {LONGEST_BY} printable characters");
        errors.push(FieldError::invalid(path, clean(by, SHOWN), message));
        return None;
    }
    Some(by.to_string())
}

/// Whether a release of an object begins or ends while its only cluster still has it, and an autoscaler acts there.
fn is_release(current: &Placement, decided: &Placement) -> bool {
    let is_same = match (current.clusters.as_slice(), decided.clusters.as_slice()) {
        ([one], [other]) => one.is_of(&other.name, &other.uid),
        _ => false,
    };
    is_same
        && current.autoscaler == autoscaling::BELOW
        && [current, decided].iter().any(|placement| placement.by == placed_by::RELEASE)
}

fn word(path: &FieldPath, given: &Value, errors: &mut Vec<FieldError>) -> String {
    let is_word =
        |word: &str| word.len() <= LONGEST_WORD && word.bytes().all(|letter| letter.is_ascii_alphanumeric());
    match given {
        Value::Null => String::new(),
        Value::String(word) if is_word(word) => word.clone(),
        other => {
            let shown = other.as_str().map_or(Value::Null, |word| clean(word, SHOWN).into());
            let message = format!("must be a word of at most {LONGEST_WORD} letters and digits");
            errors.push(FieldError::invalid(path, shown, message));
            String::new()
        }
    }
}

fn missing(path: &FieldPath, given: &Value, errors: &mut Vec<FieldError>) -> i64 {
    match given {
        Value::Null => 0,
        Value::Number(number) if number.as_i64().is_some_and(|number| number >= 0) => {
            number.as_i64().unwrap_or_default()
        }
        other => {
            let shown = if other.is_number() { other.clone() } else { Value::Null };
            errors.push(FieldError::invalid(path, shown, "must be a number of replicas"));
            0
        }
    }
}

fn left_out(path: &FieldPath, given: &Value, errors: &mut Vec<FieldError>) -> Vec<LeftOut> {
    let items = match given {
        Value::Null => return Vec::new(),
        Value::Array(items) if items.len() <= MAX_LEFT_OUT => items,
        Value::Array(items) => {
            errors.push(FieldError::too_many(path, items.len(), MAX_LEFT_OUT));
            return Vec::new();
        }
        _ => {
            errors.push(FieldError::invalid(path, Value::Null, "must be a list"));
            return Vec::new();
        }
    };
    let read = items.iter().enumerate().map(|(index, item)| {
        let path = path.index(index);
        let name = item["name"].as_str().unwrap_or_default();
        if let Some(wrong) = names::name_is_dns_label(name, false).first() {
            errors.push(FieldError::invalid(&path.child("name"), clean(name, SHOWN), wrong.clone()));
        }
        LeftOut { name: name.to_string(), reason: word(&path.child("reason"), &item["reason"], errors) }
    });
    read.collect()
}

fn autoscaler(path: &FieldPath, given: &Value, errors: &mut Vec<FieldError>) -> String {
    match given {
        Value::Null => String::new(),
        Value::String(side) if autoscaling::SIDES.contains(&side.as_str()) => side.clone(),
        other => {
            let shown = other.as_str().map(|side| clean(side, SHOWN)).unwrap_or_default();
            errors.push(FieldError::not_supported(path, shown, &autoscaling::SIDES));
            String::new()
        }
    }
}

/// Reads the shares that a move leads to. Their clusters are checked when they get a share.
fn targets(path: &FieldPath, given: &Value, errors: &mut Vec<FieldError>) -> Vec<Share> {
    let items = match given {
        Value::Null => return Vec::new(),
        Value::Array(items) => items,
        _ => {
            errors.push(FieldError::invalid(path, Value::Null, "must be a list"));
            return Vec::new();
        }
    };
    if items.len() > MAX_SHARES {
        errors.push(FieldError::too_many(path, items.len(), MAX_SHARES));
        return Vec::new();
    }
    let read = items.iter().enumerate().map(|(index, item)| {
        let path = path.index(index);
        let text = |field: &str| item[field].as_str().unwrap_or_default();
        let name = text("name");
        if name.is_empty() {
            errors.push(FieldError::required(&path.child("name"), ""));
        } else if let Some(wrong) = names::name_is_dns_label(name, false).first() {
            errors.push(FieldError::invalid(&path.child("name"), clean(name, SHOWN), wrong.clone()));
        }
        let uid = text("uid");
        if !uid.is_empty() && !is_printable(uid, LONGEST_BY) {
            let message = format!("must have at most {LONGEST_BY} printable characters");
            errors.push(FieldError::invalid(&path.child("uid"), clean(uid, SHOWN), message));
        }
        Share { uid: uid.to_string(), ..numbers::read(item, name, &path, errors) }
    });
    read.collect()
}

fn decisions(path: &FieldPath, given: &Value, errors: &mut Vec<FieldError>) -> Vec<PlacementDecision> {
    let Some(items) = given.as_array() else {
        errors.push(FieldError::invalid(path, Value::Null, "must be a list"));
        return Vec::new();
    };
    if items.len() > MAX_DECISIONS {
        errors.push(FieldError::too_many(path, items.len(), MAX_DECISIONS));
        return Vec::new();
    }
    let read = items.iter().enumerate().map(|(index, item)| {
        let path = path.index(index);
        let mut text = |field: &'static str, is_valid: &dyn Fn(&str) -> bool, message: &str| {
            let text = item[field].as_str().unwrap_or_default();
            if !is_valid(text) {
                errors.push(FieldError::invalid(&path.child(field), clean(text, SHOWN), message));
            }
            text.to_string()
        };
        let is_line = |text: &str| is_printable(text, MAX_DECISIONS_BYTES);
        PlacementDecision {
            time: text("time", &|text| time::parse(text).is_ok(), "must be a time in RFC 3339"),
            by: text("by", &|text| text.is_empty() || is_printable(text, LONGEST_BY), "must be printable"),
            reason: text("reason", &is_line, "must be a line of printable characters"),
        }
    });
    read.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn added(spec: &Value, current: &Placement) -> Result<Placement, Vec<String>> {
        let mut decided = Placement { clusters: vec![Share::on("a", "1")], ..Placement::default() };
        match add(&json!({ "spec": spec }), current, &mut decided, true) {
            Ok(()) => Ok(decided),
            Err(errors) => Err(errors.iter().map(|error| error.field().to_string()).collect()),
        }
    }

    fn decision(reason: &str) -> Value {
        json!({ "time": "2026-01-01T00:00:00Z", "by": "p", "reason": reason })
    }

    #[test]
    fn recorded_fields_are_read() {
        let current = Placement::default();
        assert_eq!(added(&json!({}), &current).unwrap().by, "hand");
        let spec = json!({
            "by": "PlacementPolicy shop/web", "phase": "Moving", "decisions": [decision("more room")], "missing": 4,
            "target": [{ "name": "b", "uid": "2", "replicas": 3, "firstOrdinal": 1, "held": true }],
        });
        let placed = added(&spec, &current).unwrap();
        assert_eq!((placed.by.as_str(), placed.phase.as_str()), ("PlacementPolicy shop/web", "Moving"));
        let target = Share { replicas: Some(3), first_ordinal: Some(1), held: true, ..Share::on("b", "2") };
        assert_eq!(placed.target, [target]);
        assert_eq!((placed.decisions[0].reason.as_str(), placed.missing), ("more room", 4));
        // Others keep the decisions, and end the move.
        let next = added(&json!({ "by": "hand" }), &placed).unwrap();
        assert_eq!(
            (next.decisions, next.phase.as_str(), next.target.len()),
            (placed.decisions.clone(), "", 0)
        );
        assert!(added(&json!({ "decisions": [] }), &placed).unwrap().decisions.is_empty());
    }

    #[test]
    fn only_a_scheduler_records_moves_and_decisions() {
        let spec = json!({
            "by": "release", "phase": "adding", "target": [{ "name": "b", "replicas": 2147483647 }], "missing": 4,
            "decisions": [decision("more room")],
        });
        let mut decided = Placement { clusters: vec![Share::on("a", "1")], ..Placement::default() };
        add(&json!({ "spec": spec }), &Placement::default(), &mut decided, false).unwrap();
        let expected =
            Placement { clusters: vec![Share::on("a", "1")], by: "release".into(), ..Placement::default() };
        assert_eq!(decided, expected);
    }

    #[test]
    fn autoscalers_stay_in_their_cluster_until_they_are_released() {
        let on = |names: &[&str], by: &str, autoscaler: &str| Placement {
            clusters: names.iter().map(|name| Share::on(name, name)).collect(),
            by: by.into(),
            autoscaler: autoscaler.into(),
            ..Placement::default()
        };
        for (current, next, by, expected) in [
            (on(&["a"], "default", "below"), on(&["a"], "", ""), "release", "below"),
            (on(&["a"], "release", "below"), on(&["a"], "", ""), "annotation", "below"),
            (on(&["a"], "default", "below"), on(&["a"], "", ""), "hand", ""),
            (on(&["a"], "default", "below"), on(&[], "", ""), "release", ""),
            (on(&["a"], "default", "below"), on(&["b"], "", ""), "release", ""),
            (on(&["a", "b"], "default", "above"), on(&["a", "b"], "", ""), "release", ""),
        ] {
            let mut decided = next;
            add(&json!({ "spec": { "by": by } }), &current, &mut decided, false).unwrap();
            assert_eq!(decided.autoscaler, expected, "{current:?} by {by}");
        }
    }

    #[test]
    fn invalid_fields_are_named() {
        let many = vec![decision("x"); MAX_DECISIONS + 1];
        let long = decision(&"x".repeat(MAX_DECISIONS_BYTES));
        for (spec, fields) in [
            (json!({ "by": "x".repeat(LONGEST_BY + 1) }), &["spec.by"][..]),
            (json!({ "by": "a\u{1b}b" }), &["spec.by"]),
            (json!({ "by": "two\nlines" }), &["spec.by"]),
            (json!({ "by": 7 }), &["spec.by"]),
            (json!({ "phase": "not a word" }), &["spec.phase"]),
            (json!({ "phase": [] }), &["spec.phase"]),
            (json!({ "missing": -1 }), &["spec.missing"]),
            (json!({ "missing": "many" }), &["spec.missing"]),
            (json!({ "blocked": "not a word" }), &["spec.blocked"]),
            (json!({ "leftOut": {} }), &["spec.leftOut"]),
            (json!({ "leftOut": vec![json!({ "name": "a" }); MAX_LEFT_OUT + 1] }), &["spec.leftOut"]),
            (
                json!({ "leftOut": [{ "name": "A b", "reason": "x" }, { "name": "a", "reason": "two words" }] }),
                &["spec.leftOut[0].name", "spec.leftOut[1].reason"],
            ),
            (json!({ "autoscaler": "sideways" }), &["spec.autoscaler"]),
            (json!({ "autoscaler": 1 }), &["spec.autoscaler"]),
            (json!({ "target": {} }), &["spec.target"]),
            (json!({ "target": vec![json!({ "name": "a" }); MAX_SHARES + 1] }), &["spec.target"]),
            (json!({ "target": [{ "name": "A b" }, {}] }), &["spec.target[0].name", "spec.target[1].name"]),
            (json!({ "target": [{ "name": "a", "replicas": -1 }] }), &["spec.target[0].replicas"]),
            (json!({ "target": [{ "name": "a", "held": "yes" }] }), &["spec.target[0].held"]),
            (json!({ "decisions": "x" }), &["spec.decisions"]),
            (json!({ "decisions": many }), &["spec.decisions"]),
            (json!({ "decisions": [long] }), &["spec.decisions"]),
            (json!({ "decisions": [{ "time": "now", "reason": "x" }] }), &["spec.decisions[0].time"]),
            (
                json!({ "decisions": [{ "time": "2026-01-01T00:00:00Z", "by": "\n", "reason": "" }] }),
                &["spec.decisions[0].by", "spec.decisions[0].reason"],
            ),
        ] {
            assert_eq!(added(&spec, &Placement::default()).unwrap_err(), fields, "{spec}");
        }
    }
}

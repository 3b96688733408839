use super::*;

fn event(object: &str, r#type: &str, reason: &str, message: &str, now: Timestamp) -> Value {
    json!({
        "metadata": {"name": super::super::name(object, "", now), "namespace": "n"},
        "involvedObject": {"kind": "Pod", "namespace": "n", "name": object, "uid": object, "apiVersion": "v1"},
        "reason": reason, "message": message, "type": r#type, "count": 1,
        "source": {"component": "tester"}, "reportingComponent": "tester", "reportingInstance": "",
        "firstTimestamp": now.to_time(), "lastTimestamp": now.to_time(),
    })
}

fn at(seconds: i64) -> Timestamp {
    Timestamp::new(seconds, 0)
}

/// Sends events to a correlator at given times.
struct EventSource {
    correlator: Correlator,
    workspace: &'static str,
}

impl EventSource {
    fn new() -> EventSource {
        EventSource { correlator: Correlator::default(), workspace: "w" }
    }

    fn send(
        &mut self,
        object: &str,
        r#type: &str,
        reason: &str,
        message: &str,
        seconds: i64,
    ) -> Option<Value> {
        let now = at(seconds);
        self.correlator.correlate(self.workspace, event(object, r#type, reason, message, now), now)
    }
}

fn short(event: Option<&Value>) -> String {
    let Some(event) = event else { return "nothing".into() };
    format!("{} {} {}", object::name(event), event["count"], event["message"].as_str().unwrap_or_default())
}

#[test]
fn repeated_event_is_counted() {
    let mut source = EventSource::new();
    for (seconds, object, r#type, reason, message, expected) in [
        (1, "a", "Normal", "R", "x", "a.3b9aca00 1 x"),
        (2, "a", "Normal", "R", "x", "a.3b9aca00 2 x"),
        (3, "a", "Warning", "R", "x", "a.b2d05e00 1 x"),
        (4, "a", "Normal", "S", "x", "a.ee6b2800 1 x"),
        (5, "a", "Normal", "R", "y", "a.12a05f200 1 y"),
        (6, "b", "Normal", "R", "x", "b.165a0bc00 1 x"),
        (7, "a", "Normal", "R", "x", "a.3b9aca00 3 x"),
    ] {
        let event = source.send(object, r#type, reason, message, seconds);
        assert_eq!(short(event.as_ref()), expected, "at {seconds}");
    }
    source.workspace = "v";
    let event = source.send("a", "Normal", "R", "x", 8);
    assert_eq!(short(event.as_ref()), "a.1dcd65000 1 x", "another workspace");
    source.workspace = "w";
    let event = source.send("a", "Normal", "R", "x", 9).unwrap();
    assert_eq!(
        (&event["firstTimestamp"], &event["lastTimestamp"]),
        (&json!(at(1).to_time()), &json!(at(9).to_time()))
    );
}

#[test]
fn similar_events_are_combined() {
    let mut source = EventSource::new();
    for number in 1..=9 {
        let event = source.send("a", "Normal", "R", &format!("m{number}"), number).unwrap();
        assert_eq!((&event["count"], &event["message"]), (&json!(1), &json!(format!("m{number}"))));
    }
    let tenth = source.send("a", "Normal", "R", "m10", 10).unwrap();
    assert_eq!(short(Some(&tenth)), "a.2540be400 1 (combined from similar events): m10");
    assert_eq!(
        (&tenth["reportingComponent"], &tenth["source"]),
        (&json!(""), &json!({"component": "tester"}))
    );
    for (seconds, reason, message, expected) in [
        (11, "R", "m11", "a.2540be400 2 (combined from similar events): m11"),
        (12, "R", "m12", "a.2540be400 3 (combined from similar events): m12"),
        (13, "R", "m12", "a.306dc4200 1 m12"),
        (14, "S", "m13", "a.342770c00 1 m13"),
        // After the aggregation interval it starts again, and the old counts continue.
        (700, "R", "m14", "a.a2fb405800 1 m14"),
        (701, "R", "m1", "a.3b9aca00 2 m1"),
    ] {
        let event = source.send("a", "Normal", reason, message, seconds);
        assert_eq!(short(event.as_ref()), expected, "at {seconds}");
    }
}

#[test]
fn excess_events_are_dropped() {
    let mut source = EventSource::new();
    for number in 1..=25 {
        let event = source.send("a", "Normal", "R", "x", 0);
        assert_eq!(event.map(|event| event["count"].clone()), Some(json!(number)));
    }
    for (seconds, object, r#type, expected) in [
        (0, "a", "Normal", "nothing"),
        (0, "a", "Warning", "a.0 1 x"),
        (0, "b", "Normal", "b.0 1 x"),
        (299, "a", "Normal", "nothing"),
        // Dropped events are counted.
        (300, "a", "Normal", "a.0 28 x"),
        (301, "a", "Normal", "nothing"),
        // A clock that is set back does not reduce the tokens.
        (0, "a", "Normal", "nothing"),
        (10_000, "a", "Normal", "a.0 31 x"),
    ] {
        let event = source.send(object, r#type, "R", "x", seconds);
        assert_eq!(short(event.as_ref()), expected, "at {seconds} {object} {type}");
    }
}

#[test]
fn least_recently_used_entry_is_evicted() {
    let mut recent: LruCache<u64> = LruCache::new(3);
    for (key, expected) in [(1, 1), (2, 2), (3, 3), (1, 1), (4, 5), (1, 1), (2, 7), (3, 8), (1, 1)] {
        // A new value is the number of lookups so far.
        let asked = recent.asked + 1;
        assert_eq!(*recent.entry(key, || asked), expected, "{key}");
        assert!(recent.values.len() <= 3 && recent.order.len() == recent.values.len());
    }
}

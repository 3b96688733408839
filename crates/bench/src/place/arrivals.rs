//! Counts which workloads were placed and which of their lines have arrived, and when the last one did.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Text before the number of a workload in a watch event or a line of a view.
pub const MARKER: &str = "\"w-";
/// Digits of the number.
const WIDTH: usize = 8;
/// Start of the annotation with the placement, in a watch event.
const PLACEMENT: &str = "\"atoll.dev/placement\":\"";

/// Arrivals of numbered workloads since the last reset.
pub struct Arrivals {
    /// Hash of the last placement that the watch has shown; 0 if there is none.
    placements: Vec<AtomicU64>,
    /// Changes of the placement, and lines in views.
    written: Vec<AtomicU32>,
    lines: Vec<AtomicU32>,
    times: Mutex<ArrivalTimes>,
}

#[derive(Clone, Copy, Debug, Default)]
pub struct ArrivalTimes {
    pub first_written: Option<Instant>,
    pub last_written: Option<Instant>,
    pub last_line: Option<Instant>,
}

impl ArrivalTimes {
    /// The time since something has arrived.
    pub fn quiet(&self) -> Option<Duration> {
        self.last_written.max(self.last_line).map(|last| last.elapsed())
    }
}

impl Arrivals {
    pub fn new(workloads: usize) -> Arrivals {
        Arrivals {
            placements: (0..workloads).map(|_| AtomicU64::new(0)).collect(),
            written: (0..workloads).map(|_| AtomicU32::new(0)).collect(),
            lines: (0..workloads).map(|_| AtomicU32::new(0)).collect(),
            times: Mutex::default(),
        }
    }

    /// Begins a new measurement. Placements stay known.
    pub fn reset(&self) {
        for count in self.written.iter().chain(&self.lines) {
            count.store(0, Ordering::Relaxed);
        }
        self.change_times(|times| *times = ArrivalTimes::default());
    }

    /// Reads an event of the watch of the workloads.
    pub fn see_event(&self, event: &str) {
        let Some(index) = number(event).filter(|index| *index < self.placements.len()) else { return };
        let hash = placement(event).map_or(0, hash);
        if self.placements[index].swap(hash, Ordering::Relaxed) != hash {
            self.written[index].fetch_add(1, Ordering::Relaxed);
            self.change_times(|times| {
                times.last_written = Some(Instant::now());
                times.first_written = times.first_written.or(times.last_written);
            });
        }
    }

    /// Reads a line of a sync view.
    pub fn see_line(&self, line: &str) {
        if !line.starts_with("{\"type\":\"Object\"") {
            return;
        }
        let Some(index) = number(line).filter(|index| *index < self.lines.len()) else { return };
        self.lines[index].fetch_add(1, Ordering::Relaxed);
        self.change_times(|times| times.last_line = Some(Instant::now()));
    }

    pub fn times(&self) -> ArrivalTimes {
        *self.times.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// The number of workloads that were placed at least once.
    pub fn written(&self) -> usize {
        self.written.iter().filter(|count| count.load(Ordering::Relaxed) > 0).count()
    }

    /// The number of lines in all views.
    pub fn lines(&self) -> usize {
        self.lines.iter().map(|count| count.load(Ordering::Relaxed) as usize).sum()
    }

    fn change_times(&self, change: impl FnOnce(&mut ArrivalTimes)) {
        change(&mut self.times.lock().unwrap_or_else(std::sync::PoisonError::into_inner));
    }
}

/// The number of the workload that a text is about.
pub fn number(text: &str) -> Option<usize> {
    let start = text.find(MARKER)? + MARKER.len();
    text.get(start..start + WIDTH)?.parse().ok()
}

/// The placement in a watch event, as it is escaped there.
fn placement(event: &str) -> Option<&str> {
    let rest = &event[event.find(PLACEMENT)? + PLACEMENT.len()..];
    let mut is_escaped = false;
    let end = rest.bytes().position(|byte| {
        let ends = byte == b'"' && !is_escaped;
        is_escaped = byte == b'\\' && !is_escaped;
        ends
    });
    Some(&rest[..end?])
}

fn hash(text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish().max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placements_and_lines_are_counted_by_workload() {
        let arrivals = Arrivals::new(2);
        let event = |number: usize, placement: &str| {
            format!(
                r#"{{"type":"MODIFIED","object":{{"metadata":{{"annotations":{{"atoll.dev/placement":"{placement}"}},"name":"w-{number:08}"}}}}}}"#
            )
        };
        assert!(arrivals.times().quiet().is_none());
        for (number, placement, written) in
            [(0, r#"{\"a\":1}"#, 1), (0, r#"{\"a\":1}"#, 1), (1, r#"{\"a\":\"\\\\\"}"#, 2), (7, "x", 2)]
        {
            arrivals.see_event(&event(number, placement));
            assert_eq!(arrivals.written(), written, "{placement}");
        }
        arrivals.see_event(r#"{"type":"MODIFIED","object":{"metadata":{"name":"w-00000001"}}}"#);
        assert_eq!(arrivals.written[1].load(Ordering::Relaxed), 2, "a removed placement is a change");
        let line = |kind: &str, number: usize| format!(r#"{{"type":"{kind}","name":"w-{number:08}"}}"#);
        for (kind, number, lines) in [("Object", 0, 1), ("Remove", 1, 1), ("Object", 0, 2), ("Object", 9, 2)]
        {
            arrivals.see_line(&line(kind, number));
            assert_eq!(arrivals.lines(), lines);
        }
        arrivals.reset();
        assert_eq!((arrivals.written(), arrivals.lines()), (0, 0));
        arrivals.see_event(&event(0, r#"{\"a\":1}"#));
        assert_eq!(arrivals.written(), 0, "known from before");
    }

    #[test]
    fn the_placement_ends_at_its_quote() {
        for (event, expected) in [
            (r#"{"atoll.dev/placement":"{\"by\":\"x\"}","b":"c"}"#, Some(r#"{\"by\":\"x\"}"#)),
            (r#"{"atoll.dev/placement":"a\\","b":"c"}"#, Some(r"a\\")),
            (r#"{"atoll.dev/placement":"a"#, None),
            ("{}", None),
        ] {
            assert_eq!(placement(event), expected, "{event}");
        }
    }
}

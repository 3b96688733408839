//! Recent output of a container.

use std::collections::VecDeque;

use super::SimTime;

const LINES: usize = 200;

#[derive(Clone, Debug, Default)]
pub struct Log {
    lines: VecDeque<(i64, String)>,
    /// Number of lines since the start.
    total: u64,
}

impl Log {
    pub fn log_line(&mut self, now: SimTime, line: String) {
        if self.lines.len() == LINES {
            self.lines.pop_front();
        }
        self.lines.push_back((now.seconds, line));
        self.total += 1;
    }

    /// Returns the lines from number `from`, counted from the first ever, and the number of the next line.
    pub fn since(&self, from: u64) -> (impl Iterator<Item = &(i64, String)>, u64) {
        let first = self.total - self.lines.len() as u64;
        let skip = from.saturating_sub(first).min(self.lines.len() as u64) as usize;
        (self.lines.iter().skip(skip), self.total)
    }
}

#[cfg(test)]
#[test]
fn the_last_lines_are_kept_and_counted() {
    let mut log = Log::default();
    for number in 0..LINES as u64 + 5 {
        log.log_line(SimTime { millis: 0, seconds: number as i64 }, number.to_string());
    }
    let (lines, next) = log.since(0);
    assert_eq!((lines.map(|(_, line)| line.as_str()).next(), next), (Some("5"), 205));
    assert_eq!(log.since(204).0.count(), 1);
    assert_eq!(log.since(9999).0.count(), 0);
}

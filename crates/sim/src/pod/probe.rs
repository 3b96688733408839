//! Schedules and thresholds of probes.

// upstream: pkg/kubelet/prober/worker.go

use serde_json::Value;

/// A probe of a running container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Probe {
    initial_delay: u64,
    period: u64,
    success_threshold: i64,
    failure_threshold: i64,
    next: u64,
    /// Consecutive successes if positive, else failures.
    streak: i64,
    /// Result so far; `None` at first.
    pub passed: Option<bool>,
}

impl Probe {
    /// Creates the probe `field` of a container that started at `since`.
    pub fn new(container: &Value, field: &str, since: u64) -> Option<Probe> {
        let spec = container.get(field)?;
        let number = |field: &str, default: i64| spec[field].as_i64().unwrap_or(default).max(0);
        let initial_delay = number("initialDelaySeconds", 0).cast_unsigned() * 1000;
        Some(Probe {
            initial_delay,
            period: number("periodSeconds", 10).max(1).cast_unsigned() * 1000,
            success_threshold: number("successThreshold", 1).max(1),
            failure_threshold: number("failureThreshold", 3).max(1),
            next: since + initial_delay,
            streak: 0,
            passed: None,
        })
    }

    /// Runs the probe if it is due.
    pub fn tick(&mut self, now: u64, finds: bool) {
        if now < self.next {
            return;
        }
        self.next = now + self.period;
        self.streak = match (finds, self.streak > 0) {
            (true, true) => self.streak + 1,
            (true, false) => 1,
            (false, false) => self.streak - 1,
            (false, true) => -1,
        };
        if self.streak >= self.success_threshold {
            self.passed = Some(true);
        } else if -self.streak >= self.failure_threshold {
            self.passed = Some(false);
        }
    }

    /// Returns the time of the next run.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// Starts the probe after the startup probe has passed.
    pub fn start(&mut self, now: u64) {
        self.next = self.next.max(now);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn thresholds_and_periods_apply() {
        let container = json!({"p": {"initialDelaySeconds": 5, "periodSeconds": 2, "successThreshold": 2,
            "failureThreshold": 2}});
        let mut probe = Probe::new(&container, "p", 1000).unwrap();
        let mut found = Vec::new();
        for (now, finds) in
            [(5999, true), (6000, true), (7000, true), (8000, true), (10_000, false), (12_000, false)]
        {
            probe.tick(now, finds);
            found.push(probe.passed);
        }
        assert_eq!(found, [None, None, None, Some(true), Some(true), Some(false)]);
        assert_eq!(probe.next(), 14_000);
        assert!(Probe::new(&container, "q", 0).is_none());
    }
}

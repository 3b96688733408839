//! Durations of all requests of a measurement.

use std::time::Duration;

use serde_json::{Value, json};

/// Durations in nanoseconds, up to four seconds. Microseconds would be too coarse for responses from memory.
#[derive(Debug, Default)]
pub struct Samples {
    nanos: Vec<u32>,
}

impl Samples {
    pub fn push(&mut self, took: Duration) {
        self.nanos.push(u32::try_from(took.as_nanos()).unwrap_or(u32::MAX));
    }

    pub fn add(&mut self, mut other: Samples) {
        self.nanos.append(&mut other.nanos);
    }

    pub fn len(&self) -> usize {
        self.nanos.len()
    }

    /// Returns the percentile `share` of the durations in seconds, or 0 without any.
    pub fn within(&mut self, share: f64) -> f64 {
        if self.nanos.is_empty() {
            return 0.0;
        }
        let position = ((self.nanos.len() - 1) as f64 * share).round() as usize;
        let (_, nanos, _) = self.nanos.select_nth_unstable(position);
        f64::from(*nanos) / 1e9
    }

    pub fn describe(&mut self) -> Value {
        json!({
            "count": self.len(),
            "p50_seconds": self.within(0.5),
            "p90_seconds": self.within(0.9),
            "p99_seconds": self.within(0.99),
            "p999_seconds": self.within(0.999),
            "worst_seconds": self.within(1.0),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_exact() {
        let mut samples = Samples::default();
        assert_eq!(samples.within(0.5), 0.0);
        for millis in (0..=100).rev() {
            samples.push(Duration::from_millis(millis));
        }
        assert_eq!([samples.within(0.0), samples.within(0.5), samples.within(0.99)], [0.0, 0.05, 0.099]);
        assert_eq!(samples.within(1.0), 0.1);
        samples.push(Duration::from_secs(100));
        assert!(samples.within(1.0) > 4.0, "longer durations are capped");
    }
}

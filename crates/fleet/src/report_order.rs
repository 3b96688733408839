//! Order of the reports of a cluster: a report that arrives late must not overwrite a newer one.

use std::collections::VecDeque;

/// Number of replaced runs that are remembered.
const PAST: usize = 16;

/// The last report of a cluster. Each start of a syncer is a run, and its reports are numbered.
#[derive(Debug, Default)]
pub struct ReportOrder {
    run: u64,
    number: u64,
    past: VecDeque<u64>,
}

impl ReportOrder {
    /// Whether a report is accepted. A report without a run always is: its sender does not number reports.
    ///
    /// A run that was replaced by another one is over. A syncer that continues nevertheless must start a new
    /// one.
    pub fn accepts(&mut self, run: u64, number: u64) -> bool {
        if run == 0 {
            return true;
        }
        if run == self.run {
            let is_newer = number > self.number;
            self.number = self.number.max(number);
            return is_newer;
        }
        if self.past.contains(&run) {
            return false;
        }
        if self.run != 0 {
            self.past.push_back(self.run);
            if self.past.len() > PAST {
                self.past.pop_front();
            }
        }
        (self.run, self.number) = (run, number);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn late_reports_are_rejected() {
        let mut order = ReportOrder::default();
        for (run, number, expected, why) in [
            (7, 1, true, "the first"),
            (7, 2, true, "the next"),
            (7, 2, false, "the same report again"),
            (7, 5, true, "reports in between were lost"),
            (7, 4, false, "one of those arrives late"),
            (8, 1, true, "another syncer has started"),
            (7, 6, false, "a late report of the previous run"),
            (8, 2, true, "the run continues"),
            (9, 3, true, "the previous syncer started a new run"),
            (8, 3, false, "the replaced run is over"),
            (0, 0, true, "a report without a run"),
            (9, 4, true, "the run continues"),
        ] {
            assert_eq!(order.accepts(run, number), expected, "{why}");
        }
    }

    #[test]
    fn number_of_remembered_runs_is_limited() {
        let mut order = ReportOrder::default();
        for run in 1..=100 {
            assert!(order.accepts(run, 1));
        }
        assert_eq!(order.past.len(), PAST);
        assert!(!order.accepts(99, 2));
    }
}

//! What is known to be different, with a reason each.

use crate::scenarios::Outcome;

/// The lines of `known.txt`: `fails NAME: reason` for a scenario, `says PART OF A COMPLAINT # reason` for a complaint.
pub struct Known {
    failing: Vec<&'static str>,
    said: Vec<&'static str>,
}

impl Known {
    pub fn load() -> Known {
        let mut known = Known { failing: Vec::new(), said: Vec::new() };
        for line in
            include_str!("known.txt").lines().filter(|line| !line.is_empty() && !line.starts_with('#'))
        {
            let fails = line.strip_prefix("fails ").and_then(|rest| rest.split_once(": "));
            let says = line.strip_prefix("says ").and_then(|rest| rest.rsplit_once(" # "));
            match (fails, says) {
                (Some((name, _)), _) => known.failing.push(name),
                (_, Some((part, _))) => known.said.push(part),
                _ => panic!("known.txt: what is {line:?}?"),
            }
        }
        known
    }

    pub fn excuses(&self, complaint: &str) -> bool {
        self.said.iter().any(|part| complaint.contains(part))
    }

    /// What is wrong with these outcomes: a failure that is not known, or one that is known and did not happen.
    pub fn judge(&self, outcomes: &[Outcome]) -> Vec<String> {
        let judge = |outcome: &Outcome| match (&outcome.result, self.failing.contains(&outcome.name)) {
            (Err(_), false) => outcome.failure("Atoll"),
            (Ok(()), true) => Some(format!("{} works: take it off known.txt", outcome.name)),
            _ => None,
        };
        outcomes.iter().filter_map(judge).collect()
    }
}

//! What is known to be different, with a reason each.

use crate::scenarios::Outcome;

/// How often in a run something that happens by chance may happen: a try that is repeated, not one that never succeeds.
const CHANCE: usize = 20;

/// The lines of `known.txt`: `fails NAME: reason` for a scenario, `says PART OF A COMPLAINT # reason` for a complaint, and
/// `chance PART # reason` for one that depends on who is faster, on either server.
pub struct Known {
    failing: Vec<&'static str>,
    /// With how often it may be said.
    said: Vec<(&'static str, usize)>,
}

impl Known {
    pub fn load() -> Known {
        let mut known = Known { failing: Vec::new(), said: Vec::new() };
        for line in
            include_str!("known.txt").lines().filter(|line| !line.is_empty() && !line.starts_with('#'))
        {
            let fails = line.strip_prefix("fails ").and_then(|rest| rest.split_once(": "));
            let part = |word| line.strip_prefix(word).and_then(|rest: &'static str| rest.rsplit_once(" # "));
            match (fails, part("says "), part("chance ")) {
                (Some((name, _)), _, _) => known.failing.push(name),
                (_, Some((part, _)), _) => known.said.push((part, usize::MAX)),
                (_, _, Some((part, _))) => known.said.push((part, CHANCE)),
                _ => panic!("known.txt: what is {line:?}?"),
            }
        }
        known
    }

    pub fn excuses(&self, complaint: &str, count: usize) -> bool {
        self.said.iter().any(|(part, most)| complaint.contains(part) && count <= *most)
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

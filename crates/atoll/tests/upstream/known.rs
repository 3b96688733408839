//! Known differences, each with a reason.

use crate::scenarios::ScenarioOutcome;

/// How often a message that depends on timing may occur in a run: enough for retries, not for an operation
/// that never succeeds.
const CHANCE: usize = 20;

/// The lines of `known.txt`: `fails NAME: reason` for a scenario, `says PART OF A MESSAGE # reason` for a
/// message, and `chance PART # reason` for a message that depends on timing, on either server.
pub struct KnownDifferences {
    failing: Vec<&'static str>,
    /// Parts of messages, and how often each may occur.
    messages: Vec<(&'static str, usize)>,
}

impl KnownDifferences {
    pub fn load() -> KnownDifferences {
        let mut differences = KnownDifferences { failing: Vec::new(), messages: Vec::new() };
        for line in
            include_str!("known.txt").lines().filter(|line| !line.is_empty() && !line.starts_with('#'))
        {
            let fails = line.strip_prefix("fails ").and_then(|rest| rest.split_once(": "));
            let part = |word| line.strip_prefix(word).and_then(|rest: &'static str| rest.rsplit_once(" # "));
            match (fails, part("says "), part("chance ")) {
                (Some((name, _)), _, _) => differences.failing.push(name),
                (_, Some((part, _)), _) => differences.messages.push((part, usize::MAX)),
                (_, _, Some((part, _))) => differences.messages.push((part, CHANCE)),
                _ => panic!("known.txt: invalid line {line:?}"),
            }
        }
        differences
    }

    pub fn allows(&self, message: &str, count: usize) -> bool {
        self.messages.iter().any(|(part, most)| message.contains(part) && count <= *most)
    }

    /// Returns the unexpected outcomes: failures that are not known, and known failures that did not happen.
    pub fn unexpected(&self, outcomes: &[ScenarioOutcome]) -> Vec<String> {
        let unexpected =
            |outcome: &ScenarioOutcome| match (&outcome.result, self.failing.contains(&outcome.name)) {
                (Err(_), false) => outcome.failure("Atoll"),
                (Ok(()), true) => Some(format!("{} works: remove it from known.txt", outcome.name)),
                _ => None,
            };
        outcomes.iter().filter_map(unexpected).collect()
    }
}

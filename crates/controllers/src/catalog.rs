//! All controllers by name, and which of them run.

use std::future::Future;
use std::pin::Pin;

use crate::context::Context;

type Running = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A controller that runs over any API.
pub struct Controller {
    /// As kube-controller-manager calls it.
    pub name: &'static str,
    /// As it was called before.
    pub alias: &'static str,
    pub run: fn(Context) -> Running,
}

/// Those that can be chosen. Each is a row.
pub const CONTROLLERS: &[Controller] = &[];

/// Which controllers run: `*` for all that are on by default, `name` for one, `-name` for all but one; what comes later
/// counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice(Vec<String>);

impl Default for Choice {
    fn default() -> Self {
        Choice(vec!["*".into()])
    }
}

impl Choice {
    /// Fails with the name that nobody has.
    pub fn new(words: Vec<String>, known: &[&str]) -> Result<Choice, String> {
        let unknown = words.iter().find(|word| {
            let name = word.strip_prefix('-').unwrap_or(word);
            name != "*" && !known.contains(&name)
        });
        match unknown {
            Some(word) => Err(format!("there is no controller {:?}", word.strip_prefix('-').unwrap_or(word))),
            None => Ok(Choice(words)),
        }
    }

    pub fn includes(&self, name: &str, alias: &str) -> bool {
        let of = |word: &str| word == name || word == alias;
        let named = |word: &&String| of(word.strip_prefix('-').unwrap_or(word));
        match self.0.iter().rfind(named) {
            Some(word) => !word.starts_with('-'),
            None => self.0.iter().any(|word| word == "*"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_choose_controllers() {
        let known = ["deployment-controller", "deployment", "job-controller", "job"];
        for (words, deployment, job) in [
            ("*", true, true),
            ("", false, false),
            ("deployment", true, false),
            ("*,-deployment-controller", false, true),
            ("-job,*", true, false),
            ("*,-job,job", true, true),
        ] {
            let words = words.split(',').filter(|word| !word.is_empty()).map(String::from).collect();
            let choice = Choice::new(words, &known).unwrap();
            assert_eq!(choice.includes("deployment-controller", "deployment"), deployment, "{choice:?}");
            assert_eq!(choice.includes("job-controller", "job"), job, "{choice:?}");
        }
        let error = Choice::new(vec!["*".into(), "-nobody".into()], &known).unwrap_err();
        assert_eq!(error, "there is no controller \"nobody\"");
    }
}

//! Scenarios, each with its own namespace and with rules for its events.

use std::pin::Pin;

use crate::history::History;
use crate::player::{PlayResult, Player};
use crate::{autoscaler, cron_job, daemon_set, deployment, drain, job, stateful_set};

#[derive(Clone, Copy)]
pub struct Scenario {
    /// The name of the scenario and of its namespace.
    pub name: &'static str,
    pub play: for<'a> fn(&'a Player) -> Pin<Box<dyn Future<Output = PlayResult> + Send + 'a>>,
    /// Returns violations of the rules. With the real controllers, only of those that upstream guarantees.
    pub rules: fn(&History<'_>, bool) -> Vec<String>,
}

macro_rules! scenarios {
    ($($module:ident),* $(,)?) => {
        &[$(Scenario {
            name: $module::NAMESPACE,
            play: |player| Box::pin($module::play(player)),
            rules: $module::rules,
        }),*]
    };
}

const ALL: &[Scenario] = scenarios![deployment, stateful_set, daemon_set, job, cron_job, autoscaler, drain];

/// Returns the scenarios that `WORKLOADS` names, separated by commas, or all.
pub fn selected_scenarios() -> Vec<Scenario> {
    let Ok(names) = std::env::var("WORKLOADS") else { return ALL.to_vec() };
    ALL.iter().filter(|scenario| names.split(',').any(|wanted| wanted == scenario.name)).copied().collect()
}

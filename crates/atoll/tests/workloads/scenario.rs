//! What is done in a namespace of its own, and which rules hold meanwhile.

use std::pin::Pin;

use crate::history::History;
use crate::player::{Done, Player};
use crate::{autoscaler, cron_job, daemon_set, deployment, drain, job, stateful_set};

#[derive(Clone, Copy)]
pub struct Scenario {
    /// Also that of its namespace.
    pub name: &'static str,
    pub play: for<'a> fn(&'a Player) -> Pin<Box<dyn Future<Output = Done> + Send + 'a>>,
    /// What was against the rules. Where the real controllers decide, only what they promise.
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

/// Those that `WORKLOADS` names, with commas between them, or all.
pub fn chosen() -> Vec<Scenario> {
    let Ok(names) = std::env::var("WORKLOADS") else { return ALL.to_vec() };
    ALL.iter().filter(|scenario| names.split(',').any(|wanted| wanted == scenario.name)).copied().collect()
}

//! `atoll adopt`: brings objects that already run in a cluster under Atoll's management without restarting
//! them.
//!
//! ```text
//!   plan: read below ─► check for obstacles ─► add referenced objects ─► print the plan
//!   act:  above: namespace, objects ─► below, dry run: does anything change? ─► below: marks ─► above: placements
//!                     ◄──────────────────── undone if any step fails ────────────────────┘
//! ```

mod act;
mod plan;
mod words;

use std::fmt::Write;

use self::act::Act;
pub use self::plan::shown;
use self::plan::{Item, Plan, Why};
use crate::advice::Failure;
use crate::cluster::reach::Reached;
use crate::command::AdoptOptions;
use crate::{output, process};

pub fn run(options: AdoptOptions) -> Result<(), String> {
    process::ask(async { adopt(&options).await.map_err(String::from) })
}

async fn adopt(options: &AdoptOptions) -> Result<(), Failure> {
    let reached = Reached::open(&options.connection, &options.cluster).await?;
    let plan = Plan::make(&reached, options).await?;
    output::print(&said(&reached, &plan));
    if plan.is_finished() {
        return Ok(());
    }
    let mut act = Act::new(&reached, &plan)?;
    if options.dry_run {
        act.rehearse().await?;
        output::print("Nothing was changed: this was a dry run.\n");
        return Ok(());
    }
    reached.check_not_paused().await?;
    act.perform().await?;
    let count = plan.items.iter().filter(|item| !item.is_done).count();
    let what = match count {
        0 => format!("Namespace {} of {} can be used now", plan.namespace_name(), reached.name),
        1 => "1 object is adopted".to_string(),
        count => format!("{count} objects are adopted"),
    };
    output::print(&format!("{what}. Nothing was restarted.\n"));
    Ok(())
}

/// Describes the planned steps for the user.
fn said(reached: &Reached, plan: &Plan) -> String {
    let (cluster, workspace) = (&reached.name, &reached.fleet.session.current);
    // Writing to a string cannot fail.
    let mut text = String::new();
    for note in &plan.notes {
        let _ = writeln!(text, "{note}");
    }
    if plan.is_finished() && plan.items.is_empty() {
        let _ = writeln!(text, "There is nothing to adopt.");
        return text;
    }
    let _ = writeln!(text, "Adopting from {cluster} into {workspace}:");
    if let Some(space) = &plan.space {
        let which = match space.name == space.above {
            true => "the namespace of that name".to_string(),
            false => format!("namespace {}", space.name),
        };
        let made = if space.is_here { "" } else { "created here; " };
        if !(space.is_here && space.is_located) {
            let _ =
                writeln!(text, "  Namespace {}: {made}{which} in {cluster} will be used for it", space.above);
        }
    }
    for item in &plan.items {
        let _ = writeln!(text, "  {}: {}", item.shown(), manner(item, cluster));
    }
    text
}

fn manner(item: &Item, cluster: &str) -> String {
    let because = match &item.why {
        Why::Asked => String::new(),
        Why::Needed(by) | Why::Held(by) => format!(", because {by} refers to it"),
    };
    match (item.is_done, &item.above) {
        (true, _) => "is already managed by Atoll".to_string(),
        (false, None) => {
            let alias = item.alias().map(|alias| format!(" as {alias}")).unwrap_or_default();
            format!("created here{alias}, placed on {cluster}, marked there{because}")
        }
        (false, Some(_)) => {
            let alias = item.alias().map(|alias| format!(" as {alias}")).unwrap_or_default();
            format!("exists here already{alias}; placed on {cluster}, marked there{because}")
        }
    }
}

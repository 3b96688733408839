//! `atoll adopt`: what runs in a cluster already goes on running there, and is Atoll's from then on.
//!
//! ```text
//!   plan: read below ─► what stands in the way? ─► what comes along ─► said
//!   act:  above: namespace, objects ─► below, as a trial: does anything change? ─► below: marks ─► above: placements
//!                     ◄──────────────────── undone, should any of this fail ────────────────────┘
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
        output::print("Nothing was done: this was only a trial.\n");
        return Ok(());
    }
    reached.check_brake().await?;
    act.perform().await?;
    let count = plan.items.iter().filter(|item| !item.is_done).count();
    let what = match count {
        0 => format!("Namespace {} of {} is now usable", plan.namespace_name(), reached.name),
        1 => "1 object is adopted".to_string(),
        count => format!("{count} objects are adopted"),
    };
    output::print(&format!("{what}. Nothing was restarted.\n"));
    Ok(())
}

/// What will be done.
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
            true => "the one".to_string(),
            false => format!("namespace {}", space.name),
        };
        let made = if space.is_here { "" } else { "made here; " };
        if !(space.is_here && space.is_located) {
            let _ =
                writeln!(text, "  Namespace {}: {made}{which} in {cluster} will stand for it", space.above);
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
        Why::Needed(by) | Why::Held(by) => format!(", for {by} refers to it"),
    };
    match (item.is_done, &item.above) {
        (true, _) => "is already Atoll's".to_string(),
        (false, None) => {
            let alias = item.alias().map(|alias| format!(" as {alias}")).unwrap_or_default();
            format!("created here{alias}, placed on {cluster}, marked there{because}")
        }
        (false, Some(_)) => {
            let alias = item.alias().map(|alias| format!(" as {alias}")).unwrap_or_default();
            format!("is here already{alias}; placed on {cluster}, marked there{because}")
        }
    }
}

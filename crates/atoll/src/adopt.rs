//! `atoll adopt`: brings objects that already run in a cluster under Atoll's management without restarting
//! them.
//!
//! ```text
//!   plan: read below ─► check for obstacles ─► add referenced objects ─► check what would be sent ─► print the plan
//!   run:  above: namespace, objects ─► below, dry run: does anything change? ─► below: marks ─► above: placements
//!                     ◄──────────────────── undone if any step fails ────────────────────┘
//! ```

mod executor;
mod obstacles;
mod plan;
mod sent_objects;

use std::fmt::Write;

use self::executor::Executor;
pub use self::plan::shown;
use self::plan::{AdoptionReason, Item, Plan};
use crate::advice::Failure;
use crate::cluster::connection::ClusterConnection;
use crate::command::AdoptOptions;
use crate::{output, process};

pub fn run(options: AdoptOptions) -> Result<(), String> {
    process::run_command(async { adopt(&options).await.map_err(String::from) })
}

async fn adopt(options: &AdoptOptions) -> Result<(), Failure> {
    let connection = ClusterConnection::open(&options.connection, &options.cluster).await?;
    let plan = Plan::make(&connection, options).await?;
    output::print(&summary(&connection, &plan));
    if plan.is_finished() {
        return Ok(());
    }
    let mut executor = Executor::new(&connection, &plan)?;
    if options.dry_run {
        executor.dry_run().await?;
        output::print("Nothing was changed: this was a dry run.\n");
        return Ok(());
    }
    connection.check_not_paused().await?;
    executor.perform().await?;
    let count = plan.items.iter().filter(|item| !item.is_done).count();
    let what = match count {
        0 => format!("Namespace {} of {} can be used now", plan.namespace_name(), connection.name),
        1 => "1 object is adopted".to_string(),
        count => format!("{count} objects are adopted"),
    };
    output::print(&format!("{what}. Nothing was restarted.\n"));
    Ok(())
}

/// Describes the planned steps for the user.
fn summary(connection: &ClusterConnection, plan: &Plan) -> String {
    let (cluster, workspace) = (&connection.name, &connection.fleet.session.current);
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
    if let Some(planned_namespace) = &plan.planned_namespace {
        let which = match planned_namespace.name == planned_namespace.above {
            true => "the namespace of that name".to_string(),
            false => format!("namespace {}", planned_namespace.name),
        };
        let made = if planned_namespace.exists_above { "" } else { "created here; " };
        if !(planned_namespace.exists_above && planned_namespace.has_locator) {
            let _ = writeln!(
                text,
                "  Namespace {}: {made}{which} in {cluster} will be used for it",
                planned_namespace.above
            );
        }
    }
    for item in &plan.items {
        let _ = writeln!(text, "  {}: {}", item.shown(), item_summary(item, cluster));
    }
    for sent in &plan.sent {
        let _ = writeln!(
            text,
            "  {}: exists here; will be sent to {cluster}, because {} refers to it",
            sent.shown, sent.referrer
        );
    }
    text
}

fn item_summary(item: &Item, cluster: &str) -> String {
    let because = match &item.why {
        AdoptionReason::Requested => String::new(),
        AdoptionReason::Dependent(by) | AdoptionReason::Referenced(by) => {
            format!(", because {by} refers to it")
        }
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

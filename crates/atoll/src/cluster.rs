//! `atoll cluster …`: joins, shows, changes and removes clusters.
//!
//! ```text
//!   person ── join ──► cluster: namespace, ServiceAccount, ClusterRole, claim      (rights: the syncer's roles)
//!                └───► control plane: Secret with that account's token, Cluster     (credential)
//!   person ─ remove ─► placements (placed_objects) ─► syncer deletes ─► Cluster, Secret, and the objects that join made
//! ```

pub mod confirmation;
pub mod connection;
pub mod contents;
pub mod control_plane_connection;
pub mod copied_marks;
mod describe;
mod drain;
pub mod join;
pub mod marked_objects;
pub mod object_release;
pub mod placed_objects;
pub mod remove;
mod running_workloads;
mod step_printer;

use atoll_fleet::ClusterView;
use atoll_fleet::marks::REGISTERED_IN;
use atoll_fleet::placement_refusal::{FENCED, is_fenced};
use atoll_meta::object;
use atoll_meta::views::TaintView;
use serde_json::{Value, json};

use self::control_plane_connection::{ControlPlaneConnection, KIND};
use crate::advice::{Failure, invocation};
use crate::command::{ClusterCommand, ClusterName, Connection};
use crate::output::errln;
use crate::output::{self, OutputFormat, OutputOptions};
use crate::process;
use crate::style::Paint;
use crate::workspace::session::ROOT;

pub use self::control_plane_connection::{cluster_names, suggestion};
pub use atoll_joining::api::Api;

pub fn run(command: ClusterCommand) -> Result<(), String> {
    process::run_command(async {
        let outcome = match command {
            ClusterCommand::Join(options) => join::run(*options).await,
            ClusterCommand::List { shown, connection } => list(shown, &connection).await,
            ClusterCommand::Describe { cluster } => describe::run(&cluster).await,
            ClusterCommand::Cordon { cluster } => cordon(&cluster, true).await,
            ClusterCommand::Uncordon { cluster } => cordon(&cluster, false).await,
            ClusterCommand::Drain(options) => drain::run(&options).await,
            ClusterCommand::Fence { cluster, lift: false, yes } => fence(&cluster, yes).await,
            ClusterCommand::Fence { cluster, lift: true, .. } => lift(&cluster).await,
            ClusterCommand::Remove {
                cluster,
                keep_workloads,
                lost,
                cluster_kubeconfig,
                cluster_context,
                yes,
            } => {
                let mode = match (keep_workloads, lost) {
                    (true, _) => remove::RemovalMode::Keep,
                    (_, true) => remove::RemovalMode::Lost,
                    _ => remove::RemovalMode::DeleteWorkloads,
                };
                let admin = cluster_kubeconfig.map(|file| (file, cluster_context));
                remove::run(&cluster, mode, admin, yes).await
            }
        };
        outcome.map_err(String::from)
    })
}

async fn list(shown: OutputOptions, connection: &Connection) -> Result<(), Failure> {
    let fleet = ControlPlaneConnection::open(connection)?;
    let accept = if matches!(shown.output, None | Some(OutputFormat::Wide)) {
        output::TABLE
    } else {
        "application/json"
    };
    let answer = fleet.list_serving(accept).await?;
    let items = || answer["items"].as_array().into_iter().flatten();
    let text = match shown.output {
        Some(OutputFormat::Json) => output::json(&answer),
        Some(OutputFormat::Yaml) => output::yaml(&answer)?,
        Some(OutputFormat::Name) => items().map(|item| format!("{KIND}/{}\n", object::name(item))).collect(),
        None | Some(OutputFormat::Wide) => {
            let (mut headers, mut rows) = output::columns(&answer, shown.output.is_some());
            // Below the root workspace, clusters may be inherited, so show where each is registered.
            if fleet.session.current != ROOT {
                let all = answer["rows"].as_array().into_iter().flatten();
                for (row, listed) in rows.iter_mut().zip(all) {
                    let from = object::annotation(&listed["object"], REGISTERED_IN).unwrap_or_default();
                    if from != fleet.session.current {
                        hide(&headers, row);
                    }
                    row.push(from.to_string());
                }
                headers.push("FROM".to_string());
            }
            output::table(&headers, &rows, Paint::stdout())
        }
    };
    if text.is_empty() || answer["rows"].as_array().is_some_and(Vec::is_empty) {
        let invocation = invocation();
        errln!(
            "There are no clusters in {}. Join one with: {invocation} cluster join NAME --kubeconfig FILE",
            fleet.session.current
        );
        return Ok(());
    }
    output::print(&text);
    Ok(())
}

/// Columns that are empty for clusters registered in a workspace above. Without `-` they would look like
/// those of a cluster that never sent a heartbeat.
const HIDDEN: [&str; 6] = ["MODE", "CPU", "MEMORY", "HEARTBEAT", "LATENCY", "ID"];

fn hide(headers: &[String], row: &mut [String]) {
    for (header, cell) in headers.iter().zip(row) {
        if HIDDEN.contains(&header.as_str()) {
            *cell = "-".to_string();
        }
    }
}

async fn cordon(cluster: &ClusterName, unschedulable: bool) -> Result<(), Failure> {
    let fleet = ControlPlaneConnection::open(&cluster.connection)?;
    let name = &cluster.name;
    let found = fleet.get(name).await?;
    let was = ClusterView::of(&found).is_unschedulable();
    let taints = drain::without_drain(&found).filter(|_| !unschedulable);
    if let Some(taints) = taints {
        fleet.change(name, &guarded(&found, json!({ "unschedulable": false, "taints": taints }))).await?;
    } else if was != unschedulable {
        fleet.change(name, &json!({ "spec": { "unschedulable": unschedulable } })).await?;
    }
    let already = if was == unschedulable { "already " } else { "" };
    output::print(&match unschedulable {
        true => format!("Cluster {name} is {already}cordoned: no new objects are placed there.\n"),
        false => format!("Cluster {name} is {already}schedulable: new objects are placed there.\n"),
    });
    if !unschedulable && is_fenced(&found) {
        errln!("It is still fenced; lift the fence with: {} cluster fence {name} --lift", invocation());
    }
    Ok(())
}

/// Only a person can know that nothing runs there: the control plane cannot tell it from a lost connection.
async fn fence(cluster: &ClusterName, yes: bool) -> Result<(), Failure> {
    let fleet = ControlPlaneConnection::open(&cluster.connection)?;
    let name = &cluster.name;
    let found = fleet.get(name).await?;
    if is_fenced(&found) {
        output::print(&format!("Cluster {name} is already fenced.\n"));
        return Ok(());
    }
    let warning = format!(
        "Fencing {name} declares that nothing runs there any more and that nothing will: it is switched off, or cut off from \
         networks and disks.\nWorkloads that must run only once are then started on other clusters. If it still runs there, it runs twice."
    );
    confirmation::confirm(&warning, "Is that the case?", yes)?;
    let mut taints: Vec<Value> = ClusterView::of(&found).taints().map(|taint| taint.json().clone()).collect();
    taints.push(json!({ "key": FENCED, "effect": "NoExecute" }));
    fleet.change(name, &guarded(&found, json!({ "unschedulable": true, "taints": taints }))).await?;
    output::print(&format!("Cluster {name} is fenced.\n"));
    Ok(())
}

async fn lift(cluster: &ClusterName) -> Result<(), Failure> {
    let fleet = ControlPlaneConnection::open(&cluster.connection)?;
    let name = &cluster.name;
    let found = fleet.get(name).await?;
    if !is_fenced(&found) {
        output::print(&format!("Cluster {name} is not fenced.\n"));
        return Ok(());
    }
    let taints = ClusterView::of(&found).taints().filter(|taint| taint.key() != FENCED);
    let taints: Vec<&Value> = taints.map(TaintView::json).collect();
    fleet.change(name, &guarded(&found, json!({ "taints": taints }))).await?;
    let invocation = invocation();
    output::print(&format!(
        "Cluster {name} is no longer fenced. It is still cordoned; open it with: {invocation} cluster uncordon {name}\n"
    ));
    Ok(())
}

/// A patch of a spec that is refused if the object has changed since it was read, because it replaces a whole
/// list.
fn guarded(found: &Value, spec: Value) -> Value {
    json!({ "metadata": { "resourceVersion": found["metadata"]["resourceVersion"] }, "spec": spec })
}

/// The path of an API path in a workspace of the control plane.
pub fn in_workspace(workspace: &str, path: &str) -> String {
    format!("/clusters/{}{path}", crate::workspace::session::encoded(workspace))
}

//! `atoll cluster describe`: shows everything that is known about a cluster.

// upstream: staging/src/k8s.io/kubectl/pkg/describe/describe.go

use std::fmt::Write;

use atoll_fleet::{ClusterView, Pause};
use atoll_meta::object;
use serde_json::Value;

use super::control_plane_connection::ControlPlaneConnection;
use super::placed_objects;
use super::running_workloads::{self, HEADERS, RunningWorkloads};
use crate::advice::Failure;
use crate::command::ClusterName;
use crate::output;
use crate::style::Paint;
use atoll_joining::credential::{self, EXPIRES};

pub async fn run(cluster: &ClusterName) -> Result<(), Failure> {
    let fleet = ControlPlaneConnection::open(&cluster.connection)?;
    let found = fleet.get(&cluster.name).await?;
    // The user may lack the right to read these; show the rest anyway.
    let secret = fleet.api.find(&credential::secret_path(&cluster.name)).await.ok().flatten();
    let expires = secret.as_ref().and_then(|secret| secret["metadata"]["annotations"][EXPIRES].as_str());
    let placed = placed_objects::read(&fleet, &cluster.name).await.ok();
    let mut found = found;
    // The Lease is more recent than the status.
    if let Some(heartbeat) = fleet.heartbeat(&cluster.name).await {
        found["status"]["syncer"]["lastHeartbeatTime"] = heartbeat.into();
    }
    let paint = Paint::stdout();
    output::print(&text(&found, expires, placed.map(|placed| placed.counts()), paint));
    // For a managed cluster, the placed objects are shown instead.
    if ClusterView::of(&found).is_observed() {
        let running = running_workloads::find(&found, secret.as_ref(), &fleet, crate::orphans::now()).await;
        output::print(&running_section(&running, paint));
    }
    Ok(())
}

/// Width of the column with the field names.
const WIDTH: usize = 20;

fn text(cluster: &Value, expires: Option<&str>, placed: Option<String>, paint: Paint) -> String {
    let (spec, status) = (&cluster["spec"], &cluster["status"]);
    let mut text = String::new();
    let mut line = |name: &str, value: &str| {
        let value = if value.is_empty() { "<none>" } else { value };
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{:WIDTH$}{value}", format!("{name}:"));
    };
    line("Name", object::name(cluster));
    line("Labels", &pairs(&cluster["metadata"]["labels"], "="));
    line("Created", text_of(&cluster["metadata"]["creationTimestamp"]));
    line("Mode", text_of(&spec["mode"]));
    line("Access", text_of(&spec["access"]));
    line("Cordoned", if spec["unschedulable"] == true { "yes" } else { "no" });
    line("Paused", &paused(cluster));
    line("Taints", &taints(&spec["taints"]));
    line("Limits", &pairs(&spec["limits"], " "));
    let secret = &spec["credentials"]["secret"];
    line(
        "Credential",
        &match (secret.is_object(), expires) {
            (false, _) => String::new(),
            (true, None) => format!("Secret {}/{}", text_of(&secret["namespace"]), text_of(&secret["name"])),
            (true, Some(expires)) => {
                format!(
                    "Secret {}/{}, valid until {expires}",
                    text_of(&secret["namespace"]),
                    text_of(&secret["name"])
                )
            }
        },
    );
    line("Identity", text_of(&status["id"]));
    line("Kubernetes", text_of(&status["kubernetesVersion"]));
    let nodes = &status["nodes"];
    line(
        "Nodes",
        &match nodes["total"].as_i64() {
            Some(total) => format!("{total}, {} ready", nodes["ready"].as_i64().unwrap_or_default()),
            None => String::new(),
        },
    );
    line("Region", text_of(&status["region"]));
    line("Zones", &joined(&status["zones"]));
    line("Latency", text_of(&status["latency"]));
    let syncer = &status["syncer"];
    line("Syncer", &joined(&serde_json::json!([syncer["version"], syncer["instance"]])));
    line("Last heartbeat", text_of(&syncer["lastHeartbeatTime"]));
    if let Some(placed) = placed {
        line("Placed there", &placed);
    }
    text.push_str(&resources(status, paint));
    text.push_str(&free(&status["free"], paint));
    text.push_str(&conditions(&status["conditions"], paint));
    text
}

/// Lists the workloads that run in an observed cluster.
fn running_section(running: &Result<RunningWorkloads, Failure>, paint: Paint) -> String {
    let running = match running {
        Ok(running) => running,
        Err(failure) => return format!("Running there: unknown: {failure}\n"),
    };
    let mut text = match running.rows.is_empty() {
        true => "Running there: nothing\n".to_string(),
        false => section("Running there", &HEADERS, &running.rows, paint),
    };
    // Writing to a string cannot fail.
    if running.more > 0 {
        let _ = writeln!(text, "  and {} more", running.more);
    }
    if !running.hidden.is_empty() {
        let _ = writeln!(text, "  Not all can be listed: {}", running.hidden.join(", "));
    }
    text
}

/// Whether the cluster is paused, and the reason.
fn paused(cluster: &Value) -> String {
    match (ClusterView::of(cluster).reported_pause(), Pause::of_cluster(cluster)) {
        (Some(why), _) => format!("yes: {why}"),
        (None, Some(_)) => "yes, once its syncer has received it".to_string(),
        (None, None) => "no".to_string(),
    }
}

fn text_of(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn shown(value: &Value) -> String {
    value
        .as_str()
        .map_or_else(|| if value.is_null() { String::new() } else { value.to_string() }, str::to_string)
}

fn joined(list: &Value) -> String {
    let words: Vec<&str> =
        list.as_array().into_iter().flatten().map(text_of).filter(|it| !it.is_empty()).collect();
    words.join(", ")
}

fn pairs(map: &Value, between: &str) -> String {
    let pairs = map.as_object().into_iter().flatten();
    pairs.map(|(name, value)| format!("{name}{between}{}", shown(value))).collect::<Vec<_>>().join(", ")
}

/// Formats taints as kubectl does for nodes.
fn taints(list: &Value) -> String {
    let taint = |taint: &Value| {
        let equals = if text_of(&taint["value"]).is_empty() { "" } else { "=" };
        format!(
            "{}{equals}{}:{}",
            text_of(&taint["key"]),
            text_of(&taint["value"]),
            text_of(&taint["effect"])
        )
    };
    list.as_array().into_iter().flatten().map(taint).collect::<Vec<_>>().join(", ")
}

fn section(title: &str, headers: &[&str], rows: &[Vec<String>], paint: Paint) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let headers: Vec<String> = headers.iter().map(|header| (*header).to_string()).collect();
    let table = output::table(&headers, rows, paint);
    let lines: String = table.lines().map(|line| format!("  {}\n", line.trim_end())).collect();
    format!("{title}:\n{lines}")
}

fn resources(status: &Value, paint: Paint) -> String {
    let names = status["capacity"].as_object().into_iter().flatten().map(|(name, _)| name);
    let row = |name: &String| {
        let amount = |field: &str| shown(&status[field][name.as_str()]);
        vec![name.clone(), amount("capacity"), amount("allocatable"), amount("requested")]
    };
    let rows: Vec<Vec<String>> = names.map(row).collect();
    section("Resources", &["NAME", "CAPACITY", "ALLOCATABLE", "REQUESTED"], &rows, paint)
}

fn free(rows: &Value, paint: Paint) -> String {
    let amount = |row: &Value| {
        let others = row.as_object().into_iter().flatten().filter(|(name, _)| *name != "nodes");
        let amounts = others.map(|(name, value)| format!("{name} {}", shown(value)));
        vec![shown(&row["nodes"]), amounts.collect::<Vec<_>>().join(", ")]
    };
    let rows: Vec<Vec<String>> = rows.as_array().into_iter().flatten().map(amount).collect();
    section("Free", &["NODES", "ON EACH"], &rows, paint)
}

fn conditions(list: &Value, paint: Paint) -> String {
    let row = |condition: &Value| {
        let fields = ["type", "status", "lastTransitionTime", "reason", "message"];
        fields.iter().map(|field| shown(&condition[*field])).collect()
    };
    let rows: Vec<Vec<String>> = list.as_array().into_iter().flatten().map(row).collect();
    section("Conditions", &["TYPE", "STATUS", "SINCE", "REASON", "MESSAGE"], &rows, paint)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn descriptions_contain_all_fields() {
        let cluster = json!({
            "metadata": { "name": "east", "creationTimestamp": "2026-11-16T01:00:00Z", "labels": { "tier": "gold" } },
            "spec": {
                "mode": "push", "access": "manage", "limits": { "cpu": "100" },
                "taints": [{ "key": "a", "value": "b", "effect": "NoSchedule" }, { "key": "c", "effect": "NoExecute" }],
                "credentials": { "secret": { "namespace": "atoll-system", "name": "cluster-east" } },
            },
            "status": {
                "id": "5a", "kubernetesVersion": "v1.36.4", "nodes": { "total": 3, "ready": 2 },
                "capacity": { "cpu": "12" }, "allocatable": { "cpu": "11" }, "requested": { "cpu": "3" },
                "free": [{ "cpu": "3", "memory": "12Gi", "nodes": 2 }],
                "region": "eu", "zones": ["a", "b"], "latency": "3ms",
                "syncer": { "version": "0.1.0", "lastHeartbeatTime": "2026-11-16T01:02:03Z" },
                "conditions": [{
                    "type": "Ready", "status": "True", "reason": "Synced", "message": "all is well",
                    "lastTransitionTime": "2026-11-16T01:00:05Z",
                }],
            },
        });
        let expires = Some("2027-11-16T01:00:00Z");
        let found = text(&cluster, expires, Some("2 configmaps".into()), Paint::PLAIN);
        let expected = "\
Name:               east
Labels:             tier=gold
Created:            2026-11-16T01:00:00Z
Mode:               push
Access:             manage
Cordoned:           no
Paused:             no
Taints:             a=b:NoSchedule, c:NoExecute
Limits:             cpu 100
Credential:         Secret atoll-system/cluster-east, valid until 2027-11-16T01:00:00Z
Identity:           5a
Kubernetes:         v1.36.4
Nodes:              3, 2 ready
Region:             eu
Zones:              a, b
Latency:            3ms
Syncer:             0.1.0
Last heartbeat:     2026-11-16T01:02:03Z
Placed there:       2 configmaps
Resources:
  NAME   CAPACITY   ALLOCATABLE   REQUESTED
  cpu    12         11            3
Free:
  NODES   ON EACH
  2       cpu 3, memory 12Gi
Conditions:
  TYPE    STATUS   SINCE                  REASON   MESSAGE
  Ready   True     2026-11-16T01:00:05Z   Synced   all is well
";
        assert_eq!(found, expected);
        let row = ["shop", "Deployment", "web", "2/3", "5d"].map(str::to_string).to_vec();
        let running = RunningWorkloads { rows: vec![row], more: 7, hidden: vec!["Pod"] };
        let expected = "\
Running there:
  NAMESPACE   KIND         NAME   READY   AGE
  shop        Deployment   web    2/3     5d
  and 7 more
  Not all can be listed: Pod
";
        assert_eq!(running_section(&Ok(running), Paint::PLAIN), expected);
        assert_eq!(
            running_section(&Ok(RunningWorkloads::default()), Paint::PLAIN),
            "Running there: nothing\n"
        );
        let hidden = running_section(&Err(Failure::from("no credential".to_string())), Paint::PLAIN);
        assert_eq!(hidden, "Running there: unknown: no credential\n");
        assert!(text(&json!({}), None, None, Paint::PLAIN).contains("Nodes:              <none>\n"));
    }
}

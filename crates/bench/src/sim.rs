//! Creates one large Deployment on a simulated cluster and measures the time until all replicas are
//! available: with Atoll's controllers, scheduler and nodes, and with the real ones and KWOK.

use std::fs;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::connection::Target;
use crate::error::{BenchError, BenchResult};
use crate::machine::BackgroundLoad;
use crate::report::{self, Goal, TableRow, Unit};
use crate::server::{RunningServer, ServerKind, runtime};
use crate::session::Session;
use crate::{process, progress};

/// KWOK's stages for nodes and pods.
const STAGES: &str = include_str!("sim/stages.yaml");
/// Configuration of kube-scheduler, with high client rate limits.
const SCHEDULER: &str = include_str!("sim/scheduler.yaml");
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
/// Maximum time without a change of the number of available replicas.
const STALL_TIMEOUT: Duration = Duration::from_secs(120);
/// Maximum time in total.
const LIMIT: Duration = Duration::from_secs(15 * 60);
/// Number of attempts to start. Ports are chosen before they are used, and another process may take one of
/// them.
const ATTEMPTS: usize = 3;
/// Interval between polls.
const POLL_INTERVAL: Duration = Duration::from_millis(25);

struct SimMeasurement {
    available: Duration,
    memory: u64,
    busy: Duration,
}

pub fn run(session: &Session) -> BenchResult<()> {
    let (replicas, nodes) = if session.options.quick { (1000, 100) } else { (10_000, 1000) };
    let mut background = BackgroundLoad::start()?;
    let mut numbers = Vec::new();
    for kind in session.kinds() {
        progress(&format!("{replicas} replicas over {nodes} nodes: {}", whole_name(kind)));
        let running = start(session, kind, nodes)?;
        numbers.push(measure(&running, replicas)?);
        background.exclude(running.stop()?);
    }
    let share = background.share()?;
    let line = |what: &str, unit, goal, of: fn(&SimMeasurement) -> f64| TableRow {
        what: what.into(),
        unit,
        atoll: numbers.first().map(of),
        kubernetes: numbers.get(1).map(of),
        goal,
    };
    let lines = [
        line("time until all are available", Unit::Seconds, Goal::Most(3.0), |numbers| {
            numbers.available.as_secs_f64()
        }),
        line("  CPU time of all processes", Unit::Seconds, Goal::None, |numbers| numbers.busy.as_secs_f64()),
        line("memory of all processes", Unit::Bytes, Goal::None, |numbers| numbers.memory as f64),
    ];
    println!("{}", report::table(&lines));
    session.footnotes(&background, share);
    println!(
        "One Deployment of {replicas} replicas over {nodes} simulated nodes that start pods immediately. Atoll: `atoll \
         sim`, one process, without fsync. Compared with: kube-apiserver, etcd (with fsync), \
         kube-controller-manager, kube-scheduler and KWOK, with high client rate limits."
    );
    session.save(json!({
        "bench": "sim",
        "others_share": share,
        "replicas": replicas,
        "nodes": nodes,
        "table": report::json(&lines),
    }))
}

/// Starts a cluster and waits until its nodes are ready.
fn start(session: &Session, kind: ServerKind, nodes: usize) -> BenchResult<RunningServer> {
    let mut attempts = 1..ATTEMPTS;
    loop {
        match (start_once(session, kind, nodes), attempts.next()) {
            (Err(error), Some(_)) => progress(&format!("retrying: {error}")),
            (outcome, _) => return outcome,
        }
    }
}

fn start_once(session: &Session, kind: ServerKind, nodes: usize) -> BenchResult<RunningServer> {
    let directory = session.directory(kind);
    let running = match kind {
        ServerKind::Atoll => session.programs.start_sim(&directory, nodes)?,
        ServerKind::Kubernetes => {
            let running = session.programs.start(kind, &directory)?;
            for (name, content) in [("stages.yaml", STAGES), ("scheduler.yaml", SCHEDULER)] {
                let path = directory.join(name);
                fs::write(&path, content).map_err(|error| BenchError::file(&path, &error))?;
            }
            session.programs.start_other_components(running, &directory)?
        }
    };
    let target = running.target.clone();
    runtime()?.block_on(with_timeout(async {
        if kind == ServerKind::Kubernetes {
            for number in 1..=nodes {
                target.call("POST", "/api/v1/nodes", &node(number)).await?;
            }
        }
        wait_for("ready nodes", nodes as u64, async || ready_nodes(&target).await).await
    }))?;
    Ok(running)
}

fn whole_name(kind: ServerKind) -> &'static str {
    match kind {
        ServerKind::Atoll => "atoll sim",
        ServerKind::Kubernetes => "kube-apiserver, kube-controller-manager, kube-scheduler, KWOK",
    }
}

fn measure(running: &RunningServer, replicas: u64) -> BenchResult<SimMeasurement> {
    let target = &running.target;
    let runtime = runtime()?;
    let before = process::busy(&running.processes)?;
    let began = Instant::now();
    runtime.block_on(with_timeout(async {
        target.call("POST", DEPLOYMENTS, &deployment(replicas)).await?;
        wait_for("available replicas", replicas, async || available(target).await).await
    }))?;
    let available = began.elapsed();
    let busy = process::busy(&running.processes)?.saturating_sub(before);
    Ok(SimMeasurement { available, busy, memory: process::memory(&running.processes)?.now })
}

/// Limits the time of `work`, in case a server stops responding.
async fn with_timeout(work: impl Future<Output = BenchResult<()>>) -> BenchResult<()> {
    let late = |_| BenchError::Response(format!("timed out after {} minutes", LIMIT.as_secs() / 60));
    tokio::time::timeout(LIMIT, work).await.map_err(late)?
}

/// Polls until `count` returns at least `wanted`. Fails if the count stops growing.
async fn wait_for(
    what: &str,
    wanted: u64,
    mut count: impl AsyncFnMut() -> BenchResult<u64>,
) -> BenchResult<()> {
    let (mut most, mut changed) = (0, Instant::now());
    loop {
        let now = count().await?;
        if now >= wanted {
            return Ok(());
        }
        if now > most {
            (most, changed) = (now, Instant::now());
        }
        if changed.elapsed() > STALL_TIMEOUT {
            return Err(BenchError::Response(format!("no progress: {now} of {wanted} {what}")));
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

async fn ready_nodes(target: &Target) -> BenchResult<u64> {
    let list: Value = parsed(&target.call("GET", "/api/v1/nodes", "").await?)?;
    let is_ready = |node: &&Value| {
        let mut conditions = node["status"]["conditions"].as_array().into_iter().flatten();
        let taints = node["spec"]["taints"].as_array().map_or(0, Vec::len);
        taints == 0
            && conditions.any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
    };
    Ok(list["items"].as_array().into_iter().flatten().filter(is_ready).count() as u64)
}

async fn available(target: &Target) -> BenchResult<u64> {
    let deployment = target.call("GET", &format!("{DEPLOYMENTS}/large"), "").await?;
    Ok(parsed(&deployment)?["status"]["availableReplicas"].as_u64().unwrap_or(0))
}

fn parsed(body: &[u8]) -> BenchResult<Value> {
    serde_json::from_slice(body).map_err(|error| BenchError::Response(error.to_string()))
}

fn node(number: usize) -> String {
    let name = format!("node-{number}");
    json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
    })
    .to_string()
}

fn deployment(replicas: u64) -> String {
    let resources = json!({"requests": {"cpu": "10m", "memory": "16Mi"}});
    json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "large"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": "large"}},
            "template": {
                "metadata": {"labels": {"app": "large"}},
                "spec": {"containers": [{"name": "c", "image": "large:1", "resources": resources}]},
            },
        },
    })
    .to_string()
}

//! One large Deployment on a simulated cluster: how long until all of it is available, with Atoll's own controllers,
//! scheduler and nodes, and with the real ones and KWOK.

use std::fs;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::connection::Target;
use crate::error::{BenchError, Outcome};
use crate::machine::Others;
use crate::report::{self, Goal, Line, Unit};
use crate::server::{Kind, Running, runtime};
use crate::session::Session;
use crate::{process, progress};

/// What nodes are made by KWOK, and what becomes of them and of their pods.
const STAGES: &str = include_str!("sim/stages.yaml");
/// What the real scheduler must not be held up by.
const SCHEDULER: &str = include_str!("sim/scheduler.yaml");
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
/// How long the number of available replicas may stay the same before it is given up.
const PATIENCE: Duration = Duration::from_secs(120);
/// How long it may take in all.
const LIMIT: Duration = Duration::from_secs(15 * 60);
/// Ports are found before they are used, and somebody else may be faster.
const ATTEMPTS: usize = 3;
/// Between two looks.
const LOOK: Duration = Duration::from_millis(25);

struct Numbers {
    available: Duration,
    memory: u64,
    busy: Duration,
}

pub fn run(session: &Session) -> Outcome<()> {
    let (replicas, nodes) = if session.options.quick { (1000, 100) } else { (10_000, 1000) };
    let mut others = Others::begin()?;
    let mut numbers = Vec::new();
    for kind in session.kinds() {
        progress(&format!("{replicas} replicas over {nodes} nodes: {}", whole_name(kind)));
        let running = start(session, kind, nodes)?;
        numbers.push(measure(&running, replicas)?);
        others.ours(running.stop()?);
    }
    let share = others.share()?;
    let line = |what: &str, unit, goal, of: fn(&Numbers) -> f64| Line {
        what: what.into(),
        unit,
        atoll: numbers.first().map(of),
        kubernetes: numbers.get(1).map(of),
        goal,
    };
    let lines = [
        line("until all are available", Unit::Seconds, Goal::Most(3.0), |numbers| {
            numbers.available.as_secs_f64()
        }),
        line("  all programs busy for", Unit::Seconds, Goal::None, |numbers| numbers.busy.as_secs_f64()),
        line("memory of all programs", Unit::Bytes, Goal::None, |numbers| numbers.memory as f64),
    ];
    println!("{}", report::table(&lines));
    session.footnotes(&others, share);
    println!(
        "One Deployment of {replicas} replicas over {nodes} simulated nodes that start pods at once. Atoll: `atoll sim`, \
         one process, which syncs nothing to the disk. Beside it: kube-apiserver, etcd (which syncs), \
         kube-controller-manager, kube-scheduler and KWOK with limits on requests that do not bind."
    );
    session.save(json!({
        "bench": "sim",
        "others_share": share,
        "replicas": replicas,
        "nodes": nodes,
        "table": report::json(&lines),
    }))
}

/// A cluster whose nodes are ready.
fn start(session: &Session, kind: Kind, nodes: usize) -> Outcome<Running> {
    let mut attempts = 1..ATTEMPTS;
    loop {
        match (start_once(session, kind, nodes), attempts.next()) {
            (Err(error), Some(_)) => progress(&format!("once more: {error}")),
            (outcome, _) => return outcome,
        }
    }
}

fn start_once(session: &Session, kind: Kind, nodes: usize) -> Outcome<Running> {
    let directory = session.directory(kind);
    let running = match kind {
        Kind::Atoll => session.programs.start_sim(&directory, nodes)?,
        Kind::Kubernetes => {
            let running = session.programs.start(kind, &directory)?;
            for (name, content) in [("stages.yaml", STAGES), ("scheduler.yaml", SCHEDULER)] {
                let path = directory.join(name);
                fs::write(&path, content).map_err(|error| BenchError::file(&path, &error))?;
            }
            session.programs.surround(running, &directory)?
        }
    };
    let target = running.target.clone();
    runtime()?.block_on(in_time(async {
        if kind == Kind::Kubernetes {
            for number in 1..=nodes {
                target.call("POST", "/api/v1/nodes", &node(number)).await?;
            }
        }
        until("all nodes are ready", nodes as u64, async || ready_nodes(&target).await).await
    }))?;
    Ok(running)
}

fn whole_name(kind: Kind) -> &'static str {
    match kind {
        Kind::Atoll => "atoll sim",
        Kind::Kubernetes => "kube-apiserver, kube-controller-manager, kube-scheduler, KWOK",
    }
}

fn measure(running: &Running, replicas: u64) -> Outcome<Numbers> {
    let target = &running.target;
    let runtime = runtime()?;
    let before = process::busy(&running.processes)?;
    let began = Instant::now();
    runtime.block_on(in_time(async {
        target.call("POST", DEPLOYMENTS, &deployment(replicas)).await?;
        until("all replicas are available", replicas, async || available(target).await).await
    }))?;
    let available = began.elapsed();
    let busy = process::busy(&running.processes)?.saturating_sub(before);
    Ok(Numbers { available, busy, memory: process::memory(&running.processes)?.now })
}

/// A server that does not answer is not waited for without end.
async fn in_time(work: impl Future<Output = Outcome<()>>) -> Outcome<()> {
    let late = |_| BenchError::Answer(format!("it was not done in {} minutes", LIMIT.as_secs() / 60));
    tokio::time::timeout(LIMIT, work).await.map_err(late)?
}

/// Looks until there are `wanted`, as long as there are more each time.
async fn until(what: &str, wanted: u64, mut count: impl AsyncFnMut() -> Outcome<u64>) -> Outcome<()> {
    let (mut most, mut changed) = (0, Instant::now());
    loop {
        let now = count().await?;
        if now >= wanted {
            return Ok(());
        }
        if now > most {
            (most, changed) = (now, Instant::now());
        }
        if changed.elapsed() > PATIENCE {
            return Err(BenchError::Answer(format!("{now} of {wanted}, and no more, until {what}")));
        }
        tokio::time::sleep(LOOK).await;
    }
}

async fn ready_nodes(target: &Target) -> Outcome<u64> {
    let list: Value = parsed(&target.call("GET", "/api/v1/nodes", "").await?)?;
    let is_ready = |node: &&Value| {
        let mut conditions = node["status"]["conditions"].as_array().into_iter().flatten();
        let taints = node["spec"]["taints"].as_array().map_or(0, Vec::len);
        taints == 0
            && conditions.any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
    };
    Ok(list["items"].as_array().into_iter().flatten().filter(is_ready).count() as u64)
}

async fn available(target: &Target) -> Outcome<u64> {
    let deployment = target.call("GET", &format!("{DEPLOYMENTS}/large"), "").await?;
    Ok(parsed(&deployment)?["status"]["availableReplicas"].as_u64().unwrap_or(0))
}

fn parsed(body: &[u8]) -> Outcome<Value> {
    serde_json::from_slice(body).map_err(|error| BenchError::Answer(error.to_string()))
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

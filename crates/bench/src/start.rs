//! Measures the start of Atoll with many objects: time until ready, CPU time and memory.

use std::time::Duration;

use serde_json::{Value, json};

use crate::api::{config_map, config_maps};
use crate::connection::Target;
use crate::error::{BenchError, BenchResult};
use crate::load::{Load, Requests, Until};
use crate::machine::BackgroundLoad;
use crate::report::{self, Goal, TableRow, Unit};
use crate::server::{RunningServer, ServerKind, runtime};
use crate::session::Session;
use crate::{process, progress};

const CONNECTIONS: usize = 32;
/// Number of objects in each namespace.
const SHARE: u64 = 10_000;
/// Number of restarts with all objects.
const STARTS: usize = 3;

/// Measurements of one start.
struct Start {
    ready: Duration,
    /// CPU time until ready.
    busy: Duration,
    memory: u64,
}

pub fn run(session: &Session) -> BenchResult<()> {
    let count = if session.options.quick { 50_000 } else { 250_000 };
    let mut background = BackgroundLoad::start()?;
    let mut running = session.programs.start(ServerKind::Atoll, &session.directory(ServerKind::Atoll))?;
    let empty = running.ready;
    let there = runtime()?.block_on(total(&running.target))?;
    progress(&format!("{count} creates"));
    create(&running, count)?;
    let mut starts = Vec::new();
    for number in 1..=STARTS {
        progress(&format!("start {number} of {STARTS}"));
        background.exclude(process::busy(&running.processes)?);
        running = session.programs.restart(running)?;
        let busy = process::busy(&running.processes)?;
        let memory = process::memory(&running.processes)?.now;
        starts.push(Start { ready: running.ready, busy, memory });
        let found = runtime()?.block_on(total(&running.target))?;
        if found != there + count {
            let wanted = there + count;
            return Err(BenchError::Response(format!("{found} of {wanted} objects exist after a restart")));
        }
    }
    background.exclude(running.stop()?);
    let share = background.share()?;
    let lines = lines(count, empty, &starts);
    println!("{}", report::table(&lines));
    session.footnotes(&background, share);
    println!(
        "{count} ConfigMaps of {} bytes in the request; mean of {STARTS} restarts, right after the last write.",
        config_map().len()
    );
    session.save(json!({
        "bench": "start",
        "others_share": share,
        "count": count,
        "table": report::json(&lines),
        "ready_seconds": starts.iter().map(|start| start.ready.as_secs_f64()).collect::<Vec<_>>(),
    }))
}

fn create(running: &RunningServer, count: u64) -> BenchResult<()> {
    let target = &running.target;
    for number in 0..count / SHARE {
        let namespace = format!("n-{number}");
        let body = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": namespace } });
        runtime()?.block_on(target.call("POST", "/api/v1/namespaces", &body.to_string()))?;
        let load = Load {
            target: target.clone(),
            connections: CONNECTIONS,
            requests: Requests::new(target.request("POST", &config_maps(&namespace), &config_map()), 0),
            until: Until::Count(SHARE),
            status: 201,
            length: 1..=1 << 20,
        };
        load.run()?;
    }
    Ok(())
}

/// Returns the number of ConfigMaps on the server.
async fn total(target: &Target) -> BenchResult<u64> {
    let path = "/api/v1/configmaps?limit=1";
    let list: Value = serde_json::from_slice(&target.call("GET", path, "").await?)
        .map_err(|error| BenchError::Response(format!("GET {path} is not JSON: {error}")))?;
    let shown = list["items"].as_array().map_or(0, Vec::len) as u64;
    Ok(shown + list["metadata"]["remainingItemCount"].as_u64().unwrap_or(0))
}

fn lines(count: u64, empty: Duration, starts: &[Start]) -> Vec<TableRow> {
    let mean = |value: &dyn Fn(&Start) -> f64| {
        (!starts.is_empty()).then(|| starts.iter().map(value).sum::<f64>() / starts.len() as f64)
    };
    let line = |what: String, unit, atoll, goal| TableRow { what, unit, atoll, kubernetes: None, goal };
    vec![
        line(
            format!("time to ready with {count} objects"),
            Unit::Seconds,
            mean(&|start| start.ready.as_secs_f64()),
            Goal::AtMostValue(1.5),
        ),
        line(
            "  CPU time until then".into(),
            Unit::Seconds,
            mean(&|start| start.busy.as_secs_f64()),
            Goal::None,
        ),
        line("  memory then".into(), Unit::Bytes, mean(&|start| start.memory as f64), Goal::None),
        line("time to ready without objects".into(), Unit::Seconds, Some(empty.as_secs_f64()), Goal::None),
    ]
}

//! Starting with many objects: how long Atoll takes to be ready, and what that costs.

use std::time::Duration;

use serde_json::{Value, json};

use crate::api::{config_map, config_maps};
use crate::connection::Target;
use crate::error::{BenchError, Outcome};
use crate::load::{Load, Requests, Until};
use crate::machine::Others;
use crate::report::{self, Goal, Line, Unit};
use crate::server::{Kind, Running, runtime};
use crate::session::Session;
use crate::{process, progress};

const CONNECTIONS: usize = 32;
/// Objects in each namespace.
const SHARE: u64 = 10_000;
/// How often it is started with all of them.
const STARTS: usize = 3;

/// One start.
struct Start {
    ready: Duration,
    /// How long it kept cores busy until then.
    busy: Duration,
    memory: u64,
}

pub fn run(session: &Session) -> Outcome<()> {
    let count = if session.options.quick { 50_000 } else { 250_000 };
    let mut others = Others::begin()?;
    let mut running = session.programs.start(Kind::Atoll, &session.directory(Kind::Atoll))?;
    let empty = running.ready;
    let there = runtime()?.block_on(total(&running.target))?;
    progress(&format!("{count} creates"));
    create(&running, count)?;
    let mut starts = Vec::new();
    for number in 1..=STARTS {
        progress(&format!("start {number} of {STARTS}"));
        others.ours(process::busy(&running.processes)?);
        running = session.programs.restart(running)?;
        let busy = process::busy(&running.processes)?;
        let memory = process::memory(&running.processes)?.now;
        starts.push(Start { ready: running.ready, busy, memory });
        let found = runtime()?.block_on(total(&running.target))?;
        if found != there + count {
            let wanted = there + count;
            return Err(BenchError::Answer(format!("of {wanted} objects {found} are there after a restart")));
        }
    }
    others.ours(running.stop()?);
    let share = others.share()?;
    let lines = lines(count, empty, &starts);
    println!("{}", report::table(&lines));
    session.footnotes(&others, share);
    println!(
        "{count} ConfigMaps of {} bytes as they are sent, restarted {STARTS} times right after the last was written; means.",
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

fn create(running: &Running, count: u64) -> Outcome<()> {
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

/// How many ConfigMaps the server has.
async fn total(target: &Target) -> Outcome<u64> {
    let path = "/api/v1/configmaps?limit=1";
    let list: Value = serde_json::from_slice(&target.call("GET", path, "").await?)
        .map_err(|error| BenchError::Answer(format!("GET {path} is not JSON: {error}")))?;
    let shown = list["items"].as_array().map_or(0, Vec::len) as u64;
    Ok(shown + list["metadata"]["remainingItemCount"].as_u64().unwrap_or(0))
}

fn lines(count: u64, empty: Duration, starts: &[Start]) -> Vec<Line> {
    let mean = |value: &dyn Fn(&Start) -> f64| {
        (!starts.is_empty()).then(|| starts.iter().map(value).sum::<f64>() / starts.len() as f64)
    };
    let line = |what: String, unit, atoll, goal| Line { what, unit, atoll, kubernetes: None, goal };
    vec![
        line(
            format!("ready with {count} objects"),
            Unit::Seconds,
            mean(&|start| start.ready.as_secs_f64()),
            Goal::AtMostValue(1.5),
        ),
        line(
            "  server busy until then".into(),
            Unit::Seconds,
            mean(&|start| start.busy.as_secs_f64()),
            Goal::None,
        ),
        line("  memory then".into(), Unit::Bytes, mean(&|start| start.memory as f64), Goal::None),
        line("ready at the first start".into(), Unit::Seconds, Some(empty.as_secs_f64()), Goal::None),
    ]
}

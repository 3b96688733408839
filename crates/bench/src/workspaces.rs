//! Measures many empty workspaces in one Atoll: the rate of creation and deletion, and the memory per
//! workspace.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::connection::Target;
use crate::error::{BenchError, BenchResult};
use crate::load::{Load, Measurement, NUMBER, Requests, Until};
use crate::machine::BackgroundLoad;
use crate::report::{self, Goal, TableRow, Unit};
use crate::server::{RunningServer, ServerKind, runtime};
use crate::session::Session;
use crate::{process, progress};

const CONNECTIONS: usize = 32;
const PATH: &str = "/apis/atoll.dev/v1alpha1/workspaces";
/// Idle time before the memory of a server is measured.
const REST: Duration = Duration::from_secs(3);
/// Maximum time without a change of the number of workspaces during deletion.
const STALL_TIMEOUT: Duration = Duration::from_secs(30);

struct WorkspaceMeasurement {
    count: u64,
    created: Measurement,
    memory: [u64; 3],
    lines: [usize; 2],
    /// Time from the first delete request until no workspace was left.
    gone: Option<Duration>,
    left: u64,
}

pub fn run(session: &Session) -> BenchResult<()> {
    let count = if session.options.quick { 1000 } else { 10_000 };
    let mut background = BackgroundLoad::start()?;
    progress(&format!("{count} workspaces"));
    let running = session.programs.start_with_controllers(&session.directory(ServerKind::Atoll))?;
    let mut numbers = measure(&running, count)?;
    background.exclude(running.stop()?);
    let share = background.share()?;
    let lines = numbers.lines();
    println!("{}", report::table(&lines));
    session.footnotes(&background, share);
    if numbers.gone.is_none() {
        println!("Deletion made no progress with {} workspaces left.", numbers.left);
    }
    println!(
        "{count} empty workspaces below root, {CONNECTIONS} connections; one list request in each before memory was measured."
    );
    session.save(json!({
        "bench": "workspaces",
        "others_share": share,
        "count": count,
        "table": report::json(&lines),
        "create_latency": numbers.created.samples.describe(),
        "memory_before_bytes": numbers.memory[0],
        "memory_with_bytes": numbers.memory[1],
        "memory_after_deletion_bytes": numbers.memory[2],
    }))
}

fn measure(running: &RunningServer, count: u64) -> BenchResult<WorkspaceMeasurement> {
    let target = &running.target;
    let runtime = runtime()?;
    let memory = || {
        std::thread::sleep(REST);
        process::memory(&running.processes).map(|memory| memory.now)
    };
    // Send each kind of request once before measuring, because first requests have one-time costs.
    let lines_before = {
        let warm = |number: &str| body().replace(NUMBER, number);
        runtime.block_on(target.call("POST", PATH, &warm("99999999")))?;
        runtime.block_on(target.call("GET", &inside("99999999"), ""))?;
        runtime.block_on(metric_lines(target))?
    };
    let before = memory()?;
    let load = |template: Vec<u8>, status, length| Load {
        target: target.clone(),
        connections: CONNECTIONS,
        requests: Requests::new(template, 0),
        until: Until::Count(count),
        status,
        length,
    };
    progress("  creating");
    let created = load(target.request("POST", PATH, &body()), 201, 100..=4096).run()?;
    progress("  listing in each");
    load(target.request("GET", &inside(NUMBER), ""), 200, 50..=1 << 20).run()?;
    let with = memory()?;
    let lines_after = runtime.block_on(metric_lines(target))?;

    progress("  deleting");
    let one = format!("{PATH}/w-99999999");
    let began = Instant::now();
    let (answer, body) = runtime.block_on(target.try_call("DELETE", &one, ""))?;
    if !(200..300).contains(&answer.status) {
        return Err(crate::connection::unexpected_response("DELETE", &one, answer, &body));
    }
    let each = target.request("DELETE", &format!("{PATH}/w-{NUMBER}"), "");
    load(each, answer.status, 1..=4096).run()?;
    let left = runtime.block_on(wait_until_gone(target))?;
    let gone = (left == 0).then(|| began.elapsed());
    let memory = [before, with, memory()?];
    Ok(WorkspaceMeasurement { count, created, memory, lines: [lines_before, lines_after], gone, left })
}

fn body() -> String {
    format!(r#"{{"apiVersion":"atoll.dev/v1alpha1","kind":"Workspace","metadata":{{"name":"w-{NUMBER}"}}}}"#)
}

fn inside(number: &str) -> String {
    format!("/clusters/root:w-{number}/api/v1/namespaces")
}

async fn metric_lines(target: &Target) -> BenchResult<usize> {
    let text = target.call("GET", "/metrics", "").await?;
    Ok(String::from_utf8_lossy(&text).lines().count())
}

/// Waits for the deletion and returns the number of workspaces left when there was no more progress.
async fn wait_until_gone(target: &Target) -> BenchResult<u64> {
    let (mut least, mut changed) = (u64::MAX, Instant::now());
    loop {
        let left = left(target).await?;
        if left < least {
            (least, changed) = (left, Instant::now());
        }
        if left == 0 || changed.elapsed() > STALL_TIMEOUT {
            return Ok(left);
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn left(target: &Target) -> BenchResult<u64> {
    let path = format!("{PATH}?limit=1");
    let list: Value = serde_json::from_slice(&target.call("GET", &path, "").await?)
        .map_err(|error| BenchError::Response(format!("GET {path} is not JSON: {error}")))?;
    let shown = list["items"].as_array().map_or(0, Vec::len) as u64;
    Ok(shown + list["metadata"]["remainingItemCount"].as_u64().unwrap_or(0))
}

impl WorkspaceMeasurement {
    fn lines(&self) -> Vec<TableRow> {
        let line = |what: &str, unit, atoll: Option<f64>, goal| TableRow {
            what: what.into(),
            unit,
            atoll,
            kubernetes: None,
            goal,
        };
        let [before, with, after] = self.memory;
        let each = with.saturating_sub(before) as f64 / self.count as f64;
        let [lines_before, lines_after] = self.lines;
        vec![
            line("workspaces created", Unit::PerSecond, Some(self.created.rate()), Goal::AtLeastValue(500.0)),
            line("memory per workspace", Unit::Bytes, Some(each), Goal::AtMostValue(4_096.0)),
            line(
                "time until all are deleted",
                Unit::Seconds,
                self.gone.map(|took| took.as_secs_f64()),
                Goal::AtMostValue(30.0),
            ),
            line("memory before", Unit::Bytes, Some(before as f64), Goal::None),
            line("memory with all workspaces", Unit::Bytes, Some(with as f64), Goal::None),
            line("memory after deletion", Unit::Bytes, Some(after as f64), Goal::None),
            line("metric lines before", Unit::Count, Some(lines_before as f64), Goal::None),
            line("metric lines with all workspaces", Unit::Count, Some(lines_after as f64), Goal::None),
        ]
    }
}

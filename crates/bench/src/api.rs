//! Sends the same requests with common verbs to Atoll and to the real kube-apiserver, one server after the
//! other.

use std::time::Duration;

use serde_json::{Value, json};

use crate::connection::Target;
use crate::error::{BenchError, BenchResult};
use crate::load::{Load, Measurement, NUMBER, Requests, Until};
use crate::machine::BackgroundLoad;
use crate::report::{self, Goal, TableRow, Unit};
use crate::server::{RunningServer, ServerKind, runtime};
use crate::session::Session;
use crate::{process, progress};

/// Connections of loads that do not use a single one.
const MANY: usize = 32;
/// Number of objects after which memory is measured. 500 of them are in a separate namespace.
const OBJECTS: u64 = 27_000;
const PAGE: u64 = 500;
/// Size of a created object in the request, in bytes.
const SIZE: usize = 1024;
/// Idle time before the memory of a server is measured.
const REST: Duration = Duration::from_secs(3);

const FIVE_HUNDRED: &str = "five-hundred";
const BULK: &str = "bulk";
const FROM_ONE: &str = "from-one";
const FROM_MANY: &str = "from-many";
/// Namespaces that are listed in pages, with their numbers of objects. The cost of a page must not depend on
/// that number.
const FEW: (&str, u64) = ("few", 1_000);
const CROWD: (&str, u64) = ("crowd", 100_000);

/// Measurements of one server in one round.
#[derive(Default)]
struct Round {
    ready: Duration,
    idle: u64,
    loaded: u64,
    peak: u64,
    /// Size of the response to a get, in bytes.
    object: usize,
    cipher: String,
    get: Measurement,
    list: Measurement,
    everything: Measurement,
    create_one: Measurement,
    create_many: Measurement,
    /// Pages of one object, in a small and in a large namespace.
    one_of_few: Measurement,
    one_of_many: Measurement,
    page_of_many: Measurement,
}

pub fn run(session: &Session) -> BenchResult<()> {
    let rounds = if session.options.quick { 1 } else { 2 };
    let time = Duration::from_secs(if session.options.quick { 3 } else { 10 });
    let mut background = BackgroundLoad::start()?;
    let mut results: Vec<(ServerKind, Round)> = Vec::new();
    for number in 0..rounds {
        let mut kinds = session.kinds();
        // Alternate the order: the first and the second server find the machine in different states.
        if number % 2 == 1 {
            kinds.reverse();
        }
        for kind in kinds {
            progress(&format!("round {} of {rounds}: {}", number + 1, kind.name()));
            let running = session.programs.start(kind, &session.directory(kind))?;
            let round = measure(&running, time)?;
            background.exclude(running.stop()?);
            results.push((kind, round));
        }
    }
    let share = background.share()?;
    let mut lines = lines(&mut results);
    println!("{}", report::table(&lines));
    session.footnotes(&background, share);
    println!(
        "{MANY} connections unless stated otherwise; HTTP/1.1, TLS 1.3, bearer token, JSON, no compression. Each create \
         sends a ConfigMap of {SIZE} bytes; a get returns {}.",
        objects(&results)
    );
    lines.retain(|line| line.atoll.is_some() || line.kubernetes.is_some());
    session.save(json!({
        "bench": "api",
        "others_share": share,
        "table": report::json(&lines),
        "rounds": results.iter_mut().map(|(kind, round)| round.describe(*kind)).collect::<Value>(),
    }))
}

fn measure(running: &RunningServer, time: Duration) -> BenchResult<Round> {
    let target = &running.target;
    let runtime = runtime()?;
    std::thread::sleep(REST);
    let mut round = Round { ready: running.ready, ..Round::default() };
    round.idle = process::memory(&running.processes)?.now;
    runtime.block_on(async {
        for namespace in [FIVE_HUNDRED, BULK, FROM_ONE, FROM_MANY, FEW.0, CROWD.0] {
            let body =
                format!(r#"{{"apiVersion":"v1","kind":"Namespace","metadata":{{"name":"{namespace}"}}}}"#);
            target.call("POST", "/api/v1/namespaces", &body).await?;
        }
        round.cipher = target.connect().await?.cipher();
        Ok::<_, BenchError>(())
    })?;

    progress(&format!("  {OBJECTS} creates"));
    create(running, FIVE_HUNDRED, MANY, Until::Count(PAGE))?;
    create(running, BULK, MANY, Until::Count(OBJECTS - PAGE))?;
    std::thread::sleep(REST);
    let memory = process::memory(&running.processes)?;
    (round.loaded, round.peak) = (memory.now, memory.peak);

    let (reads, size) = runtime.block_on(reads(target))?;
    round.object = size;
    let [get, list, everything] = reads;
    progress("  gets");
    round.get = get.during(time).run_at(&running.processes)?;
    progress("  lists");
    round.list = list.during(time).run_at(&running.processes)?;
    progress("  lists of everything");
    round.everything = everything.during(time).run_at(&running.processes)?;
    progress("  creates, one connection");
    round.create_one = create(running, FROM_ONE, 1, Until::Elapsed(time))?;
    progress("  creates, many connections");
    round.create_many = create(running, FROM_MANY, MANY, Until::Elapsed(time))?;
    progress(&format!("  {} creates, for pages", CROWD.1));
    for (namespace, count) in [FEW, CROWD] {
        create(running, namespace, MANY, Until::Count(count))?;
    }
    progress("  pages");
    let pages = |namespace: &str, limit: u64| {
        let path = format!("{}?limit={limit}", config_maps(namespace));
        runtime.block_on(page(target, &path, limit))?.during(time).run_at(&running.processes)
    };
    round.one_of_few = pages(FEW.0, 1)?;
    round.one_of_many = pages(CROWD.0, 1)?;
    round.page_of_many = pages(CROWD.0, PAGE)?;
    Ok(round)
}

/// Returns the load for the first page of a list, after checking the response.
async fn page(target: &Target, path: &str, limit: u64) -> BenchResult<ReadLoad> {
    let (listed, length) = count(target, path).await?;
    if listed as u64 != limit {
        return Err(BenchError::Response(format!("GET {path} returned {listed} objects instead of {limit}")));
    }
    let requests = Requests::new(target.request("GET", path, ""), limit);
    Ok(ReadLoad { target: target.clone(), requests, connections: MANY, length })
}

fn create(
    running: &RunningServer,
    namespace: &str,
    connections: usize,
    until: Until,
) -> BenchResult<Measurement> {
    let target = &running.target;
    let template = target.request("POST", &config_maps(namespace), &config_map());
    let load = Load {
        target: target.clone(),
        connections,
        requests: Requests::new(template, 0),
        until,
        status: 201,
        length: SIZE..=4 * SIZE,
    };
    let measured = load.run_at(&running.processes)?;
    let listed = runtime()?.block_on(count(target, &config_maps(namespace)))?.0;
    if listed as u64 != measured.requests {
        let made = measured.requests;
        return Err(BenchError::Response(format!("{made} objects were created, but {listed} are listed")));
    }
    Ok(measured)
}

/// Returns the loads for a get, a list of 500 and a list of everything, after checking their responses, and
/// the size of the response to a get.
async fn reads(target: &Target) -> BenchResult<([ReadLoad; 3], usize)> {
    let (everything, whole) = count(target, "/api/v1/configmaps").await?;
    if everything < OBJECTS as usize {
        return Err(BenchError::Response(format!("{everything} of {OBJECTS} objects are listed")));
    }
    let (listed, page) = count(target, &config_maps(FIVE_HUNDRED)).await?;
    if listed != PAGE as usize {
        return Err(BenchError::Response(format!("{listed} objects are listed instead of {PAGE}")));
    }
    let named = format!("{}/c-{NUMBER}", config_maps(BULK));
    let one = target.call("GET", &named.replace(NUMBER, "00000000"), "").await?.len();
    let reading = |path: &str, connections, length| ReadLoad {
        target: target.clone(),
        requests: Requests::new(target.request("GET", path, ""), OBJECTS - PAGE),
        connections,
        length,
    };
    let readings = [
        reading(&named, MANY, one),
        reading(&config_maps(FIVE_HUNDRED), MANY, page),
        reading("/api/v1/configmaps", 1, whole),
    ];
    Ok((readings, one))
}

struct ReadLoad {
    target: Target,
    requests: Requests,
    connections: usize,
    length: usize,
}

impl ReadLoad {
    fn during(self, time: Duration) -> Load {
        // The number of digits of a revision in the response may vary.
        let length = self.length - 32..=self.length + 32;
        let ReadLoad { target, requests, connections, .. } = self;
        Load { target, connections, requests, until: Until::Elapsed(time), status: 200, length }
    }
}

/// Returns the number of objects in a list, and its size in bytes.
pub async fn count(target: &Target, path: &str) -> BenchResult<(usize, usize)> {
    let body = target.call("GET", path, "").await?;
    let list: Value = serde_json::from_slice(&body)
        .map_err(|error| BenchError::Response(format!("GET {path} is not JSON: {error}")))?;
    let items =
        list["items"].as_array().ok_or_else(|| BenchError::Response(format!("GET {path} is not a list")))?;
    Ok((items.len(), body.len()))
}

pub fn config_maps(namespace: &str) -> String {
    format!("/api/v1/namespaces/{namespace}/configmaps")
}

/// Returns a ConfigMap of `SIZE` bytes with a placeholder for a number in its name.
pub fn config_map() -> String {
    let with = |data: &str| {
        format!(
            r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"c-{NUMBER}"}},"data":{{"payload":"{data}"}}}}"#
        )
    };
    with(&"payload-".repeat(SIZE / 8)[..SIZE - with("").len()])
}

fn lines(results: &mut [(ServerKind, Round)]) -> Vec<TableRow> {
    let mut lines = Vec::new();
    let mut line = |what: &str, unit, goal, value: &dyn Fn(&mut Round) -> f64| {
        // All rounds have the same length, so the mean of their rates is the overall rate.
        let mut mean = |wanted: ServerKind| {
            let rounds: Vec<f64> = results
                .iter_mut()
                .filter(|(kind, _)| *kind == wanted)
                .map(|(_, round)| value(round))
                .collect();
            (!rounds.is_empty()).then(|| rounds.iter().sum::<f64>() / rounds.len() as f64)
        };
        let (atoll, kubernetes) = (mean(ServerKind::Atoll), mean(ServerKind::Kubernetes));
        lines.push(TableRow { what: what.into(), unit, atoll, kubernetes, goal });
    };
    line("creates", Unit::PerSecond, Goal::Least(8.0), &|round| round.create_many.rate());
    line("  CPU time per request", Unit::Seconds, Goal::None, &|round| round.create_many.cost());
    line("creates, one connection", Unit::PerSecond, Goal::Least(3.0), &|round| round.create_one.rate());
    line("  median", Unit::Seconds, Goal::None, &|round| round.create_one.samples.within(0.5));
    line("  p99", Unit::Seconds, Goal::None, &|round| round.create_one.samples.within(0.99));
    line("  CPU time per request", Unit::Seconds, Goal::None, &|round| round.create_one.cost());
    line("gets", Unit::PerSecond, Goal::Least(10.0), &|round| round.get.rate());
    line("  CPU time per request", Unit::Seconds, Goal::None, &|round| round.get.cost());
    line("lists of 500 objects", Unit::PerSecond, Goal::Least(15.0), &|round| round.list.rate());
    line("  CPU time per request", Unit::Seconds, Goal::None, &|round| round.list.cost());
    line("lists of 27,000, one connection", Unit::BytesPerSecond, Goal::Least(5.0), &|round| {
        round.everything.bytes_rate()
    });
    line("  CPU time per request", Unit::Seconds, Goal::None, &|round| round.everything.cost());
    line("pages of 500 of 100,000 objects", Unit::PerSecond, Goal::Least(12.0), &|round| {
        round.page_of_many.rate()
    });
    line("  CPU time per request", Unit::Seconds, Goal::None, &|round| round.page_of_many.cost());
    line("CPU time per page of 1, of 1,000", Unit::Seconds, Goal::None, &|round| round.one_of_few.cost());
    line("  of 100,000", Unit::Seconds, Goal::None, &|round| round.one_of_many.cost());
    line("  100,000 relative to 1,000", Unit::Ratio, Goal::AtMostValue(1.10), &|round| {
        round.one_of_many.cost() / round.one_of_few.cost()
    });
    line("memory, idle", Unit::Bytes, Goal::Most(6.0), &|round| round.idle as f64);
    line("memory, after 27,000 creates", Unit::Bytes, Goal::Most(6.0), &|round| round.loaded as f64);
    line("  per object", Unit::Bytes, Goal::None, &|round| {
        round.loaded.saturating_sub(round.idle) as f64 / OBJECTS as f64
    });
    line("time to ready", Unit::Seconds, Goal::Most(8.0), &|round| round.ready.as_secs_f64());
    lines
}

fn objects(results: &[(ServerKind, Round)]) -> String {
    let mut texts = Vec::new();
    for (kind, round) in results {
        let text = format!("{} bytes from {} ({})", round.object, kind.name(), round.cipher);
        if !texts.contains(&text) {
            texts.push(text);
        }
    }
    texts.join(", ")
}

impl Round {
    fn describe(&mut self, kind: ServerKind) -> Value {
        let load = |measured: &mut Measurement| {
            json!({
                "requests": measured.requests,
                "bytes": measured.bytes,
                "seconds": measured.took.as_secs_f64(),
                "server_busy_seconds": measured.busy.as_secs_f64(),
                "latency": measured.samples.describe(),
            })
        };
        json!({
            "server": kind.name(),
            "ready_seconds": self.ready.as_secs_f64(),
            "idle_bytes": self.idle,
            "loaded_bytes": self.loaded,
            "peak_bytes": self.peak,
            "object_bytes": self.object,
            "cipher": self.cipher,
            "get": load(&mut self.get),
            "list_500": load(&mut self.list),
            "list_everything": load(&mut self.everything),
            "create_one_connection": load(&mut self.create_one),
            "create": load(&mut self.create_many),
            "page_of_1_of_1000": load(&mut self.one_of_few),
            "page_of_1_of_100000": load(&mut self.one_of_many),
            "page_of_500_of_100000": load(&mut self.page_of_many),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn config_map_has_the_configured_size() {
        assert_eq!(config_map().len(), SIZE);
        assert!(serde_json::from_str::<Value>(&config_map()).is_ok());
    }
}

//! The verbs under load: the same requests at Atoll and at the real kube-apiserver, one after the other.

use std::time::Duration;

use serde_json::{Value, json};

use crate::connection::Target;
use crate::error::{BenchError, Outcome};
use crate::load::{Load, Measured, NUMBER, Requests, Until};
use crate::machine::Others;
use crate::report::{self, Goal, Line, Unit};
use crate::server::{Kind, Running, runtime};
use crate::session::Session;
use crate::{process, progress};

/// Connections of the loads that are not about one.
const MANY: usize = 32;
/// Objects after which memory is measured; 500 of them in a namespace of their own.
const OBJECTS: u64 = 27_000;
const PAGE: u64 = 500;
/// Bytes of a created object, as it is sent.
const SIZE: usize = 1024;
/// How long a server is left alone before its memory is measured.
const REST: Duration = Duration::from_secs(3);

const FIVE_HUNDRED: &str = "five-hundred";
const BULK: &str = "bulk";
const FROM_ONE: &str = "from-one";
const FROM_MANY: &str = "from-many";
/// Namespaces that are listed in pages, and how many objects each has: what a page costs must not depend on that.
const FEW: (&str, u64) = ("few", 1_000);
const CROWD: (&str, u64) = ("crowd", 100_000);

/// What one server did in one round.
#[derive(Default)]
struct Round {
    ready: Duration,
    idle: u64,
    loaded: u64,
    peak: u64,
    /// Bytes of a get's answer.
    object: usize,
    cipher: String,
    get: Measured,
    list: Measured,
    everything: Measured,
    create_one: Measured,
    create_many: Measured,
    /// One object, of few and of many.
    one_of_few: Measured,
    one_of_many: Measured,
    page_of_many: Measured,
}

pub fn run(session: &Session) -> Outcome<()> {
    let rounds = if session.options.quick { 1 } else { 2 };
    let time = Duration::from_secs(if session.options.quick { 3 } else { 10 });
    let mut others = Others::begin()?;
    let mut results: Vec<(Kind, Round)> = Vec::new();
    for number in 0..rounds {
        let mut kinds = session.kinds();
        // Whoever comes second finds a warmer, or a more tired, machine.
        if number % 2 == 1 {
            kinds.reverse();
        }
        for kind in kinds {
            progress(&format!("round {} of {rounds}: {}", number + 1, kind.name()));
            let running = session.programs.start(kind, &session.directory(kind))?;
            let round = measure(&running, time)?;
            others.ours(running.stop()?);
            results.push((kind, round));
        }
    }
    let share = others.share()?;
    let mut lines = lines(&mut results);
    println!("{}", report::table(&lines));
    session.footnotes(&others, share);
    println!(
        "{MANY} connections unless it says one; HTTP/1.1, TLS 1.3, bearer token, JSON, no compression. Each create \
         sends a ConfigMap of {SIZE} bytes; a get answers with {}.",
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

fn measure(running: &Running, time: Duration) -> Outcome<Round> {
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

/// The first page of a list, tried and checked.
async fn page(target: &Target, path: &str, limit: u64) -> Outcome<Reading> {
    let (listed, length) = count(target, path).await?;
    if listed as u64 != limit {
        return Err(BenchError::Answer(format!("GET {path} lists {listed} objects")));
    }
    let requests = Requests::new(target.request("GET", path, ""), limit);
    Ok(Reading { target: target.clone(), requests, connections: MANY, length })
}

fn create(running: &Running, namespace: &str, connections: usize, until: Until) -> Outcome<Measured> {
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
        return Err(BenchError::Answer(format!("{made} objects were created and {listed} are listed")));
    }
    Ok(measured)
}

/// A get, a list of 500 and a list of everything, each tried and checked; and how long the answer to a get is.
async fn reads(target: &Target) -> Outcome<([Reading; 3], usize)> {
    let (everything, whole) = count(target, "/api/v1/configmaps").await?;
    if everything < OBJECTS as usize {
        return Err(BenchError::Answer(format!("of {OBJECTS} objects {everything} are listed")));
    }
    let (listed, page) = count(target, &config_maps(FIVE_HUNDRED)).await?;
    if listed != PAGE as usize {
        return Err(BenchError::Answer(format!("{listed} objects are listed, not {PAGE}")));
    }
    let named = format!("{}/c-{NUMBER}", config_maps(BULK));
    let one = target.call("GET", &named.replace(NUMBER, "00000000"), "").await?.len();
    let reading = |path: &str, connections, length| Reading {
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

struct Reading {
    target: Target,
    requests: Requests,
    connections: usize,
    length: usize,
}

impl Reading {
    fn during(self, time: Duration) -> Load {
        // Revisions in the answer may have a digit more or less.
        let length = self.length - 32..=self.length + 32;
        let Reading { target, requests, connections, .. } = self;
        Load { target, connections, requests, until: Until::Elapsed(time), status: 200, length }
    }
}

/// How many objects a list has, and how many bytes.
pub async fn count(target: &Target, path: &str) -> Outcome<(usize, usize)> {
    let body = target.call("GET", path, "").await?;
    let list: Value = serde_json::from_slice(&body)
        .map_err(|error| BenchError::Answer(format!("GET {path} is not JSON: {error}")))?;
    let items =
        list["items"].as_array().ok_or_else(|| BenchError::Answer(format!("GET {path} is no list")))?;
    Ok((items.len(), body.len()))
}

pub fn config_maps(namespace: &str) -> String {
    format!("/api/v1/namespaces/{namespace}/configmaps")
}

/// A ConfigMap of `SIZE` bytes, with a number for a name.
pub fn config_map() -> String {
    let with = |data: &str| {
        format!(
            r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"c-{NUMBER}"}},"data":{{"payload":"{data}"}}}}"#
        )
    };
    with(&"payload-".repeat(SIZE / 8)[..SIZE - with("").len()])
}

fn lines(results: &mut [(Kind, Round)]) -> Vec<Line> {
    let mut lines = Vec::new();
    let mut line = |what: &str, unit, goal, value: &dyn Fn(&mut Round) -> f64| {
        // Rounds are of equal length, so the mean of their rates is the rate of all of them.
        let mut mean = |wanted: Kind| {
            let rounds: Vec<f64> = results
                .iter_mut()
                .filter(|(kind, _)| *kind == wanted)
                .map(|(_, round)| value(round))
                .collect();
            (!rounds.is_empty()).then(|| rounds.iter().sum::<f64>() / rounds.len() as f64)
        };
        let (atoll, kubernetes) = (mean(Kind::Atoll), mean(Kind::Kubernetes));
        lines.push(Line { what: what.into(), unit, atoll, kubernetes, goal });
    };
    line("creates", Unit::PerSecond, Goal::Least(8.0), &|round| round.create_many.rate());
    line("  server busy for each", Unit::Seconds, Goal::None, &|round| round.create_many.cost());
    line("creates, one connection", Unit::PerSecond, Goal::Least(3.0), &|round| round.create_one.rate());
    line("  half within", Unit::Seconds, Goal::None, &|round| round.create_one.samples.within(0.5));
    line("  99 of 100 within", Unit::Seconds, Goal::None, &|round| round.create_one.samples.within(0.99));
    line("  server busy for each", Unit::Seconds, Goal::None, &|round| round.create_one.cost());
    line("gets", Unit::PerSecond, Goal::Least(10.0), &|round| round.get.rate());
    line("  server busy for each", Unit::Seconds, Goal::None, &|round| round.get.cost());
    line("lists of 500 objects", Unit::PerSecond, Goal::Least(15.0), &|round| round.list.rate());
    line("  server busy for each", Unit::Seconds, Goal::None, &|round| round.list.cost());
    line("lists of 27,000, one connection", Unit::BytesPerSecond, Goal::Least(5.0), &|round| {
        round.everything.bytes_rate()
    });
    line("  server busy for each", Unit::Seconds, Goal::None, &|round| round.everything.cost());
    line("pages of 500 of 100,000 objects", Unit::PerSecond, Goal::Least(12.0), &|round| {
        round.page_of_many.rate()
    });
    line("  server busy for each", Unit::Seconds, Goal::None, &|round| round.page_of_many.cost());
    line("pages of 1, server busy: of 1,000", Unit::Seconds, Goal::None, &|round| round.one_of_few.cost());
    line("  of 100,000", Unit::Seconds, Goal::None, &|round| round.one_of_many.cost());
    line("  of 100,000 for 1 of 1,000", Unit::Ratio, Goal::AtMostValue(1.10), &|round| {
        round.one_of_many.cost() / round.one_of_few.cost()
    });
    line("memory, idle", Unit::Bytes, Goal::Most(6.0), &|round| round.idle as f64);
    line("memory, after 27,000 creates", Unit::Bytes, Goal::Most(6.0), &|round| round.loaded as f64);
    line("  per object", Unit::Bytes, Goal::None, &|round| {
        round.loaded.saturating_sub(round.idle) as f64 / OBJECTS as f64
    });
    line("from start until ready", Unit::Seconds, Goal::Most(8.0), &|round| round.ready.as_secs_f64());
    lines
}

fn objects(results: &[(Kind, Round)]) -> String {
    let mut told = Vec::new();
    for (kind, round) in results {
        let text = format!("{} bytes from {} ({})", round.object, kind.name(), round.cipher);
        if !told.contains(&text) {
            told.push(text);
        }
    }
    told.join(", ")
}

impl Round {
    fn describe(&mut self, kind: Kind) -> Value {
        let load = |measured: &mut Measured| {
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
    fn the_object_has_the_size_that_it_is_said_to_have() {
        assert_eq!(config_map().len(), SIZE);
        assert!(serde_json::from_str::<Value>(&config_map()).is_ok());
    }
}

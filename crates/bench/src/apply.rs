//! Patches of a Deployment under load: strategic merges and server-side applies, each of which changes it.
//!
//! What is sent is the whole Deployment, a hundred lines as YAML, with a number in an annotation that is another every
//! time. The objects are there before, made by POST.

use std::time::Duration;

use serde_json::{Value, json};

use crate::connection::refused;
use crate::error::{BenchError, Outcome};
use crate::load::{Load, Measured, NUMBER, Requests, Until};
use crate::machine::Others;
use crate::progress;
use crate::report::{self, Goal, Line, Unit};
use crate::server::{Kind, Running, runtime};
use crate::session::Session;

const DEPLOYMENT: &str = include_str!("apply/deployment.json");
const NAMESPACE: &str = "apply";
const CONNECTIONS: usize = 32;
/// Enough of them that no two connections are at the same one.
const OBJECTS: u64 = 256;

/// One way to send it.
struct Way {
    name: &'static str,
    media_type: &'static str,
    query: &'static str,
}

const WAYS: [Way; 2] = [
    Way { name: "strategic merges", media_type: "application/strategic-merge-patch+json", query: "" },
    Way {
        name: "server-side applies",
        media_type: "application/apply-patch+yaml",
        query: "?fieldManager=bench&force=true",
    },
];

/// What one server did in one round: a measurement for each way, or what it said instead.
type Round = Vec<Result<Measured, String>>;

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
    let lines = lines(&results);
    println!("{}", report::table(&lines));
    let refusals = refusals(&results);
    refusals.iter().for_each(|refusal| println!("{refusal}"));
    session.footnotes(&others, share);
    println!(
        "{CONNECTIONS} connections and {OBJECTS} Deployments of a hundred lines each; every request sends a whole one and \
         changes an annotation. HTTP/1.1, TLS 1.3, bearer token, JSON, no compression."
    );
    session.save(json!({
        "bench": "apply",
        "others_share": share,
        "table": report::json(&lines),
        "refusals": refusals,
        "rounds": results.iter_mut().map(|(kind, round)| describe(*kind, round)).collect::<Value>(),
    }))
}

fn measure(running: &Running, time: Duration) -> Outcome<Round> {
    let target = &running.target;
    let deployments = format!("/apis/apps/v1/namespaces/{NAMESPACE}/deployments");
    let runtime = runtime()?;
    let namespace =
        format!(r#"{{"apiVersion":"v1","kind":"Namespace","metadata":{{"name":"{NAMESPACE}"}}}}"#);
    runtime.block_on(target.call("POST", "/api/v1/namespaces", &namespace))?;
    let length = 1000..=64 << 10;
    let create = Load {
        target: target.clone(),
        connections: CONNECTIONS,
        requests: Requests::new(target.request("POST", &deployments, DEPLOYMENT), 0),
        until: Until::Count(OBJECTS),
        status: 201,
        length: length.clone(),
    };
    create.run()?;
    let measure = |way: &Way| {
        let path = format!("{deployments}/d-{NUMBER}{}", way.query);
        let request = target.request_of(way.media_type, "PATCH", &path, DEPLOYMENT);
        let mut requests = Requests::new(request, OBJECTS);
        // One first, so that a server that cannot do it is told from one that fails under load.
        let first = requests.number(0).to_vec();
        let (answer, body) = runtime.block_on(async { target.connect().await?.whole(&first).await })?;
        if !matches!(answer.status, 200 | 201) {
            return Ok(Err(refused("PATCH", &path, answer, &body).to_string()));
        }
        progress(&format!("  {}", way.name));
        let (target, until, length) = (target.clone(), Until::Elapsed(time), length.clone());
        let load = Load { target, connections: CONNECTIONS, requests, until, status: 200, length };
        match load.run_at(&running.processes) {
            Err(BenchError::Answer(problem)) => Ok(Err(problem)),
            measured => measured.map(Ok),
        }
    };
    WAYS.iter().map(measure).collect()
}

fn lines(results: &[(Kind, Round)]) -> Vec<Line> {
    let mut lines = Vec::new();
    for (index, way) in WAYS.iter().enumerate() {
        let mut line = |what: &str, unit, goal, value: &dyn Fn(&Measured) -> f64| {
            let mean = |wanted: Kind| {
                let rounds = results.iter().filter(|(kind, _)| *kind == wanted);
                let rounds: Option<Vec<f64>> =
                    rounds.map(|(_, round)| round[index].as_ref().ok().map(value)).collect();
                rounds
                    .filter(|rounds| !rounds.is_empty())
                    .map(|rounds| rounds.iter().sum::<f64>() / rounds.len() as f64)
            };
            let (atoll, kubernetes) = (mean(Kind::Atoll), mean(Kind::Kubernetes));
            lines.push(Line { what: what.into(), unit, atoll, kubernetes, goal });
        };
        line(way.name, Unit::PerSecond, Goal::Least(4.0), &Measured::rate);
        line("  server busy for each", Unit::Seconds, Goal::None, &Measured::cost);
    }
    lines
}

/// What was answered instead of 200 or 201, each once.
fn refusals(results: &[(Kind, Round)]) -> Vec<String> {
    let mut told = Vec::new();
    for (kind, round) in results {
        for (way, refusal) in
            WAYS.iter().zip(round).filter_map(|(way, outcome)| Some((way, outcome.as_ref().err()?)))
        {
            let text = format!("No {} at {}: {refusal}", way.name, kind.name());
            if !told.contains(&text) {
                told.push(text);
            }
        }
    }
    told
}

fn describe(kind: Kind, round: &mut Round) -> Value {
    let mut described = json!({ "server": kind.name() });
    for (way, outcome) in WAYS.iter().zip(round) {
        described[way.name] = match outcome {
            Ok(measured) => json!({
                "requests": measured.requests,
                "seconds": measured.took.as_secs_f64(),
                "server_busy_seconds": measured.busy.as_secs_f64(),
                "latency": measured.samples.describe(),
            }),
            Err(refusal) => json!({ "refused": refusal }),
        };
    }
    described
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::COUNT;

    #[test]
    fn every_request_names_one_of_the_objects_and_changes_it() {
        let mut requests = Requests::new(DEPLOYMENT.into(), OBJECTS);
        let mut seen = |number| serde_json::from_slice::<Value>(requests.number(number)).unwrap();
        let (first, again) = (seen(1), seen(OBJECTS + 1));
        assert_eq!(first["metadata"]["name"], again["metadata"]["name"]);
        assert_ne!(first["metadata"]["annotations"], again["metadata"]["annotations"]);
        assert!(DEPLOYMENT.contains(NUMBER) && DEPLOYMENT.contains(COUNT));
    }

    #[test]
    fn a_refusal_is_told_and_leaves_the_line_empty() {
        let measured = || Measured { requests: 100, took: Duration::from_secs(1), ..Measured::default() };
        let refused = || Err("PATCH … was answered 415: no".to_owned());
        let results = [
            (Kind::Atoll, vec![Ok(measured()), refused()]),
            (Kind::Kubernetes, vec![Ok(measured()), Ok(measured())]),
        ];
        let lines = lines(&results);
        assert_eq!(lines[0].atoll, Some(100.0));
        assert_eq!((lines[2].atoll, lines[2].kubernetes), (None, Some(100.0)));
        assert_eq!(refusals(&results), ["No server-side applies at atoll: PATCH … was answered 415: no"]);
    }
}

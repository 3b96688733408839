//! Patches a Deployment under load: strategic merge patches and server-side applies, each of which changes
//! the object.
//!
//! Each request sends the whole Deployment, a hundred lines of YAML, with a new number in an annotation. The
//! objects are created with POST before.

use std::time::Duration;

use serde_json::{Value, json};

use crate::connection::unexpected_response;
use crate::error::{BenchError, BenchResult};
use crate::load::{Load, Measurement, NUMBER, Requests, Until};
use crate::machine::BackgroundLoad;
use crate::progress;
use crate::report::{self, Goal, TableRow, Unit};
use crate::server::{RunningServer, ServerKind, runtime};
use crate::session::Session;

const DEPLOYMENT: &str = include_str!("apply/deployment.json");
const NAMESPACE: &str = "apply";
const CONNECTIONS: usize = 32;
/// Enough objects that connections do not patch the same one at the same time.
const OBJECTS: u64 = 256;

/// A kind of patch request.
struct PatchType {
    name: &'static str,
    media_type: &'static str,
    query: &'static str,
}

const PATCH_TYPES: [PatchType; 2] = [
    PatchType { name: "strategic merges", media_type: "application/strategic-merge-patch+json", query: "" },
    PatchType {
        name: "server-side applies",
        media_type: "application/apply-patch+yaml",
        query: "?fieldManager=bench&force=true",
    },
];

/// Results of one server in one round: for each patch type a measurement, or the error response.
type Round = Vec<Result<Measurement, String>>;

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
    let lines = lines(&results);
    println!("{}", report::table(&lines));
    let refusals = refusals(&results);
    refusals.iter().for_each(|refusal| println!("{refusal}"));
    session.footnotes(&background, share);
    println!(
        "{CONNECTIONS} connections and {OBJECTS} Deployments of a hundred lines each; every request sends a whole \
         Deployment and changes an annotation. HTTP/1.1, TLS 1.3, bearer token, JSON, no compression."
    );
    session.save(json!({
        "bench": "apply",
        "others_share": share,
        "table": report::json(&lines),
        "refusals": refusals,
        "rounds": results.iter_mut().map(|(kind, round)| describe(*kind, round)).collect::<Value>(),
    }))
}

fn measure(running: &RunningServer, time: Duration) -> BenchResult<Round> {
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
    let measure = |patch: &PatchType| {
        let path = format!("{deployments}/d-{NUMBER}{}", patch.query);
        let request = target.request_of(patch.media_type, "PATCH", &path, DEPLOYMENT);
        let mut requests = Requests::new(request, OBJECTS);
        // Send one request first, to distinguish an unsupported patch type from a failure under load.
        let first = requests.number(0).to_vec();
        let (answer, body) =
            runtime.block_on(async { target.connect().await?.exchange_with_body(&first).await })?;
        if !matches!(answer.status, 200 | 201) {
            return Ok(Err(unexpected_response("PATCH", &path, answer, &body).to_string()));
        }
        progress(&format!("  {}", patch.name));
        let (target, until, length) = (target.clone(), Until::Elapsed(time), length.clone());
        let load = Load { target, connections: CONNECTIONS, requests, until, status: 200, length };
        match load.run_at(&running.processes) {
            Err(BenchError::Response(problem)) => Ok(Err(problem)),
            measured => measured.map(Ok),
        }
    };
    PATCH_TYPES.iter().map(measure).collect()
}

fn lines(results: &[(ServerKind, Round)]) -> Vec<TableRow> {
    let mut lines = Vec::new();
    for (index, patch) in PATCH_TYPES.iter().enumerate() {
        let mut line = |what: &str, unit, goal, value: &dyn Fn(&Measurement) -> f64| {
            let mean = |wanted: ServerKind| {
                let rounds = results.iter().filter(|(kind, _)| *kind == wanted);
                let rounds: Option<Vec<f64>> =
                    rounds.map(|(_, round)| round[index].as_ref().ok().map(value)).collect();
                rounds
                    .filter(|rounds| !rounds.is_empty())
                    .map(|rounds| rounds.iter().sum::<f64>() / rounds.len() as f64)
            };
            let (atoll, kubernetes) = (mean(ServerKind::Atoll), mean(ServerKind::Kubernetes));
            lines.push(TableRow { what: what.into(), unit, atoll, kubernetes, goal });
        };
        line(patch.name, Unit::PerSecond, Goal::Least(4.0), &Measurement::rate);
        line("  CPU time per request", Unit::Seconds, Goal::None, &Measurement::cost);
    }
    lines
}

/// Returns the distinct responses other than 200 and 201.
fn refusals(results: &[(ServerKind, Round)]) -> Vec<String> {
    let mut texts = Vec::new();
    for (kind, round) in results {
        for (patch, refusal) in PATCH_TYPES
            .iter()
            .zip(round)
            .filter_map(|(patch, outcome)| Some((patch, outcome.as_ref().err()?)))
        {
            let text = format!("{} failed at {}: {refusal}", patch.name, kind.name());
            if !texts.contains(&text) {
                texts.push(text);
            }
        }
    }
    texts
}

fn describe(kind: ServerKind, round: &mut Round) -> Value {
    let mut described = json!({ "server": kind.name() });
    for (patch, outcome) in PATCH_TYPES.iter().zip(round) {
        described[patch.name] = match outcome {
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
    fn every_request_patches_an_existing_object_with_a_new_value() {
        let mut requests = Requests::new(DEPLOYMENT.into(), OBJECTS);
        let mut seen = |number| serde_json::from_slice::<Value>(requests.number(number)).unwrap();
        let (first, again) = (seen(1), seen(OBJECTS + 1));
        assert_eq!(first["metadata"]["name"], again["metadata"]["name"]);
        assert_ne!(first["metadata"]["annotations"], again["metadata"]["annotations"]);
        assert!(DEPLOYMENT.contains(NUMBER) && DEPLOYMENT.contains(COUNT));
    }

    #[test]
    fn failed_patch_types_are_reported_without_a_value() {
        let measured =
            || Measurement { requests: 100, took: Duration::from_secs(1), ..Measurement::default() };
        let refused = || Err("PATCH … returned 415: no".to_owned());
        let results = [
            (ServerKind::Atoll, vec![Ok(measured()), refused()]),
            (ServerKind::Kubernetes, vec![Ok(measured()), Ok(measured())]),
        ];
        let lines = lines(&results);
        assert_eq!(lines[0].atoll, Some(100.0));
        assert_eq!((lines[2].atoll, lines[2].kubernetes), (None, Some(100.0)));
        assert_eq!(refusals(&results), ["server-side applies failed at atoll: PATCH … returned 415: no"]);
    }
}

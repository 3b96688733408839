//! The real kube-controller-manager and kube-scheduler run a cluster of KWOK's nodes on Atoll, and log no
//! error that they do not also log with kube-apiserver.
//!
//! ```text
//!  Cluster (Atoll)          ┐ the same     ┌─ result of each scenario
//!  Cluster (kube-apiserver) ┘ scenarios ─► └─ error lines of both programs, reduced to kinds ─ compared
//! ```

// Clippy treats only functions marked as tests as test code.
#![allow(clippy::unwrap_used)]

mod api;
mod cluster;
mod known;
mod log_messages;
mod scenarios;

use std::path::PathBuf;

use crate::cluster::Cluster;
use crate::known::KnownDifferences;
use crate::log_messages::Counts;
use crate::scenarios::ScenarioOutcome;

/// The behaviour of KWOK's nodes and pods.
const STAGES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/upstream/stages.yaml");

/// The results of one server and its programs.
struct ServerRun {
    outcomes: Vec<ScenarioOutcome>,
    log_messages: Counts,
}

/// Returns `upstream` in the target directory: the logs of the last run and the messages found in them.
fn directory() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    test.ancestors().nth(3).unwrap().join("upstream")
}

/// Runs all scenarios, stops the programs and reads the logs.
async fn run_scenarios(cluster: Cluster, logs: PathBuf) -> ServerRun {
    let outcomes = scenarios::run_scenarios(&cluster).await;
    cluster.stop(&logs);
    let log_messages = log_messages::read(&logs);
    let lines: String = log_messages.iter().map(|(kind, count)| format!("{count:5} {kind}\n")).collect();
    std::fs::write(logs.join("messages.txt"), lines).unwrap();
    ServerRun { outcomes, log_messages }
}

#[test]
fn real_controllers_run_a_cluster_on_atoll() {
    let Some(programs) = cluster::programs() else { return };
    let rounds = std::env::var("UPSTREAM_ROUNDS").map_or(1, |rounds| rounds.parse().unwrap());
    let known = KnownDifferences::load();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(4).enable_all().build().unwrap();
    let (mut problems, mut atoll_messages, mut upstream_messages) =
        (Vec::new(), Counts::new(), Counts::new());
    for round in 1..=rounds {
        let logs = directory().join(format!("round-{round}"));
        // Child programs end with the thread that starts them, which is this one.
        let clusters = (Cluster::of_atoll(&programs, STAGES), Cluster::of_kube_apiserver(&programs, STAGES));
        let (on_atoll, on_upstream) = runtime.block_on(async {
            tokio::join!(
                run_scenarios(clusters.0, logs.join("atoll")),
                run_scenarios(clusters.1, logs.join("kube-apiserver"))
            )
        });
        println!("round {round}; logs are in {}", logs.display());
        for (atoll_result, upstream_result) in on_atoll.outcomes.iter().zip(&on_upstream.outcomes) {
            println!("{atoll_result:<60} kube-apiserver: {upstream_result}");
        }
        let kinds = (on_atoll.log_messages.len(), on_upstream.log_messages.len());
        println!("{} kinds of log messages, {} with kube-apiserver", kinds.0, kinds.1);
        problems.extend(on_upstream.outcomes.iter().filter_map(|outcome| outcome.failure("kube-apiserver")));
        problems.extend(known.unexpected(&on_atoll.outcomes));
        for (kind, count) in on_atoll.log_messages {
            let most = atoll_messages.entry(kind).or_default();
            *most = count.max(*most);
        }
        upstream_messages.extend(on_upstream.log_messages);
    }
    let new = atoll_messages
        .iter()
        .filter(|(kind, count)| !upstream_messages.contains_key(*kind) && !known.allows(kind, **count));
    problems.extend(new.map(|(kind, count)| format!("log message, {count} times: {kind}")));
    assert!(problems.is_empty(), "{} problems:\n{}", problems.len(), problems.join("\n"));
}

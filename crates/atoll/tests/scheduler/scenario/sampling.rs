//! The fewest replicas that were available, and could be reached, during a step.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use atoll_testkit::Client;
use atoll_testkit::wait::eventually;
use serde_json::Value;
use tokio::task::JoinHandle;

use crate::fleet::{path, summary};

const INTERVAL: Duration = Duration::from_millis(20);
const SLICES: &str = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices?labelSelector=kubernetes.io/service-name%3Dweb";

/// The smallest number seen, with what was shown then.
type Fewest = Option<(i64, String)>;

/// Reads the application until it is stopped.
pub struct Sampling {
    is_finished: Arc<AtomicBool>,
    task: JoinHandle<(Fewest, Fewest, usize)>,
}

impl Sampling {
    /// Starts when so many replicas are in the EndpointSlices, which follow the status of the workload.
    pub async fn start(admin: &Client, replicas: i64) -> Sampling {
        eventually("all replicas are in EndpointSlices", async || {
            ready_endpoints(&admin.get(SLICES).await.expect(200)) >= replicas
        })
        .await;
        let (is_finished, admin) = (Arc::new(AtomicBool::new(false)), admin.clone());
        let ends = is_finished.clone();
        let task = tokio::spawn(async move {
            let (mut available, mut reachable, mut samples) = (None, None, 0);
            let mut ticks = tokio::time::interval(INTERVAL);
            while !ends.load(Ordering::Relaxed) {
                ticks.tick().await;
                let web = admin.get(&path("web")).await.expect(200);
                let count = web["status"]["availableReplicas"].as_i64().unwrap_or(0);
                lower(&mut available, count, || format!("{} {}", summary(&web), web["status"]));
                // One list is one moment.
                let slices = admin.get(SLICES).await.expect(200);
                lower(&mut reachable, ready_endpoints(&slices), || slices["items"].to_string());
                samples += 1;
            }
            (available, reachable, samples)
        });
        Sampling { is_finished, task }
    }

    /// Stops, and checks that so many replicas were always available and in the EndpointSlices.
    pub async fn finish(self, least: i64, meanwhile: &str) {
        self.is_finished.store(true, Ordering::Relaxed);
        let (available, reachable, samples) = self.task.await.unwrap();
        let ((available, then), (reachable, slices)) = (available.unwrap(), reachable.unwrap());
        println!(
            "{samples} samples while {meanwhile}: at least {available} available, {reachable} reachable"
        );
        assert!(samples > 10, "{samples} samples while {meanwhile}");
        assert!(available >= least, "{available} replicas were available while {meanwhile}: {then}");
        assert!(reachable >= least, "{reachable} endpoints were ready while {meanwhile}: {slices}");
    }
}

fn lower(fewest: &mut Fewest, count: i64, shown: impl FnOnce() -> String) {
    if fewest.as_ref().is_none_or(|(fewest, _)| count < *fewest) {
        *fewest = Some((count, shown()));
    }
}

fn ready_endpoints(slices: &Value) -> i64 {
    let all = slices["items"].as_array().unwrap().iter();
    let endpoints = all.flat_map(|slice| slice["endpoints"].as_array().into_iter().flatten());
    let ready = endpoints.filter(|endpoint| endpoint["conditions"]["ready"] == true);
    i64::try_from(ready.count()).unwrap()
}

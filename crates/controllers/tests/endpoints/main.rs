//! Compares the Endpoints, EndpointSlices and events of the real kube-controller-manager with those of
//! Atoll's controllers, created from nothing as well as after changes.
//!
//! ```text
//!   kube-controller-manager, from nothing ─► recorded
//!   Atoll's, from nothing ──────────────────► equal?   then changes ─► recorded
//!   kube-controller-manager, from nothing ─► equal?    then reverted ─► as at first?
//! ```
//!
//! `ENDPOINTS_PODS` is the number of pods of the largest Service; with more than 1,000 its Endpoints are
//! truncated.

mod cluster;
#[path = "../support/sides.rs"]
mod sides;
mod snapshot;

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use atoll_controllers::settings::Settings;
use atoll_testkit::wait::Waiting;
use atoll_testkit::{Client, Programs, Upstream};
use serde_json::{Value, json};
use sides::AtollControllers;
use snapshot::{ENDPOINTS, EVENTS, EndpointState, SLICES, Snapshot, difference, events, list};

const CONTROLLERS: &str = "endpoints-controller,endpointslice-controller,endpointslice-mirroring-controller";
/// Time without changes after which the state is final. Checked only when all expected objects exist.
const QUIET: Duration = Duration::from_secs(4);
/// Time limit for both to agree, and number of attempts.
const TIMEOUT: Duration = Duration::from_secs(90);
const TRIES: usize = 5;

#[tokio::test(flavor = "multi_thread")]
async fn endpoints_are_those_of_kube_controller_manager() {
    let further = std::env::var("ENDPOINTS_PODS").map_or(120, |text| text.parse().expect("a number"));
    let arguments = [
        "--",
        "--disable-admission-plugins=ServiceAccount,TaintNodesByCondition",
        "--service-cluster-ip-range=10.0.0.0/16,fd00:10::/112",
    ];
    let Some(upstream) = Upstream::start(&arguments) else { return };
    let Some(programs) = sides::controller_manager() else { return };
    let client = upstream.admin().keep_alive();
    make(&client, further).await;
    let mut disagreements = Vec::new();
    while let Err(disagreement) = compare(&upstream, &client, &programs).await {
        disagreements.push(disagreement);
        assert!(disagreements.len() < TRIES, "{}", disagreements.join("\n\n"));
        change(&client, false).await;
    }
}

async fn compare(upstream: &Upstream, client: &Client, programs: &Programs) -> Result<(), String> {
    let start = Instant::now();
    let log_progress = |what: &str| println!("{what} after {:?}", start.elapsed());
    let log = upstream.directory().join("endpoints.log");
    let start_upstream =
        || sides::start_kube_controller_manager(programs, &upstream.kubeconfig(), CONTROLLERS, &[], &log);
    clear(client).await;
    let controller_manager = start_upstream();
    let (first, events_text) = settled(client).await;
    drop(controller_manager);
    log_progress("recorded upstream");
    clear(client).await;
    let atoll = AtollControllers::start(client, CONTROLLERS, Settings::default());
    same(client, "atoll, from nothing", &first, &events_text, EndpointState::whole).await?;
    log_progress("compared atoll");
    change(client, true).await;
    let (second, _) = settled(client).await;
    drop(atoll);
    log_progress("recorded atoll");
    clear(client).await;
    let controller_manager = start_upstream();
    same(client, "upstream, from nothing", &second, &BTreeSet::new(), EndpointState::lasting).await?;
    log_progress("compared upstream");
    change(client, false).await;
    let outcome = same(client, "upstream, changed", &first, &BTreeSet::new(), EndpointState::lasting).await;
    drop(controller_manager);
    log_progress("compared upstream again");
    outcome
}

async fn make(client: &Client, further: usize) {
    for made in cluster::made(further) {
        let answer = client.post(&made.path, &made.object).await;
        assert_eq!(answer.status, 201, "{}: {}\n{:#}", made.path, answer.text(), made.object);
        if let Some(status) = made.status {
            let name = made.object["metadata"]["name"].as_str().expect("a name");
            patch(client, &format!("{}/{name}/status", made.path), &json!({"status": status})).await;
        }
    }
    for name in cluster::TERMINATING_PODS {
        client.delete(&format!("/api/v1/namespaces/test/pods/{name}")).await.expect(200);
    }
}

async fn patch(client: &Client, path: &str, body: &Value) {
    client.merge(path, body).await.expect(200);
}

async fn change(client: &Client, there: bool) {
    for change in cluster::changes() {
        patch(client, &change.path, if there { &change.there } else { &change.back }).await;
    }
}

/// Deletes the objects that controllers have written.
async fn clear(client: &Client) {
    let managed = [
        (ENDPOINTS, "endpoints.kubernetes.io/managed-by"),
        (SLICES, "endpointslice.kubernetes.io/managed-by"),
        (EVENTS, ""),
    ];
    for (path, label) in managed {
        let path = if label.is_empty() { path.to_string() } else { format!("{path}?labelSelector={label}") };
        client.delete(&path).await.expect(200);
    }
}

/// Returns the final state: all expected objects exist and nothing changes.
async fn settled(client: &Client) -> (EndpointState, BTreeSet<String>) {
    let services = list(client, "/api/v1/namespaces/test/services").await;
    let selecting = services.iter().filter(|service| {
        service["spec"]["selector"].is_object() && service["spec"]["type"] != "ExternalName"
    });
    let mut wanted: BTreeSet<String> = BTreeSet::new();
    for service in selecting {
        let name = service["metadata"]["name"].as_str().expect("a name");
        wanted.insert(format!("Endpoints {name}"));
        for family in service["spec"]["ipFamilies"].as_array().expect("families") {
            wanted.insert(format!("EndpointSlices {name} {}", family.as_str().expect("a family")));
        }
    }
    let is_there = |snapshot: &Snapshot, wanted: &str| {
        snapshot.keys().any(|about| about == wanted || about.starts_with(&format!("{wanted} ")))
    };
    let waiting = Waiting::until("all endpoints are there");
    let (mut since, mut last) = (Instant::now(), (Snapshot::new(), BTreeSet::new()));
    loop {
        let (seen, events_text) = (snapshot::take(client).await, events(client).await);
        let now = (seen.whole(), events_text);
        if now != last || !wanted.iter().all(|wanted| is_there(&now.0, wanted)) {
            (since, last) = (Instant::now(), now);
        } else if since.elapsed() > QUIET {
            return (seen, last.1);
        }
        waiting.again().await;
    }
}

/// Waits until the state equals the recorded one.
async fn same(
    client: &Client,
    what: &str,
    recorded: &EndpointState,
    events_text: &BTreeSet<String>,
    form: fn(&EndpointState) -> Snapshot,
) -> Result<(), String> {
    let start = Instant::now();
    let waiting = Waiting::until("both agree");
    let recorded = form(recorded);
    loop {
        let (found, observed) = (form(&snapshot::take(client).await), events(client).await);
        let mut differences = difference(&recorded, &found);
        if !events_text.is_empty() {
            differences.extend(events_text.difference(&observed).map(|event| format!("not told: {event}")));
            differences.extend(observed.difference(events_text).map(|event| format!("told: {event}")));
        }
        if differences.is_empty() {
            return Ok(());
        }
        if start.elapsed() > TIMEOUT {
            return Err(format!("{what}: {} differ\n{}", differences.len(), differences.join("\n")));
        }
        waiting.again().await;
    }
}

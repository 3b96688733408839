//! Installs widely used CustomResourceDefinitions and their objects, and compares validation, responses and
//! defaults with kube-apiserver.
//!
//! ```text
//!   upstream/bundles ─ go mod download ─► definitions ─ installed and established on both servers
//!   bundles/*.txt ─► valid and invalid objects ─ the same responses
//! ```

use std::path::Path;
use std::time::Instant;

use atoll_differential::compare::Comparator;
use atoll_differential::script;
use atoll_differential::servers::{atoll_client, start_atoll, upstream_client};
use atoll_differential::side::Side;
use atoll_testkit::wait::within;
use atoll_testkit::{Client, Upstream, Watch};
use atoll_upstream::bundles::{self, BUNDLES, Definition};

use serde_json::Value;

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// Both servers, and the results of the comparison so far.
struct Comparing {
    clients: [Client; 2],
    atoll_side: Side,
    upstream_side: Side,
    comparator: Comparator,
    same: usize,
    wrong: Vec<String>,
}

impl Comparing {
    /// Runs the cases of `text`. Returns the status of the last case if it is the same on both servers.
    async fn run(&mut self, text: &str) -> Option<u16> {
        let mut status = None;
        for case in script::parse(text).unwrap_or_else(|problem| panic!("{problem}")) {
            let (atoll_response, upstream_response) =
                tokio::join!(self.atoll_side.run(&case), self.upstream_side.run(&case));
            let differences = match (atoll_response, upstream_response) {
                (Ok(mut atoll_response), Ok(mut upstream_response)) => {
                    status =
                        (atoll_response.status == upstream_response.status).then_some(atoll_response.status);
                    sort(&mut atoll_response.body);
                    sort(&mut upstream_response.body);
                    self.comparator.differences(case.comparison, &atoll_response, &upstream_response)
                }
                (atoll_response, upstream_response) => {
                    vec![format!("{atoll_response:?} instead of {upstream_response:?}")]
                }
            };
            match differences.is_empty() {
                true => self.same += 1,
                false => self.wrong.push(format!("{}\n    {}", case.name, differences.join("\n    "))),
            }
        }
        status
    }

    async fn create(&mut self, definition: &Definition, query: &str) {
        let Definition { name, body } = definition;
        let case = format!("=== create {name}{query}\nPOST {DEFINITIONS}{query}\n\n{body}\n");
        match self.run(&case).await {
            Some(201) | None => {}
            Some(status) => self.wrong.push(format!("both servers reject {name}{query}: {status}")),
        }
    }

    async fn see_established(&mut self, definition: &Definition) {
        let [atoll_side, upstream_side] = &self.clients;
        let name = &definition.name;
        let (atoll_response, upstream_response) =
            tokio::join!(established(atoll_side, name), established(upstream_side, name));
        match atoll_response == upstream_response {
            true => self.same += 1,
            false => {
                self.wrong.push(format!("status of {name}: {atoll_response} instead of {upstream_response}"))
            }
        }
    }
}

/// Sorts lists that upstream returns in random order: causes, because its schemas are Go maps, and the
/// resources of a group. A message that lists causes is replaced by its beginning and length.
fn sort(body: &mut Value) {
    for (list, key) in [("/details/causes", None), ("/resources", Some("name"))] {
        if let Some(items) = body.pointer_mut(list).and_then(Value::as_array_mut) {
            items.sort_by_key(|item| key.map_or(item, |key| &item[key]).to_string());
        }
    }
    let causes = body.pointer("/details/causes").and_then(Value::as_array).map_or(0, Vec::len);
    if causes > 1
        && let Some((beginning, listed)) =
            body["message"].as_str().and_then(|text| text.split_once(" is invalid: "))
    {
        body["message"] = format!("{beginning} is invalid: {} bytes", listed.len()).into();
    }
}

/// Waits until a definition is established and returns its status without times.
async fn established(client: &Client, name: &str) -> Value {
    let path = format!("{DEFINITIONS}?watch=true&fieldSelector=metadata.name%3D{name}");
    let mut watch = Watch::open(client, &path).await;
    within(&format!("{name} is established"), async {
        loop {
            let mut status = watch.event().await.object["status"].take();
            let conditions = status["conditions"].as_array_mut().map(Vec::as_mut_slice).unwrap_or_default();
            conditions.iter_mut().for_each(|condition| condition["lastTransitionTime"] = Value::Null);
            // Two upstream controllers write the conditions, in varying order.
            conditions.sort_by_key(|condition| condition["type"].to_string());
            let holds =
                |kind: &str| conditions.iter().any(|one| one["type"] == kind && one["status"] == "True");
            // Groups of Kubernetes also get an approval condition, before or after.
            let is_judged = !name.ends_with(".k8s.io") || conditions.len() > 2;
            if holds("Established") && is_judged {
                return status;
            }
        }
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn widely_used_definitions_are_served_like_upstream() {
    let Some(modules) = bundles::modules() else { return };
    let Some(real) = Upstream::shared() else { return };
    let atoll = start_atoll(&[]);
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("bundles");
    let read = |name: &str| {
        let path = directory.join(format!("{name}.txt"));
        std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    };
    let mut comparing = Comparing {
        clients: [atoll_client(&atoll), upstream_client(real)],
        atoll_side: Side::new(atoll_client(&atoll)),
        upstream_side: Side::new(upstream_client(real)),
        comparator: Comparator::default(),
        same: 0,
        wrong: Vec::new(),
    };
    let only = std::env::var("BUNDLE").ok();
    comparing.run("=== namespace\nPOST /api/v1/namespaces\n\n{\"metadata\":{\"name\":\"bundles\"}}\n").await;
    for bundle in BUNDLES.iter().filter(|bundle| only.as_ref().is_none_or(|only| only == bundle.name)) {
        let started = Instant::now();
        let (installed, judged) = (bundle.installed(&modules), bundle.judged(&modules));
        for definition in &judged {
            comparing.create(definition, "?dryRun=All").await;
        }
        for definition in &installed {
            comparing.create(definition, "").await;
        }
        for definition in &installed {
            comparing.see_established(definition).await;
        }
        let before = comparing.same + comparing.wrong.len();
        comparing.run(&read(bundle.name)).await;
        println!(
            "{}: {} definitions installed, {} more validated, {} responses about objects, {:.1} s",
            bundle.name,
            installed.len(),
            judged.len(),
            comparing.same + comparing.wrong.len() - before,
            started.elapsed().as_secs_f64(),
        );
    }
    let wrong = comparing.wrong;
    println!("{} responses are equal, {} differ", comparing.same, wrong.len());
    assert!(wrong.is_empty(), "{} unexpected:\n{}", wrong.len(), wrong.join("\n"));
}

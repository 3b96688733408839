//! Definitions that are in wide use, and objects of theirs: kube-apiserver's verdicts, answers and defaults.
//!
//! ```text
//!   upstream/bundles ─ go mod download ─► definitions ─ installed on both servers, established on both
//!   bundles/*.txt ─► objects of theirs, right and wrong ─ the same answers
//! ```

#[path = "bundles/definitions.rs"]
mod definitions;

use std::path::Path;
use std::time::Instant;

use atoll_differential::compare::Pairs;
use atoll_differential::script;
use atoll_differential::side::Side;
use atoll_testkit::wait::within;
use atoll_testkit::{Atoll, Client, Upstream};

use serde_json::Value;

use crate::definitions::{BUNDLES, Definition};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// Both servers, and how they compared so far.
struct Comparing {
    clients: [Client; 2],
    ours: Side,
    theirs: Side,
    pairs: Pairs,
    same: usize,
    wrong: Vec<String>,
}

impl Comparing {
    /// The status that both answered the last case with, if it is one.
    async fn play(&mut self, text: &str) -> Option<u16> {
        let mut status = None;
        for case in script::parse(text).unwrap_or_else(|problem| panic!("{problem}")) {
            let (own, their) = tokio::join!(self.ours.play(&case), self.theirs.play(&case));
            let differences = match (own, their) {
                (Ok(mut own), Ok(mut their)) => {
                    status = (own.status == their.status).then_some(own.status);
                    sort(&mut own.body);
                    sort(&mut their.body);
                    self.pairs.differences(case.comparison, &own, &their)
                }
                (own, their) => vec![format!("{own:?} instead of {their:?}")],
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
        match self.play(&case).await {
            Some(201) | None => {}
            Some(status) => self.wrong.push(format!("{name}{query} is refused by both: {status}")),
        }
    }

    async fn see_established(&mut self, definition: &Definition) {
        let [ours, theirs] = &self.clients;
        let name = &definition.name;
        let (own, their) = tokio::join!(established(ours, name), established(theirs, name));
        match own == their {
            true => self.same += 1,
            false => self.wrong.push(format!("status of {name}: {own} instead of {their}")),
        }
    }
}

/// Brings what upstream answers in an accidental order into one: causes, for its schemas are Go maps, and resources of a
/// group. A message that lists causes becomes how it begins and how long it is.
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

/// The status of a definition when it is established, without times.
async fn established(client: &Client, name: &str) -> Value {
    let path = format!("{DEFINITIONS}?watch=true&fieldSelector=metadata.name%3D{name}");
    let mut watch = client.watch(&path).await.unwrap_or_else(|error| panic!("{path}: {error}"));
    within(&format!("{name} is established"), async {
        loop {
            let event = watch.next().await.unwrap_or_else(|error| panic!("{path}: {error}"));
            let mut status =
                event.unwrap_or_else(|| panic!("the watch of {name} ends"))["object"]["status"].take();
            let conditions = status["conditions"].as_array_mut().map(Vec::as_mut_slice).unwrap_or_default();
            conditions.iter_mut().for_each(|condition| condition["lastTransitionTime"] = Value::Null);
            // Two controllers of upstream's write them, in the order in which they come to it.
            conditions.sort_by_key(|condition| condition["type"].to_string());
            let holds =
                |kind: &str| conditions.iter().any(|one| one["type"] == kind && one["status"] == "True");
            // Names that are Kubernetes' own are approved or not, which comes before or after.
            let is_judged = !name.ends_with(".k8s.io") || conditions.len() > 2;
            if holds("Established") && is_judged {
                return status;
            }
        }
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bundles_in_wide_use_are_served_as_kube_apiserver_serves_them() {
    let Some(modules) = definitions::modules() else { return };
    let Some(real) = Upstream::shared() else { return };
    let atoll = Atoll::start_with(&["--controllers=false"]);
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("bundles");
    let read = |name: &str| {
        let path = directory.join(format!("{name}.txt"));
        std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    };
    let mut comparing = Comparing {
        clients: [atoll.client(), real.client()],
        ours: Side::new(atoll.client()),
        theirs: Side::new(real.client()),
        pairs: Pairs::default(),
        same: 0,
        wrong: Vec::new(),
    };
    let only = std::env::var("BUNDLE").ok();
    comparing.play("=== namespace\nPOST /api/v1/namespaces\n\n{\"metadata\":{\"name\":\"bundles\"}}\n").await;
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
        comparing.play(&read(bundle.name)).await;
        println!(
            "{}: {} definitions installed, {} more judged, {} answers about objects, {:.1} s",
            bundle.name,
            installed.len(),
            judged.len(),
            comparing.same + comparing.wrong.len() - before,
            started.elapsed().as_secs_f64(),
        );
    }
    let wrong = comparing.wrong;
    println!("{} answers are the same, {} differ", comparing.same, wrong.len());
    assert!(wrong.is_empty(), "{} unexpected:\n{}", wrong.len(), wrong.join("\n"));
}

//! Definitions that are in wide use, and objects of theirs: kube-apiserver's verdicts, answers and defaults.
//!
//! ```text
//!   upstream/bundles ─ go mod download ─► definitions ─ installed on both servers, established on both
//!   bundles/*.txt ─► objects of theirs, right and wrong ─ the same answers
//! ```

#[path = "bundles/definitions.rs"]
mod definitions;

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Instant;

use atoll_differential::compare::Pairs;
use atoll_differential::script::Case;
use atoll_differential::side::Side;
use atoll_differential::{known, script};
use atoll_testkit::wait::eventually;
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
    known: BTreeMap<String, String>,
    same: usize,
    expected: usize,
    wrong: Vec<String>,
}

impl Comparing {
    async fn play(&mut self, case: &Case) {
        let (own, their) = tokio::join!(self.ours.play(case), self.theirs.play(case));
        let differences = match (own, their) {
            (Ok(mut own), Ok(mut their)) => {
                for seen in [&mut own, &mut their] {
                    sort_causes(&mut seen.body);
                }
                self.pairs.differences(case.comparison, &own, &their)
            }
            (own, their) => vec![format!("{own:?} instead of {their:?}")],
        };
        match (differences.is_empty(), self.known.contains_key(&case.name)) {
            (true, false) => self.same += 1,
            (false, true) => self.expected += 1,
            (true, true) => {
                self.wrong.push(format!("{} does not differ any more: take it off known.txt", case.name))
            }
            (false, false) => self.wrong.push(format!("{}\n    {}", case.name, differences.join("\n    "))),
        }
    }

    async fn play_all(&mut self, text: &str) {
        for case in script::parse(text).unwrap_or_else(|problem| panic!("{problem}")) {
            self.play(&case).await;
        }
    }

    async fn create(&mut self, definition: &Definition, query: &str) {
        let Definition { name, body } = definition;
        self.play_all(&format!("=== create {name}{query}\nPOST {DEFINITIONS}{query}\n\n{body}\n")).await;
    }

    async fn see_established(&mut self, definition: &Definition) {
        let name = &definition.name;
        let path = format!("{DEFINITIONS}/{name}");
        for client in &self.clients {
            eventually(&format!("{name} is established"), async || is_established(client, &path).await).await;
        }
        self.play_all(&format!("=== establish {name}\nGET {path}\n")).await;
    }
}

/// Upstream's schemas are Go maps, so what is wrong with two fields comes in an accidental order: sorts the causes, and
/// leaves of a message that lists them how it begins and how long it is.
fn sort_causes(body: &mut Value) {
    let Some(causes) = body.pointer_mut("/details/causes").and_then(Value::as_array_mut) else { return };
    if causes.len() < 2 {
        return;
    }
    causes.sort_by_key(ToString::to_string);
    if let Some((beginning, list)) =
        body["message"].as_str().and_then(|text| text.split_once(" is invalid: "))
    {
        body["message"] = format!("{beginning} is invalid: {} characters", list.len()).into();
    }
}

/// Whether it is, or was refused, which its creation has shown already.
async fn is_established(client: &Client, path: &str) -> bool {
    let answer = client.get(path).await.unwrap_or_else(|error| panic!("{path}: {error}"));
    let conditions = &answer.json()["status"]["conditions"];
    let mut conditions = conditions.as_array().into_iter().flatten();
    answer.status == 404
        || conditions.any(|condition| condition["type"] == "Established" && condition["status"] == "True")
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
        known: known::parse(&read("known")).unwrap_or_else(|problem| panic!("{problem}")),
        same: 0,
        expected: 0,
        wrong: Vec::new(),
    };
    let only = std::env::var("BUNDLE").ok();
    comparing
        .play_all("=== namespace\nPOST /api/v1/namespaces\n\n{\"metadata\":{\"name\":\"bundles\"}}\n")
        .await;
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
        let defined = comparing.wrong.len();
        let cases = comparing.same + comparing.expected + defined;
        comparing.play_all(&read(bundle.name)).await;
        println!(
            "{}: {} definitions installed, {} more judged, {} answers about objects, {:.1} s",
            bundle.name,
            installed.len(),
            judged.len(),
            comparing.same + comparing.expected + comparing.wrong.len() - cases,
            started.elapsed().as_secs_f64(),
        );
    }
    let wrong = comparing.wrong;
    println!(
        "{} answers are the same, {} differ as listed, {} differ",
        comparing.same,
        comparing.expected,
        wrong.len()
    );
    assert!(wrong.is_empty(), "{} unexpected:\n{}", wrong.len(), wrong.join("\n"));
}

//! OpenAPI documents against kube-apiserver's: the same paths, operations, parameters, definitions, types and extensions.
//!
//! Descriptions are left out, where they are our own; so is the order of what has none.

use std::collections::{BTreeMap, BTreeSet};

use atoll_openapi::{Api, Resource, Subresource};
use atoll_testkit::{Atoll, Client, Upstream};
use serde_json::{Map, Value};

/// Parts of the documents that may differ, by their beginning, and why.
const KNOWN: [(&str, &str); 2] = [
    (
        "v2 definitions io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions",
        "upstream names versions that are no longer served among the kinds",
    ),
    (
        "v2 definitions io.k8s.apimachinery.pkg.apis.meta.v1.WatchEvent",
        "upstream names versions that are no longer served among the kinds",
    ),
];

/// Parts of documents by name: `v3 apis/apps/v1 paths /apis/apps/v1/deployments`.
type Parts = BTreeMap<String, Value>;

/// How much of what kube-apiserver says is said alike.
#[derive(Default)]
struct Agreement {
    same: usize,
    known: BTreeSet<&'static str>,
    absent: Vec<String>,
    wrong: Vec<String>,
}

impl Agreement {
    /// `partial` permits ours to lack what is not served.
    fn of(ours: &Parts, theirs: &Parts, partial: bool) -> Agreement {
        let mut agreement = Agreement::default();
        let names: BTreeSet<&String> = ours.keys().chain(theirs.keys()).collect();
        for name in names {
            let reason =
                KNOWN.iter().find(|(beginning, _)| name.starts_with(beginning)).map(|(known, _)| *known);
            match (ours.get(name), theirs.get(name), reason) {
                (Some(one), Some(other), _) if one == other => agreement.same += 1,
                (_, _, Some(known)) => {
                    agreement.known.insert(known);
                }
                (None, _, _) if partial => agreement.absent.push(name.clone()),
                (one, other, _) => agreement.wrong.push(format!("{name}\n{}", difference(one, other))),
            }
        }
        agreement
    }

    fn check(&self, what: &str) {
        let (wrong, absent) = (self.wrong.len(), self.absent.len());
        println!(
            "{what}: {} parts alike, {wrong} not, {} known, {absent} not served",
            self.same,
            self.known.len()
        );
        let shown: Vec<&str> = self.wrong.iter().take(20).map(String::as_str).collect();
        assert!(shown.is_empty(), "{wrong} parts differ:\n{}", shown.join("\n"));
    }
}

/// The first places at which two values differ.
fn difference(ours: Option<&Value>, theirs: Option<&Value>) -> String {
    fn walk(path: &str, ours: &Value, theirs: &Value, found: &mut Vec<String>) {
        match (ours, theirs) {
            _ if ours == theirs || found.len() > 3 => {}
            (Value::Object(one), Value::Object(other)) => {
                let names: BTreeSet<&String> = one.keys().chain(other.keys()).collect();
                for name in names {
                    let of = |object: &Map<String, Value>| object.get(name).cloned().unwrap_or_default();
                    walk(&format!("{path}/{name}"), &of(one), &of(other), found);
                }
            }
            _ => found.push(format!("  {path}: ours {ours}, theirs {theirs}")),
        }
    }
    let mut found = Vec::new();
    let absent = Value::String("absent".to_owned());
    walk("", ours.unwrap_or(&absent), theirs.unwrap_or(&absent), &mut found);
    found.join("\n")
}

/// Without descriptions, and with what is a set in order.
fn comparable(value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            let fields =
                fields.into_iter().filter(|(name, value)| name != "description" || !value.is_string());
            fields.map(|(name, value)| (name, comparable(value))).collect::<Map<_, _>>().into()
        }
        Value::Array(mut elements) => {
            if elements.iter().all(Value::is_string) {
                elements.sort_by(|one, other| one.as_str().cmp(&other.as_str()));
            }
            elements.into_iter().map(comparable).collect()
        }
        other => other,
    }
}

fn add_members(parts: &mut Parts, prefix: &str, section: &Value) {
    for (name, value) in section.as_object().into_iter().flatten() {
        parts.insert(format!("{prefix} {name}"), comparable(value.clone()));
    }
}

fn add_v3(parts: &mut Parts, path: &str, document: &Value) {
    add_members(parts, &format!("v3 {path} paths"), &document["paths"]);
    add_members(parts, &format!("v3 {path} schemas"), &document["components"]["schemas"]);
    for member in ["openapi", "info"] {
        parts.insert(format!("v3 {path} {member}"), comparable(document[member].clone()));
    }
    let security = comparable(document["components"]["securitySchemes"].clone());
    parts.insert(format!("v3 {path} securitySchemes"), security);
}

/// Parameters that are referred to stand in place of the references: how they are shared has no meaning.
fn add_v2(parts: &mut Parts, document: &Value) {
    let mut paths = document["paths"].clone();
    resolve(&mut paths, &document["parameters"]);
    add_members(parts, "v2 paths", &paths);
    add_members(parts, "v2 definitions", &document["definitions"]);
    for member in ["swagger", "info", "security", "securityDefinitions"] {
        parts.insert(format!("v2 {member}"), comparable(document[member].clone()));
    }
}

fn resolve(value: &mut Value, parameters: &Value) {
    if let Some(name) = value["$ref"].as_str().and_then(|name| name.strip_prefix("#/parameters/")) {
        *value = parameters[name].clone();
        return;
    }
    match value {
        Value::Object(fields) => fields.values_mut().for_each(|value| resolve(value, parameters)),
        Value::Array(elements) => elements.iter_mut().for_each(|value| resolve(value, parameters)),
        _ => {}
    }
}

async fn fetch(client: &Client, path: &str) -> Value {
    let answer = client.get(path).await.unwrap_or_else(|error| panic!("{path}: {error}"));
    assert_eq!(answer.status, 200, "{path}: {}", answer.text());
    answer.json()
}

/// All that a server says of itself.
async fn parts_of(client: &Client) -> Parts {
    let mut parts = Parts::new();
    let index = fetch(client, "/openapi/v3").await;
    for (path, entry) in index["paths"].as_object().into_iter().flatten() {
        let address = entry["serverRelativeURL"].as_str().unwrap_or_default();
        add_v3(&mut parts, path, &fetch(client, address).await);
    }
    add_v2(&mut parts, &fetch(client, "/openapi/v2").await);
    parts
}

/// What is described from the facts alone, for everything that kube-apiserver serves.
fn parts_of_facts(theirs: &Parts) -> Parts {
    let owned = |texts: &[&str]| texts.iter().map(ToString::to_string).collect();
    let resources = atoll_schema::resources().iter().map(|row| Resource {
        group: row.group.to_owned(),
        version: row.version.to_owned(),
        resource: row.resource.to_owned(),
        kind: row.kind.to_owned(),
        namespaced: row.namespaced,
        verbs: owned(&row.verbs),
        subresources: row
            .subresources
            .iter()
            .map(|subresource| Subresource {
                name: subresource.name.to_owned(),
                group: subresource.group.unwrap_or_default().to_owned(),
                version: subresource.version.unwrap_or_default().to_owned(),
                kind: subresource.kind.to_owned(),
                verbs: owned(&subresource.verbs),
            })
            .collect(),
        // No fact of the types but of their registries, and checked with those.
        returns_deleted: returns_deleted(theirs, row),
        custom: false,
    });
    let api = Api::new(resources.collect(), Vec::new());
    let author = api.author();
    let written = |write: &dyn Fn(&mut Vec<u8>) -> std::io::Result<()>| -> Value {
        let mut text = Vec::new();
        write(&mut text).expect("memory can be written to");
        serde_json::from_slice(&text).expect("documents are JSON")
    };
    let mut parts = Parts::new();
    for path in author.paths() {
        add_v3(&mut parts, &path, &written(&|out| author.v3(&path, out)));
    }
    add_v2(&mut parts, &written(&|out| author.v2(out)));
    parts
}

fn returns_deleted(theirs: &Parts, row: &atoll_schema::Resource) -> bool {
    let root = if row.group.is_empty() { "/api".to_owned() } else { format!("/apis/{}", row.group) };
    let scope = if row.namespaced { "/namespaces/{namespace}" } else { "" };
    let name = format!("v2 paths {root}/{}{scope}/{}/{{name}}", row.version, row.resource);
    let schema = theirs.get(&name).map(|path| &path["delete"]["responses"]["200"]["schema"]["$ref"]);
    schema.and_then(Value::as_str).is_some_and(|reference| !reference.ends_with(".Status"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn everything_is_described_as_kube_apiserver_describes_it() {
    let Some(real) = Upstream::shared() else { return };
    let theirs = parts_of(&real.client()).await;
    assert!(theirs.len() > 2500, "{} parts are too few", theirs.len());
    let agreement = Agreement::of(&parts_of_facts(&theirs), &theirs, false);
    agreement.check("described");
    let unknown: Vec<&str> =
        KNOWN.iter().map(|(known, _)| *known).filter(|known| !agreement.known.contains(known)).collect();
    assert!(unknown.is_empty(), "known differences that are none: {unknown:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_served_is_described_as_kube_apiserver_describes_it() {
    let Some(real) = Upstream::shared() else { return };
    let atoll = Atoll::start();
    let theirs = parts_of(&real.client()).await;
    let mut ours = parts_of(&atoll.client()).await;
    let own = ours.extract_if(.., |name, _| name.contains("atoll.dev") || name.contains("dev.atoll")).count();
    assert!(own > 10, "Atoll's own kinds have {own} parts only");
    Agreement::of(&ours, &theirs, true).check("served");
}

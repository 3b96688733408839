//! Compares OpenAPI documents with kube-apiserver's: paths, operations, parameters, definitions, types and
//! extensions.
//!
//! Descriptions are ignored, because Atoll has its own; so is the order of lists without a defined order.

use std::collections::{BTreeMap, BTreeSet};

use atoll_differential::servers::upstream_client;
use atoll_openapi::{Api, Resource, Subresource};
use atoll_testkit::{Atoll, Client, Upstream};
use serde_json::{Map, Value};

/// Prefixes of the parts that may differ, with reasons.
const KNOWN: [(&str, &str); 2] = [
    (
        "v2 definitions io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions",
        "upstream lists versions that are no longer served",
    ),
    (
        "v2 definitions io.k8s.apimachinery.pkg.apis.meta.v1.WatchEvent",
        "upstream lists versions that are no longer served",
    ),
];

/// Parts of documents by name, such as `v3 apis/apps/v1 paths /apis/apps/v1/deployments`.
type Parts = BTreeMap<String, Value>;

/// Result of comparing the parts of both servers.
#[derive(Default)]
struct Agreement {
    same: usize,
    known: BTreeSet<&'static str>,
    absent: Vec<String>,
    wrong: Vec<String>,
}

impl Agreement {
    /// Compares all parts. `partial` allows Atoll to lack parts of resources that it does not serve.
    fn of(atoll_parts: &Parts, upstream_parts: &Parts, partial: bool) -> Agreement {
        let mut agreement = Agreement::default();
        let names: BTreeSet<&String> = atoll_parts.keys().chain(upstream_parts.keys()).collect();
        for name in names {
            let reason =
                KNOWN.iter().find(|(beginning, _)| name.starts_with(beginning)).map(|(known, _)| *known);
            match (atoll_parts.get(name), upstream_parts.get(name), reason) {
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
            "{what}: {} parts are equal, {wrong} differ, {} are known to differ, {absent} are not served",
            self.same,
            self.known.len()
        );
        let shown: Vec<&str> = self.wrong.iter().take(20).map(String::as_str).collect();
        assert!(shown.is_empty(), "{wrong} parts differ:\n{}", shown.join("\n"));
    }
}

/// Returns the first locations at which two values differ.
fn difference(atoll_parts: Option<&Value>, upstream_parts: Option<&Value>) -> String {
    fn walk(path: &str, atoll_parts: &Value, upstream_parts: &Value, found: &mut Vec<String>) {
        match (atoll_parts, upstream_parts) {
            _ if atoll_parts == upstream_parts || found.len() > 3 => {}
            (Value::Object(one), Value::Object(other)) => {
                let names: BTreeSet<&String> = one.keys().chain(other.keys()).collect();
                for name in names {
                    let of = |object: &Map<String, Value>| object.get(name).cloned().unwrap_or_default();
                    walk(&format!("{path}/{name}"), &of(one), &of(other), found);
                }
            }
            _ => found.push(format!("  {path}: atoll {atoll_parts}, upstream {upstream_parts}")),
        }
    }
    let mut found = Vec::new();
    let absent = Value::String("absent".to_owned());
    walk("", atoll_parts.unwrap_or(&absent), upstream_parts.unwrap_or(&absent), &mut found);
    found.join("\n")
}

/// Removes descriptions, and sorts lists that are sets.
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

/// Adds the parts of a v2 document. References to parameters are resolved, because how they are shared has no
/// meaning.
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
    client.get(path).await.expect(200)
}

/// Returns the parts of all documents that a server serves.
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

/// Returns the documents that are generated from the facts alone, for everything that kube-apiserver serves.
fn parts_of_facts(upstream_parts: &Parts) -> Parts {
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
        // A property of upstream's registries that the facts do not have, so it is taken from upstream's
        // document.
        returns_deleted: returns_deleted(upstream_parts, row),
        custom: false,
    });
    let api = Api::new(resources.collect(), Vec::new());
    let author = api.writer();
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

fn returns_deleted(upstream_parts: &Parts, row: &atoll_schema::Resource) -> bool {
    let root = if row.group.is_empty() { "/api".to_owned() } else { format!("/apis/{}", row.group) };
    let scope = if row.namespaced { "/namespaces/{namespace}" } else { "" };
    let name = format!("v2 paths {root}/{}{scope}/{}/{{name}}", row.version, row.resource);
    let schema = upstream_parts.get(&name).map(|path| &path["delete"]["responses"]["200"]["schema"]["$ref"]);
    schema.and_then(Value::as_str).is_some_and(|reference| !reference.ends_with(".Status"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn generated_documents_match_upstream() {
    let Some(real) = Upstream::shared() else { return };
    let upstream_parts = parts_of(&upstream_client(real)).await;
    assert!(upstream_parts.len() > 2500, "{} parts are too few", upstream_parts.len());
    let agreement = Agreement::of(&parts_of_facts(&upstream_parts), &upstream_parts, false);
    agreement.check("generated from facts");
    let unknown: Vec<&str> =
        KNOWN.iter().map(|(known, _)| *known).filter(|known| !agreement.known.contains(known)).collect();
    assert!(unknown.is_empty(), "known differences that no longer exist: {unknown:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn served_documents_match_upstream() {
    let Some(real) = Upstream::shared() else { return };
    let atoll = Atoll::start();
    let upstream_parts = parts_of(&upstream_client(real)).await;
    let mut atoll_parts = parts_of(&atoll.admin().accepting_anything()).await;
    let own = atoll_parts
        .extract_if(.., |name, _| name.contains("atoll.dev") || name.contains("dev.atoll"))
        .count();
    assert!(own > 10, "Atoll's own kinds have only {own} parts");
    Agreement::of(&atoll_parts, &upstream_parts, true).check("served");
}

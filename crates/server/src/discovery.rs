//! Discovery: one document per group and version, and the aggregated one.

// upstream: staging/src/k8s.io/apiserver/pkg/endpoints/discovery/root.go
// upstream: staging/src/k8s.io/apiserver/pkg/endpoints/discovery/version.go
// upstream: staging/src/k8s.io/apiserver/pkg/endpoints/discovery/storageversionhash.go
// upstream: staging/src/k8s.io/apiserver/pkg/endpoints/discovery/aggregated/handler.go

use std::cmp::Ordering;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use atoll_meta::Status;
use atoll_registry::catalog::METRICS;
use atoll_registry::definitions::{Definition, compare_versions};
use atoll_registry::{Row, SharedRow};
use aws_lc_rs::digest;
use base64::Engine;
use bytes::Bytes;
use http::header::{ACCEPT, CACHE_CONTROL, CONTENT_TYPE, ETAG, IF_NONE_MATCH, VARY};
use http::{HeaderMap, HeaderValue, Response, StatusCode};
use serde_json::{Map, Value, json};

use crate::Server;
use crate::body::Body;
use crate::negotiate::{Media, Output, clauses};
use crate::network_faults::GroupVersion;
use crate::workspace::Workspace;
use crate::{openid, respond};

/// Discovery documents of the built-in resources, built once, and those of sets of custom resources.
pub struct DocumentCache {
    shared: Documents,
    /// In order of use, the most recent last. Workspaces with the same definitions share documents.
    custom: Mutex<Vec<CustomDocuments>>,
    rows: Vec<SharedRow>,
    hidden: Box<[GroupVersion]>,
}

/// IDs of the definitions and their documents.
type CustomDocuments = (Box<[u64]>, Arc<Documents>);

/// Maximum number of cached sets of custom resources.
const MAX_CUSTOM_SETS: usize = 64;

/// Documents by path. For a set of custom resources, only those that differ from the shared ones.
struct Documents {
    legacy: HashMap<String, Document>,
    /// For `/api` and `/apis`, by version of the format.
    aggregated: HashMap<(&'static str, &'static str), Document>,
}

struct Document {
    body: Bytes,
    etag: String,
}

/// Versions of the aggregated format.
const FORMATS: [&str; 1] = ["v2"];

impl DocumentCache {
    /// For `rows` and for custom resources that are not in `hidden`.
    pub fn new(rows: Vec<SharedRow>, hidden: &[GroupVersion]) -> Self {
        let shared = Documents::new(&groups(&rows), |_| true);
        DocumentCache { shared, custom: Mutex::default(), rows, hidden: hidden.into() }
    }

    /// Returns the documents of a workspace with these definitions, `None` if it has no custom resources.
    fn custom(&self, definitions: &[Arc<Definition>]) -> Option<Arc<Documents>> {
        let established = definitions.iter().filter(|definition| definition.is_established);
        let established: Vec<&Arc<Definition>> = established.collect();
        if established.is_empty() {
            return None;
        }
        let ids: Box<[u64]> = established.iter().map(|definition| definition.id).collect();
        if let Some(known) = self.cached(&ids) {
            return Some(known);
        }
        let own = established.iter().flat_map(|definition| &definition.rows);
        let own: Vec<SharedRow> = own
            .filter(|row| {
                let is_hidden =
                    self.hidden.iter().any(|(group, version)| *group == row.group && *version == row.version);
                let known = |known: &SharedRow| known.group == row.group && known.version == row.version;
                !is_hidden && !self.rows.iter().any(known)
            })
            .cloned()
            .collect();
        let all: Vec<SharedRow> = self.rows.iter().chain(&own).cloned().collect();
        let made = Arc::new(Documents::new(&groups(&all), |group| own.iter().any(|row| row.group == group)));
        let mut custom = self.custom.lock().unwrap_or_else(PoisonError::into_inner);
        if custom.len() == MAX_CUSTOM_SETS {
            custom.remove(0);
        }
        custom.push((ids, made.clone()));
        Some(made)
    }

    fn cached(&self, ids: &[u64]) -> Option<Arc<Documents>> {
        let mut custom = self.custom.lock().unwrap_or_else(PoisonError::into_inner);
        let position = custom.iter().position(|(known, _)| **known == *ids)?;
        let found = custom.remove(position);
        let documents = found.1.clone();
        custom.push(found);
        Some(documents)
    }
}

impl Documents {
    /// Builds the lists of all groups, and the documents of groups that match `wanted`.
    fn new(groups: &[Group<'_>], wanted: impl Fn(&str) -> bool) -> Self {
        let mut legacy = HashMap::new();
        let mut add = |path: String, value: Value| legacy.insert(path, Document::new(&value));
        let named: Vec<Value> = groups.iter().filter(|group| !group.name.is_empty()).map(api_group).collect();
        add("/apis".into(), json!({ "kind": "APIGroupList", "apiVersion": "v1", "groups": named }));
        for group in groups.iter().filter(|group| wanted(group.name)) {
            if !group.name.is_empty() {
                let mut document = api_group(group);
                document["kind"] = "APIGroup".into();
                document["apiVersion"] = "v1".into();
                add(format!("/apis/{}", group.name), document);
            }
            for version in &group.versions {
                let path = match group.name {
                    "" => format!("/api/{}", version.name),
                    name => format!("/apis/{name}/{}", version.name),
                };
                add(path, resource_list(group, version));
            }
        }
        let mut aggregated = HashMap::new();
        for format in FORMATS {
            for (path, core) in [("/api", true), ("/apis", false)] {
                if core && !wanted("") {
                    continue;
                }
                let items = groups.iter().filter(|group| group.name.is_empty() == core).map(aggregated_group);
                let document = json!({
                    "kind": "APIGroupDiscoveryList",
                    "apiVersion": format!("apidiscovery.k8s.io/{format}"),
                    "metadata": {},
                    "items": items.collect::<Vec<_>>(),
                });
                aggregated.insert((path, format), Document::new(&document));
            }
        }
        Documents { legacy, aggregated }
    }
}

impl Document {
    fn new(value: &Value) -> Self {
        let body = Bytes::from(atoll_meta::json::to_vec(value));
        let hash = digest::digest(&digest::SHA256, &body);
        let etag: String = hash.as_ref().iter().map(|byte| format!("{byte:02X}")).collect();
        Document { body, etag: format!("\"{etag}\"") }
    }
}

struct Group<'a> {
    name: &'a str,
    /// The preferred version first.
    versions: Vec<Version<'a>>,
}

struct Version<'a> {
    name: &'a str,
    rows: Vec<&'a Row>,
}

/// Groups rows: first the built-in groups in their order, then the others by name.
fn groups(rows: &[SharedRow]) -> Vec<Group<'_>> {
    let mut groups: Vec<Group<'_>> = Vec::new();
    for row in rows {
        let position = groups.iter().position(|group| group.name == row.group).unwrap_or_else(|| {
            groups.push(Group { name: &row.group, versions: Vec::new() });
            groups.len() - 1
        });
        let versions = &mut groups[position].versions;
        match versions.iter_mut().find(|version| version.name == row.version) {
            Some(version) => version.rows.push(row),
            None => versions.push(Version { name: &row.version, rows: vec![row] }),
        }
    }
    let is_custom = |group: &Group<'_>| group.versions.iter().any(|version| version.rows[0].custom.is_some());
    // Aggregated APIs come last.
    let origin = |group: &Group<'_>| (group.name == METRICS, is_custom(group));
    groups.sort_by(|one, other| {
        let by_origin = origin(one).cmp(&origin(other));
        by_origin.then_with(|| if is_custom(one) { one.name.cmp(other.name) } else { Ordering::Equal })
    });
    for group in groups.iter_mut().filter(|group| is_custom(group)) {
        group.versions.sort_by(|one, other| compare_versions(other.name, one.name));
        for version in &mut group.versions {
            version.rows.sort_by(|one, other| one.resource.cmp(&other.resource));
        }
    }
    groups
}

fn group_version(group: &str, version: &str) -> String {
    if group.is_empty() { version.to_string() } else { format!("{group}/{version}") }
}

fn api_versions(advertised: &str) -> Value {
    json!({
        "kind": "APIVersions",
        "versions": ["v1"],
        "serverAddressByClientCIDRs": [{ "clientCIDR": "0.0.0.0/0", "serverAddress": advertised }],
    })
}

fn api_group(group: &Group<'_>) -> Value {
    let version = |version: &Version<'_>| json!({ "groupVersion": group_version(group.name, version.name), "version": version.name });
    let versions: Vec<Value> = group.versions.iter().map(version).collect();
    json!({ "name": group.name, "versions": versions, "preferredVersion": versions.first() })
}

fn resource_list(group: &Group<'_>, version: &Version<'_>) -> Value {
    let mut resources = Vec::new();
    for row in &version.rows {
        resources.push(resource(row));
        for subresource in &row.subresources {
            let mut entry = Map::new();
            entry.insert("name".into(), format!("{}/{}", row.resource, subresource.name).into());
            entry.insert("singularName".into(), "".into());
            entry.insert("namespaced".into(), row.namespaced.into());
            for (name, value) in [("group", &subresource.group), ("version", &subresource.version)] {
                if !value.is_empty() {
                    entry.insert(name.into(), value.as_str().into());
                }
            }
            entry.insert("kind".into(), subresource.kind.as_str().into());
            entry.insert("verbs".into(), json!(subresource.verbs));
            resources.push(Value::Object(entry));
        }
    }
    let mut list = json!({
        "kind": "APIResourceList",
        "groupVersion": group_version(group.name, version.name),
        "resources": resources,
    });
    // Upstream's list of the core group has no apiVersion.
    if !group.name.is_empty() {
        list["apiVersion"] = "v1".into();
    }
    list
}

fn resource(row: &Row) -> Value {
    let mut entry = json!({
        "name": row.resource,
        "singularName": row.singular,
        "namespaced": row.namespaced,
        "kind": row.kind,
        "verbs": row.verbs,
    });
    for (name, values) in [("shortNames", &row.short_names), ("categories", &row.categories)] {
        if !values.is_empty() {
            entry[name] = json!(values);
        }
    }
    match &row.custom {
        Some(custom) => {
            entry["storageVersionHash"] = storage_version_hash(row, &custom.storage().version.name).into()
        }
        None if row.storage_version_hash.is_empty() => {}
        None => entry["storageVersionHash"] = row.storage_version_hash.as_str().into(),
    }
    entry
}

/// Lets clients detect that the storage version of a kind has changed.
fn storage_version_hash(row: &Row, version: &str) -> String {
    let named = format!("{}/{version}/{}", row.group, row.kind);
    let hash = digest::digest(&digest::SHA256, named.as_bytes());
    base64::engine::general_purpose::STANDARD.encode(&hash.as_ref()[..8])
}

fn aggregated_group(group: &Group<'_>) -> Value {
    let versions = group.versions.iter().map(|version| {
        let resources: Vec<Value> = version.rows.iter().map(|row| aggregated_resource(row)).collect();
        json!({ "version": version.name, "resources": resources, "freshness": "Current" })
    });
    let mut metadata = json!({});
    if !group.name.is_empty() {
        metadata["name"] = group.name.into();
    }
    json!({ "metadata": metadata, "versions": versions.collect::<Vec<_>>() })
}

fn aggregated_resource(row: &Row) -> Value {
    let kind =
        |group: &str, version: &str, kind: &str| json!({ "group": group, "version": version, "kind": kind });
    let mut entry = json!({
        "resource": row.resource,
        "responseKind": match row.custom {
            // Upstream omits group and version of built-in kinds only.
            Some(_) => kind(&row.group, &row.version, &row.kind),
            None => kind("", "", &row.kind),
        },
        "scope": if row.namespaced { "Namespaced" } else { "Cluster" },
        "singularResource": row.singular,
        "verbs": row.verbs,
    });
    for (name, values) in [("shortNames", &row.short_names), ("categories", &row.categories)] {
        if !values.is_empty() {
            entry[name] = json!(values);
        }
    }
    let subresources = row.subresources.iter().map(|subresource| {
        json!({
            "subresource": subresource.name,
            "responseKind": match (&row.custom, subresource.group.as_str()) {
                (Some(_), "") => kind(&row.group, &row.version, &subresource.kind),
                (_, group) => kind(group, &subresource.version, &subresource.kind),
            },
            "verbs": subresource.verbs,
        })
    });
    let subresources: Vec<Value> = subresources.collect();
    if !subresources.is_empty() {
        entry["subresources"] = subresources.into();
    }
    entry
}

/// Returns a discovery document, or 404.
pub fn handle(
    server: &Server,
    cache: &DocumentCache,
    workspace: &Workspace,
    path: &str,
    headers: &HeaderMap,
) -> Result<Response<Body>, Status> {
    let custom =
        workspace.scope().and_then(|workspace| cache.custom(&server.registry.definitions(workspace)));
    let path = match path.trim_end_matches('/') {
        "" => return Ok(index(cache, custom.as_deref())),
        path => path,
    };
    let sources = || custom.as_deref().into_iter().chain([&cache.shared]);
    if matches!(path, "/api" | "/apis")
        && let Some((media, format)) = aggregated_format(headers)
        && let Some(document) = sources().find_map(|documents| {
            documents.aggregated.get(&(if path == "/api" { "/api" } else { "/apis" }, format))
        })
    {
        return Ok(aggregated(document, media, format, headers));
    }
    // Only this document contains the server's address.
    if path == "/api" {
        let document = atoll_meta::json::to_vec(&api_versions(&server.advertised)).into();
        let output = Output::of_document(headers)?;
        return Ok(respond::compress(respond::object(StatusCode::OK, document, output), headers));
    }
    let Some(document) = sources().find_map(|documents| documents.legacy.get(path)) else {
        // Within a served group, a missing version is reported as a Status.
        let group = path.rsplit_once('/').map_or("", |(group, _)| group);
        let known = group == "/api" || (group != "/apis" && cache.shared.legacy.contains_key(group));
        return if known { Err(Status::not_found_generic()) } else { Ok(respond::not_found_page()) };
    };
    let output = Output::of_document(headers)?;
    Ok(respond::compress(respond::object(StatusCode::OK, document.body.clone(), output), headers))
}

fn aggregated(document: &Document, media: Media, format: &str, headers: &HeaderMap) -> Response<Body> {
    let matches = headers
        .get(IF_NONE_MATCH)
        .and_then(|value| value.to_str().ok())
        .is_some_and(|given| given == document.etag);
    let mut response = match matches {
        true => {
            let mut response = Response::new(Body::empty());
            *response.status_mut() = StatusCode::NOT_MODIFIED;
            response
        }
        false => {
            let body = document.body.clone();
            let mut response = respond::document(body, media);
            response = respond::compress(response, headers);
            response
        }
    };
    let content_type =
        format!("{};g=apidiscovery.k8s.io;v={format};as=APIGroupDiscoveryList", media.content_type());
    let own = response.headers_mut();
    for (name, value) in [
        (CONTENT_TYPE, content_type.as_str()),
        (ETAG, document.etag.as_str()),
        (VARY, "Accept"),
        (CACHE_CONTROL, "public"),
    ] {
        if let Ok(value) = HeaderValue::from_str(value) {
            own.insert(name, value);
        }
    }
    response
}

/// Returns the media type and version of the aggregated format that the client prefers, `None` if it prefers
/// the plain documents.
fn aggregated_format(headers: &HeaderMap) -> Option<(Media, &'static str)> {
    let header = headers.get(ACCEPT)?.to_str().ok()?;
    for clause in clauses(header) {
        let Some(media) = clause.first_served() else { continue };
        if !clause.is_transformed() {
            return None;
        }
        let aggregated = clause.parameter("g") == Some("apidiscovery.k8s.io")
            && clause.parameter("as") == Some("APIGroupDiscoveryList");
        let format = FORMATS.into_iter().find(|format| clause.parameter("v") == Some(format));
        if let (true, Some(format)) = (aggregated, format) {
            return Some((media, format));
        }
    }
    None
}

/// The paths of this server, at `/`.
fn index(cache: &DocumentCache, custom: Option<&Documents>) -> Response<Body> {
    let documents = custom.into_iter().chain([&cache.shared]);
    let mut paths: Vec<&str> =
        documents.flat_map(|documents| documents.legacy.keys()).map(String::as_str).collect();
    paths.extend([
        "/api",
        "/healthz",
        "/livez",
        "/metrics",
        "/openapi/v2",
        "/openapi/v3",
        "/readyz",
        "/version",
    ]);
    paths.extend([openid::CONFIGURATION, openid::KEYS]);
    paths.sort_unstable();
    paths.dedup();
    respond::json(&json!({ "paths": paths }))
}

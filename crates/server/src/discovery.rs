//! Discovery: one document per group and version, and the aggregated one.

// upstream: staging/src/k8s.io/apiserver/pkg/endpoints/discovery/root.go
// upstream: staging/src/k8s.io/apiserver/pkg/endpoints/discovery/version.go
// upstream: staging/src/k8s.io/apiserver/pkg/endpoints/discovery/storageversionhash.go
// upstream: staging/src/k8s.io/apiserver/pkg/endpoints/discovery/aggregated/handler.go

use std::cmp::Ordering;
use std::collections::{HashMap, HashSet};
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
use crate::discovery_cache::ApiDocuments;
use crate::hidden_api::GroupVersion;
use crate::negotiate::{Media, Output, clauses};
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
/// Maximum total size of the cached sets, in bytes.
const MAX_CUSTOM_BYTES: usize = 64 << 20;
/// Maximum size of one cached set. Larger sets are built for every request.
const MAX_SET_BYTES: usize = MAX_CUSTOM_BYTES / 4;
/// Number of rows from which documents are built on another thread.
const SLOW_ROWS: usize = 256;

/// Documents by path. For a set of custom resources, only those that differ from the shared ones.
struct Documents {
    legacy: HashMap<String, Document>,
    /// For `/api` and `/apis`, by version of the format.
    aggregated: HashMap<(&'static str, &'static str), Document>,
    /// Estimated memory of all documents.
    bytes: usize,
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

    /// Returns the documents of a workspace with these definitions, all of which are established.
    fn custom(&self, established: &[Arc<Definition>]) -> Arc<Documents> {
        let ids: Box<[u64]> = established.iter().map(|definition| definition.id).collect();
        if let Some(known) = self.cached(&ids) {
            return known;
        }
        let known: HashSet<(&str, &str)> = self.rows.iter().map(|row| group_version_of(row)).collect();
        let is_hidden = |row: &SharedRow| {
            self.hidden.iter().any(|(group, version)| *group == row.group && *version == row.version)
        };
        let own = established.iter().flat_map(|definition| &definition.rows);
        let own: Vec<SharedRow> =
            own.filter(|row| !is_hidden(row) && !known.contains(&group_version_of(row))).cloned().collect();
        let all: Vec<SharedRow> = self.rows.iter().chain(&own).cloned().collect();
        let wanted: HashSet<&str> = own.iter().map(|row| row.group.as_str()).collect();
        let made = Arc::new(Documents::new(&groups(&all), |group| wanted.contains(group)));
        if made.bytes <= MAX_SET_BYTES {
            let mut custom = self.custom.lock().unwrap_or_else(PoisonError::into_inner);
            custom.push((ids, made.clone()));
            let mut bytes: usize = custom.iter().map(|(_, documents)| documents.bytes).sum();
            while custom.len() > MAX_CUSTOM_SETS || bytes > MAX_CUSTOM_BYTES {
                bytes -= custom.remove(0).1.bytes;
            }
        }
        made
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
        let bodies = legacy.values().chain(aggregated.values());
        let bytes = bodies.map(|document| DOCUMENT_OVERHEAD + document.body.len()).sum();
        Documents { legacy, aggregated, bytes }
    }
}

/// Memory of a document besides its body: path, hash, entry in a map.
const DOCUMENT_OVERHEAD: usize = 512;

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
    // Definitions may have thousands of versions: searching for each would take too long.
    let (mut positions, mut version_positions) = (HashMap::new(), HashMap::new());
    for row in rows {
        let position = *positions.entry(row.group.as_str()).or_insert_with(|| {
            groups.push(Group { name: &row.group, versions: Vec::new() });
            groups.len() - 1
        });
        let versions = &mut groups[position].versions;
        let version = *version_positions.entry(group_version_of(row)).or_insert_with(|| {
            versions.push(Version { name: &row.version, rows: Vec::new() });
            versions.len() - 1
        });
        versions[version].rows.push(row);
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

fn group_version_of(row: &Row) -> (&str, &str) {
    (&row.group, &row.version)
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

/// Returns the documents of the custom resources of a workspace, `None` if it has none. Large sets are built
/// on another thread.
async fn custom(
    server: &Server,
    documents: &Arc<ApiDocuments>,
    workspace: &Workspace,
) -> Result<Option<Arc<Documents>>, Status> {
    let Some(workspace) = workspace.scope() else { return Ok(None) };
    let mut established = server.registry.definitions(workspace);
    established.retain(|definition| definition.is_established);
    if established.is_empty() {
        return Ok(None);
    }
    let rows: usize = established.iter().map(|definition| definition.rows.len()).sum();
    if rows < SLOW_ROWS {
        return Ok(Some(documents.discovery.custom(&established)));
    }
    let ids: Vec<u64> = established.iter().map(|definition| definition.id).collect();
    if let Some(known) = documents.discovery.cached(&ids) {
        return Ok(Some(known));
    }
    let documents = documents.clone();
    let made = server.registry.run_blocking(workspace, move || documents.discovery.custom(&established));
    made.await.map(Some)
}

/// Returns a discovery document, or 404.
pub async fn handle(
    server: &Server,
    documents: &Arc<ApiDocuments>,
    workspace: &Workspace,
    path: &str,
    headers: &HeaderMap,
) -> Result<Response<Body>, Status> {
    let custom = custom(server, documents, workspace).await?;
    let cache = &documents.discovery;
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

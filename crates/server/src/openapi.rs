//! OpenAPI documents.
//!
//! They are generated on first use and kept compressed, because nearly all clients accept gzip.

// upstream: k8s.io/kube-openapi/pkg/handler/handler.go
// upstream: k8s.io/kube-openapi/pkg/handler3/handler.go

use std::collections::{BTreeMap, HashMap};
use std::io::{self, BufWriter, Read, Write};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use atoll_crd::publish;
use atoll_meta::{Status, time};
use atoll_openapi::{Api, PublishedSchema, Resource, Subresource};
use atoll_registry::catalog::{ATOLL, METRICS};
use atoll_registry::definitions::Definition;
use atoll_registry::{Row, SharedRow, atoll_kinds};
use aws_lc_rs::digest;
use bytes::Bytes;
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use http::header::{
    ACCEPT, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_TYPE, ETAG, EXPIRES, HeaderName, IF_NONE_MATCH,
    LOCATION, VARY,
};
use http::{HeaderMap, HeaderValue, Response, StatusCode};
use serde_json::{Map, Value, json};

use crate::Server;
use crate::body::Body;
use crate::discovery_cache;
use crate::hidden_api::GroupVersion;
use crate::negotiate::clauses;
use crate::query::Query;
use crate::request::RequestInfo;
use crate::respond::{self, accepts_gzip};
use crate::workspace::Workspace;

/// The protobuf media type of version 2, as clients request it and as it is returned.
const PROTOBUF_ASKED: &str = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";
const PROTOBUF: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";
const JSON: &str = "application/json";

/// OpenAPI documents of the built-in resources, and those of sets of custom resources.
pub struct DocumentCache {
    shared: Documents,
    rows: Vec<SharedRow>,
    /// In order of use, the most recent last. Workspaces with the same definitions share documents.
    custom: Mutex<Vec<CustomDocuments>>,
    hidden: Box<[GroupVersion]>,
}

/// IDs of the definitions, their documents, and the estimated memory of these.
type CustomDocuments = (Box<[u64]>, Arc<Documents>, u64);

/// Maximum number of cached sets of custom resources.
const MAX_CUSTOM_SETS: usize = 16;
/// Maximum estimated memory of the cached sets, in bytes. The set that was used last is kept in any case.
const MAX_CUSTOM_BYTES: u64 = 256 << 20;

impl DocumentCache {
    /// For `rows` and for custom resources that are not in `hidden`.
    pub fn new(rows: Vec<SharedRow>, hidden: &[GroupVersion]) -> Self {
        let api = Api::new(rows.iter().map(|row| resource(row)).collect(), own_kinds(&rows));
        let shared = Documents::new(api, Vec::new());
        DocumentCache { shared, rows, custom: Mutex::default(), hidden: hidden.into() }
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
        let is_hidden = |row: &SharedRow| {
            self.hidden.iter().any(|(group, version)| *group == row.group && *version == row.version)
        };
        let own = established.iter().flat_map(|definition| &definition.rows).filter(|row| !is_hidden(row));
        let resources = self.rows.iter().chain(own.clone()).map(|row| resource(row)).collect();
        let mut kinds = own_kinds(&self.rows);
        kinds.extend(established.iter().flat_map(|definition| published(definition)));
        let mut paths: Vec<String> = own
            .flat_map(|row| [format!("apis/{}", row.group), format!("apis/{}/{}", row.group, row.version)])
            .collect();
        paths.sort_unstable();
        paths.dedup();
        // Created outside the lock, so that other workspaces do not wait. If two threads create the same
        // documents, both are valid.
        let made = Arc::new(Documents::new(Api::new(resources, kinds), paths));
        let mut custom = self.custom.lock().unwrap_or_else(PoisonError::into_inner);
        let size = established.iter().map(|definition| definition.size).sum();
        custom.push((ids, made.clone(), size));
        let mut bytes: u64 = custom.iter().map(|(.., size)| size).sum();
        while custom.len() > MAX_CUSTOM_SETS || (custom.len() > 1 && bytes > MAX_CUSTOM_BYTES) {
            bytes -= custom.remove(0).2;
        }
        Some(made)
    }

    fn cached(&self, ids: &[u64]) -> Option<Arc<Documents>> {
        let mut custom = self.custom.lock().unwrap_or_else(PoisonError::into_inner);
        let position = custom.iter().position(|(known, ..)| **known == *ids)?;
        let found = custom.remove(position);
        let documents = found.1.clone();
        custom.push(found);
        Some(documents)
    }
}

/// Returns the kinds of Atoll and of `metrics.k8s.io`, if they are served.
fn own_kinds(rows: &[SharedRow]) -> Vec<atoll_openapi::KindSchema> {
    let serves = |group: &str| rows.iter().any(|row| row.group == group);
    let mut kinds = Vec::new();
    if serves(ATOLL) {
        kinds.extend(atoll_kinds::schemas().map(|(kind, schema)| {
            let schemas = (publish::v3(&schema), publish::v2(&schema));
            atoll_openapi::own_kind(ATOLL, atoll_kinds::VERSION, kind, schemas)
        }));
    }
    if serves(METRICS) {
        kinds.extend(atoll_openapi::metrics_kinds());
    }
    kinds
}

/// Returns the kinds of a definition.
fn published(definition: &Definition) -> Vec<atoll_openapi::KindSchema> {
    let spec = definition.spec();
    let versions = spec["versions"].as_array().into_iter().flatten();
    let versions: HashMap<&str, &Value> =
        versions.filter_map(|version| Some((version["name"].as_str()?, version))).collect();
    let schema = |row: &Row| versions.get(row.version.as_str())?["schema"].get("openAPIV3Schema").cloned();
    let kind = |row: &SharedRow| {
        let custom = row.custom.as_ref()?;
        let schema = schema(row);
        let preserves = |schema: &Value| schema["x-kubernetes-preserve-unknown-fields"] == true;
        Some(atoll_openapi::custom_kind(PublishedSchema {
            group: &row.group,
            version: &row.version,
            kind: &row.kind,
            list_kind: &custom.list_kind,
            preserves: schema.as_ref().is_some_and(preserves) || spec["preserveUnknownFields"] == true,
            schemas: schema.map(|schema| (publish::v3(&schema), publish::v2(&schema))),
            selectable: custom.selectable.iter().map(ToString::to_string).collect(),
        }))
    };
    definition.rows.iter().filter_map(kind).collect()
}

/// Documents, each generated on first use.
struct Documents {
    api: Api,
    /// Paths of the documents of version 3, sorted; all if empty.
    paths: Vec<String>,
    /// Generated together, because the index needs the hashes of all of them.
    v3: OnceLock<BTreeMap<String, Document>>,
    v2: OnceLock<Document>,
    v2_protobuf: OnceLock<Document>,
}

/// A compressed document.
#[derive(Default)]
struct Document {
    zipped: Bytes,
    /// SHA-512 of the uncompressed document, in hexadecimal.
    hash: String,
}

impl Documents {
    fn new(api: Api, paths: Vec<String>) -> Self {
        Documents { api, paths, v3: OnceLock::new(), v2: OnceLock::new(), v2_protobuf: OnceLock::new() }
    }

    fn v3(&self) -> &BTreeMap<String, Document> {
        self.v3.get_or_init(|| {
            let author = self.api.writer();
            let wanted = author.paths().into_iter();
            let wanted =
                wanted.filter(|path| self.paths.is_empty() || self.paths.binary_search(path).is_ok());
            let written = wanted.filter_map(|path| {
                let document = Document::write(|out| author.v3(&path, out)).ok()?;
                Some((path, document))
            });
            written.collect()
        })
    }

    fn v2(&self) -> &Document {
        self.v2.get_or_init(|| Document::write(|out| self.api.writer().v2(out)).unwrap_or_default())
    }

    /// The same in protobuf, with the same hash.
    fn v2_protobuf(&self) -> &Document {
        self.v2_protobuf.get_or_init(|| {
            let document = Document::write(|out| self.api.writer().v2_protobuf(out)).unwrap_or_default();
            Document { hash: self.v2().hash.clone(), ..document }
        })
    }
}

impl Document {
    /// Compresses and hashes a document while it is written. Writing to memory does not fail.
    fn write(write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<Self> {
        let mut out = BufWriter::with_capacity(
            32 << 10,
            HashingWriter {
                zip: GzEncoder::new(Vec::new(), Compression::default()),
                hash: digest::Context::new(&digest::SHA512),
            },
        );
        write(&mut out)?;
        let HashingWriter { zip, hash } = out.into_inner().map_err(io::IntoInnerError::into_error)?;
        let hash = hash.finish().as_ref().iter().map(|byte| format!("{byte:02X}")).collect();
        Ok(Document { zipped: Bytes::from(zip.finish()?), hash })
    }
}

/// A writer that compresses and hashes.
struct HashingWriter {
    zip: GzEncoder<Vec<u8>>,
    hash: digest::Context,
}

impl Write for HashingWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.hash.update(bytes);
        self.zip.write_all(bytes)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn resource(row: &Row) -> Resource {
    let subresources = row.subresources.iter().map(|subresource| Subresource {
        name: subresource.name.clone(),
        group: subresource.group.clone(),
        version: subresource.version.clone(),
        kind: subresource.kind.clone(),
        verbs: subresource.verbs.clone(),
    });
    Resource {
        group: row.group.clone(),
        version: row.version.clone(),
        resource: row.resource.clone(),
        kind: row.kind.clone(),
        namespaced: row.namespaced,
        verbs: row.verbs.clone(),
        subresources: subresources.collect(),
        // A deleted namespace is returned as well, but upstream's documents do not say so.
        custom: row.custom.is_some(),
        returns_deleted: row.strategy.returns_deleted
            && (row.group.as_str(), row.resource.as_str()) != ("", "namespaces"),
    }
}

pub fn is_document(path: &str) -> bool {
    path == "/openapi/v2" || path == "/openapi/v3" || path.starts_with("/openapi/v3/")
}

/// Generates documents on blocking threads, because it takes long.
pub async fn handle(
    server: &Arc<Server>,
    documents: Arc<discovery_cache::ApiDocuments>,
    workspace: Workspace,
    info: &Arc<RequestInfo>,
    query: Query,
    headers: HeaderMap,
) -> Result<Response<Body>, Status> {
    let registry = server.registry.clone();
    let tenant = workspace.scope().unwrap_or_default().to_string();
    let (server, info) = (server.clone(), info.clone());
    // Workspaces take turns, so that large definitions of one do not delay others.
    let answered = registry.run_blocking(&tenant, move || {
        let cache = &documents.openapi;
        let custom =
            workspace.scope().and_then(|workspace| cache.custom(&server.registry.definitions(workspace)));
        let custom = custom.as_deref();
        let request = Request {
            server: &server,
            shared: &cache.shared,
            custom,
            info: &info,
            query: &query,
            headers: &headers,
        };
        match info.path.strip_prefix("/openapi/v3/") {
            Some(path) => request.v3(path),
            None if info.path == "/openapi/v2" => request.v2(),
            None => request.index(),
        }
    });
    answered.await
}

struct Request<'a> {
    server: &'a Server,
    shared: &'a Documents,
    /// Documents of the workspace's custom resources.
    custom: Option<&'a Documents>,
    info: &'a RequestInfo,
    query: &'a Query,
    headers: &'a HeaderMap,
}

impl Request<'_> {
    /// Returns the URLs of the documents of version 3, each with its hash.
    fn index(&self) -> Response<Body> {
        let own = self.custom.into_iter().flat_map(Documents::v3);
        let paths: Map<String, Value> = self
            .shared
            .v3()
            .iter()
            .chain(own)
            .map(|(path, document)| {
                (path.clone(), json!({ "serverRelativeURL": self.address(path, document) }))
            })
            .collect();
        let text = json!({ "paths": paths }).to_string();
        respond::with_type(StatusCode::OK, "text/plain; charset=utf-8", Body::from(text))
    }

    fn address(&self, path: &str, document: &Document) -> String {
        let below = format!("/openapi/v3/{path}?hash={}", document.hash);
        self.info
            .workspace
            .as_ref()
            .map_or(below.clone(), |workspace| format!("/clusters/{workspace}{below}"))
    }

    fn v3(&self, path: &str) -> Response<Body> {
        let own = self.custom.and_then(|custom| custom.v3().get(path));
        let Some(document) = own.or_else(|| self.shared.v3().get(path)) else {
            return empty_response(StatusCode::NOT_FOUND);
        };
        if self.negotiate(&[(JSON, JSON)]).is_none() {
            return not_acceptable(&["Accept"]);
        }
        let given = self.query.get("hash").filter(|hash| !hash.is_empty());
        if given.is_some_and(|hash| hash != document.hash) {
            let mut response = empty_response(StatusCode::MOVED_PERMANENTLY);
            set(&mut response, LOCATION, &self.address(path, document));
            set(&mut response, CONTENT_TYPE, JSON);
            set(&mut response, ETAG, &format!("\"{}\"", document.hash));
            vary(&mut response, &["Accept"]);
            return response;
        }
        let mut response = self.document(document, JSON);
        // Upstream never compresses these.
        let compressed = response.headers().contains_key(CONTENT_ENCODING);
        vary(&mut response, if compressed { &ENCODED } else { &["Accept"] });
        if given.is_some() {
            // The content for a hash never changes.
            set(&mut response, CACHE_CONTROL, "public, immutable");
            set(&mut response, EXPIRES, &http_date(self.server.registry.clock.seconds() + YEAR));
        }
        response
    }

    fn v2(&self) -> Response<Body> {
        let documents = self.custom.unwrap_or(self.shared);
        let mut response =
            match self.negotiate(&[(JSON, JSON), (PROTOBUF_ASKED, PROTOBUF), (PROTOBUF, PROTOBUF)]) {
                Some(JSON) => self.document(documents.v2(), JSON),
                Some(protobuf) => self.document(documents.v2_protobuf(), protobuf),
                None => return not_acceptable(&ENCODED),
            };
        vary(&mut response, &ENCODED);
        response
    }

    /// Chooses among media types, given as pairs of requested and returned type.
    fn negotiate(&self, forms: &[(&str, &'static str)]) -> Option<&'static str> {
        let accept = self.headers.get(ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let accept = if accept.trim().is_empty() { "*/*" } else { accept };
        let wanted = clauses(accept);
        let found = wanted.iter().find_map(|clause| {
            forms
                .iter()
                .find(|(asked, _)| matches!(clause.media, "*/*" | "application/*") || clause.media == *asked)
        });
        found.map(|(_, answered)| *answered)
    }

    fn document(&self, document: &Document, content_type: &'static str) -> Response<Body> {
        let etag = format!("\"{}\"", document.hash);
        let known = self.headers.get(IF_NONE_MATCH).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let is_known = known.split(',').any(|known| matches!(known.trim(), "*") || known.trim() == etag);
        let mut response = if is_known {
            empty_response(StatusCode::NOT_MODIFIED)
        } else if accepts_gzip(self.headers) {
            let mut response =
                respond::with_type(StatusCode::OK, content_type, Body::from(document.zipped.clone()));
            set(&mut response, CONTENT_ENCODING, "gzip");
            response
        } else {
            respond::with_type(StatusCode::OK, content_type, Body::from(unzip(&document.zipped)))
        };
        set(&mut response, ETAG, &etag);
        response
    }
}

fn empty_response(code: StatusCode) -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = code;
    response
}

fn not_acceptable(on: &[&'static str]) -> Response<Body> {
    let mut response = empty_response(StatusCode::NOT_ACCEPTABLE);
    vary(&mut response, on);
    response
}

/// The Vary headers of responses that may be compressed.
const ENCODED: [&str; 2] = ["Accept-Encoding", "Accept"];

/// Adds one header for each, as upstream.
fn vary(response: &mut Response<Body>, on: &[&'static str]) {
    for name in on {
        response.headers_mut().append(VARY, HeaderValue::from_static(name));
    }
}

fn set(response: &mut Response<Body>, name: HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        response.headers_mut().insert(name, value);
    }
}

fn unzip(zipped: &[u8]) -> Vec<u8> {
    let mut text = Vec::new();
    // This was compressed here, so it is valid.
    let _ = GzDecoder::new(zipped).read_to_end(&mut text);
    text
}

const YEAR: i64 = 365 * 86_400;

/// Formats a time for HTTP: `Mon, 15 Nov 2027 12:04:02 GMT`.
fn http_date(seconds: i64) -> String {
    format!("{} GMT", time::format_rfc1123(seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_formatted_for_http() {
        for (seconds, expected) in [
            (0, "Thu, 01 Jan 1970 00:00:00 GMT"),
            (1_826_280_242, "Mon, 15 Nov 2027 12:04:02 GMT"),
            (951_782_400, "Tue, 29 Feb 2000 00:00:00 GMT"),
        ] {
            assert_eq!(http_date(seconds), expected);
        }
    }

    #[test]
    fn documents_are_decompressed_unchanged() {
        let text = "text ".repeat(100_000);
        let document = Document::write(|out| out.write_all(text.as_bytes())).expect("memory");
        assert_eq!(unzip(&document.zipped), text.as_bytes());
        let hash = digest::digest(&digest::SHA512, text.as_bytes());
        assert!(document.hash.starts_with(&format!("{:02X}{:02X}", hash.as_ref()[0], hash.as_ref()[1])));
    }
}

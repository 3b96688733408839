//! OpenAPI documents of the served API: one v3 document for each group version, and one v2 document for
//! everything.
//!
//! ```text
//!   rows ── Api ──┬─ operations ─┬─ v3 ─ one document of version 3 ───────────── json_writer ─ JSON
//!                 │  parameters  │    downgrade ┐                                         │
//!   crates/schema ┴─ schemas ────┴─ v2 ─────────┴ the document of version 2 ──────────────┴ gnostic ─ protobuf
//!   descriptions ────┘
//! ```
//!
//! Documents are written on demand and incrementally, from the same facts that requests are decoded with; the
//! server caches them. Kinds without facts (Atoll's own, metrics, and custom resources) supply their schemas.

// upstream: staging/src/k8s.io/apiserver/pkg/server/routes/openapi.go

mod atoll_kinds;
mod custom;
mod definitions;
mod descriptions;
mod downgrade;
mod gnostic;
mod json_writer;
mod metrics;
mod names;
mod operations;
mod parameters;
mod schemas;
mod v2;
mod v3;

pub use atoll_kinds::kind as own_kind;
pub use custom::{PublishedSchema, kind as custom_kind};
pub use metrics::kinds as metrics_kinds;

use std::collections::HashSet;
use std::io::{self, Write};

use atoll_schema::Types;
use serde_json::Value;

use crate::definitions::Definitions;
use crate::descriptions::Descriptions;

/// One resource of one group version, as its paths show it.
#[derive(Clone, Debug, Default)]
pub struct Resource {
    /// Empty for the core group.
    pub group: String,
    pub version: String,
    /// Plural name, as in the URL.
    pub resource: String,
    pub kind: String,
    pub namespaced: bool,
    pub verbs: Vec<String>,
    pub subresources: Vec<Subresource>,
    /// Whether a delete returns the object instead of a Status.
    pub returns_deleted: bool,
    /// Whether a CustomResourceDefinition of the workspace defines it. Such resources have no watch paths.
    pub custom: bool,
}

/// One subresource; its kind may be of another group version than its resource.
#[derive(Clone, Debug, Default)]
pub struct Subresource {
    pub name: String,
    pub group: String,
    pub version: String,
    pub kind: String,
    pub verbs: Vec<String>,
}

/// The schema of a kind that is not built in.
#[derive(Clone, Debug)]
pub struct KindSchema {
    pub group: String,
    pub version: String,
    pub kind: String,
    /// Empty for types that are only a part of others.
    pub list_kind: String,
    /// OpenAPI v3 schema, which may refer to built-in definitions.
    pub schema: Value,
    /// OpenAPI v2 schema, if it is not derived from the v3 schema.
    pub v2_schema: Option<Value>,
}

/// The served API.
pub struct Api {
    resources: Vec<Resource>,
    kinds: Vec<KindSchema>,
}

impl Api {
    /// Creates the API. `kinds` are the schemas of those `resources` that are not built in.
    pub fn new(resources: Vec<Resource>, kinds: Vec<KindSchema>) -> Self {
        Api { resources, kinds }
    }

    /// Creates a writer of documents. It holds all descriptions in memory, so it should be short-lived.
    pub fn writer(&self) -> DocumentWriter<'_> {
        DocumentWriter {
            api: self,
            types: Types::get(),
            definitions: Definitions::new(self),
            descriptions: Descriptions::load(),
        }
    }

    fn kind(&self, group: &str, version: &str, kind: &str) -> Option<&KindSchema> {
        self.kinds.iter().find(|own| own.group == group && own.version == version && own.kind == kind)
    }

    /// Returns the served group versions, in the order of the resources.
    fn group_versions(&self) -> Vec<(&str, &str)> {
        let mut seen = HashSet::new();
        let pairs =
            self.resources.iter().map(|resource| (resource.group.as_str(), resource.version.as_str()));
        pairs.filter(|pair| seen.insert(*pair)).collect()
    }
}

/// Writes the documents of an [`Api`].
pub struct DocumentWriter<'a> {
    api: &'a Api,
    types: &'static Types,
    definitions: Definitions<'a>,
    descriptions: Descriptions,
}

impl DocumentWriter<'_> {
    /// Returns the paths of the v3 documents below `/openapi/v3`: `version`, `api/v1`, `apis/apps/v1`.
    pub fn paths(&self) -> Vec<String> {
        v3::paths(self)
    }

    /// Writes the v3 document at a path. Nothing is written for a path that is not among
    /// [`paths`](Self::paths).
    pub fn v3(&self, path: &str, out: &mut dyn Write) -> io::Result<()> {
        let Some((operations, group_version)) = v3::operations_of(self, path) else { return Ok(()) };
        let served: Vec<(&str, &str)> = group_version.into_iter().collect();
        v3::write(self, &v3::by_path(operations), &served, out)
    }

    /// Writes the v2 document.
    pub fn v2(&self, out: &mut dyn Write) -> io::Result<()> {
        v2::write(self, out)
    }

    /// Writes the v2 document in the protobuf form that Go clients read.
    pub fn v2_protobuf(&self, out: &mut dyn Write) -> io::Result<()> {
        v2::write_protobuf(self, out)
    }
}

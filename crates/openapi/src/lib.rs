//! OpenAPI documents of what is served: one of version 3 for each group version, and one of version 2 for everything.
//!
//! ```text
//!   rows ── Api ──┬─ operations ─┬─ v3 ─ one document of version 3 ───────────────────── text ─ JSON
//!                 │  parameters  │    downgrade ┐                                         │
//!   crates/schema ┴─ schemas ────┴─ v2 ─────────┴ the document of version 2 ──────────────┴ gnostic ─ protobuf
//!   descriptions ────┘
//! ```
//!
//! Documents are written on demand and piece by piece, from the same facts that requests are decoded with; whoever
//! serves them keeps what becomes of them. Kinds without facts (Atoll's own, what is measured, and custom ones) bring their schema with them.

mod custom;
mod definitions;
mod descriptions;
mod downgrade;
mod gnostic;
mod metrics;
mod names;
mod operations;
mod own;
mod parameters;
mod schemas;
mod text;
mod v2;
mod v3;

pub use custom::{Published, kind as custom_kind};
pub use metrics::kinds as metrics_kinds;
pub use own::kind as own_kind;

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
    /// The plural name, as in the URL.
    pub resource: String,
    pub kind: String,
    pub namespaced: bool,
    pub verbs: Vec<String>,
    pub subresources: Vec<Subresource>,
    /// Whether deleting one answers with the object rather than with a Status.
    pub returns_deleted: bool,
    /// Whether a definition in the workspace makes it. Such have no paths to watch at.
    pub custom: bool,
}

/// One subresource; its kind may be of another group version than its resource's.
#[derive(Clone, Debug, Default)]
pub struct Subresource {
    pub name: String,
    pub group: String,
    pub version: String,
    pub kind: String,
    pub verbs: Vec<String>,
}

/// A kind that the built-in types know nothing of.
#[derive(Clone, Debug)]
pub struct Kind {
    pub group: String,
    pub version: String,
    pub kind: String,
    /// Empty for what is only a part of others.
    pub list_kind: String,
    /// Its schema as version 3 of OpenAPI writes it, references to built-in definitions included.
    pub schema: Value,
    /// The same for version 2, where that does not follow.
    pub lesser: Option<Value>,
}

/// What is served, described on demand.
pub struct Api {
    resources: Vec<Resource>,
    kinds: Vec<Kind>,
}

impl Api {
    /// `kinds` are those of `resources` that are not built in.
    pub fn new(resources: Vec<Resource>, kinds: Vec<Kind>) -> Self {
        Api { resources, kinds }
    }

    /// Someone to write the documents; holds what is known of all types, and is not to be kept.
    pub fn author(&self) -> Author<'_> {
        Author {
            api: self,
            types: Types::get(),
            definitions: Definitions::new(self),
            descriptions: Descriptions::load(),
        }
    }

    fn kind(&self, group: &str, version: &str, kind: &str) -> Option<&Kind> {
        self.kinds.iter().find(|own| own.group == group && own.version == version && own.kind == kind)
    }

    /// The served group versions, in the order of the resources.
    fn group_versions(&self) -> Vec<(&str, &str)> {
        let mut seen: Vec<(&str, &str)> = Vec::new();
        for resource in &self.resources {
            let pair = (resource.group.as_str(), resource.version.as_str());
            if !seen.contains(&pair) {
                seen.push(pair);
            }
        }
        seen
    }
}

/// Writes the documents of an [`Api`].
pub struct Author<'a> {
    api: &'a Api,
    types: &'static Types,
    definitions: Definitions<'a>,
    descriptions: Descriptions,
}

impl Author<'_> {
    /// The documents of version 3, by their path below `/openapi/v3`: `version`, `api/v1`, `apis/apps/v1`.
    pub fn paths(&self) -> Vec<String> {
        v3::paths(self)
    }

    /// Writes the document of version 3 at a path; there is none at a path that is not among [`paths`](Self::paths).
    pub fn v3(&self, path: &str, out: &mut dyn Write) -> io::Result<()> {
        let Some((operations, group_version)) = v3::operations_of(self, path) else { return Ok(()) };
        let served: Vec<(&str, &str)> = group_version.into_iter().collect();
        v3::write(self, &v3::by_path(operations), &served, out)
    }

    /// Writes the document of version 2.
    pub fn v2(&self, out: &mut dyn Write) -> io::Result<()> {
        v2::write(self, out)
    }

    /// Writes the document of version 2 in the protobuf form that Go clients read.
    pub fn v2_protobuf(&self, out: &mut dyn Write) -> io::Result<()> {
        v2::write_protobuf(self, out)
    }
}

//! The kinds of a dialect: its definitions, compiled on first use, with its views, subresources and sealed
//! fields.

use std::fmt;
use std::sync::{Arc, OnceLock};

use serde_json::Value;

use super::{DialectSubresource, DialectView, SealedField, SharedDialect};
use crate::Registry;
use crate::catalog::Catalog;
use crate::definitions::{CustomVersion, Definition, compile};
use crate::row::{Row, SharedRow, Subresource};

/// A dialect and its compiled definitions.
pub(crate) struct DialectKinds {
    pub(crate) dialect: SharedDialect,
    compiled: OnceLock<Vec<Arc<Definition>>>,
    /// Names of the definitions: plural and group.
    names: Vec<(String, String)>,
    subresources: Vec<DialectSubresource>,
}

/// The hooks of a dialect for one of its kinds.
#[derive(Clone, Debug, Default)]
pub struct DialectKind {
    /// The name of the dialect; empty for kinds of workspaces.
    pub dialect: &'static str,
    pub sealed: Vec<SealedField>,
    pub spelling: Option<Spelling>,
}

/// How a kind is stored as another one.
#[derive(Clone)]
pub struct Spelling {
    /// The row of the stored kind in its storage version.
    pub stored: SharedRow,
    pub to_stored: fn(&mut Value),
    pub to_view: fn(&mut Value),
}

impl fmt::Debug for Spelling {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Spelling").field("stored", &self.stored.resource).finish_non_exhaustive()
    }
}

impl DialectKinds {
    pub(crate) fn new(dialect: SharedDialect) -> Self {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_string();
        let name = |definition: &Value| {
            (text(&definition["spec"]["names"]["plural"]), text(&definition["spec"]["group"]))
        };
        let names = dialect.definitions().iter().map(name).collect();
        let subresources = dialect.subresources();
        DialectKinds { dialect, compiled: OnceLock::new(), names, subresources }
    }

    /// Group and plural of each of its kinds.
    pub(crate) fn resources(&self) -> impl Iterator<Item = (&str, &str)> {
        self.names.iter().map(|(plural, group)| (group.as_str(), plural.as_str()))
    }

    /// The names of its definitions.
    pub(crate) fn names(&self) -> impl Iterator<Item = String> + '_ {
        self.names.iter().map(|(plural, group)| format!("{plural}.{group}"))
    }

    pub(crate) fn find(&self, catalog: &Catalog, group: &str, resource: &str) -> Option<&Arc<Definition>> {
        let index = self.resources().position(|own| own == (group, resource))?;
        self.compiled(catalog).get(index)
    }

    pub(crate) fn compiled(&self, catalog: &Catalog) -> &[Arc<Definition>] {
        self.compiled.get_or_init(|| self.compile(catalog))
    }

    fn compile(&self, catalog: &Catalog) -> Vec<Arc<Definition>> {
        let definitions = self.dialect.definitions();
        let plain: Vec<Arc<Definition>> =
            definitions.iter().map(|object| compile::definition(catalog, object)).collect();
        let (views, sealed) = (self.dialect.views(), self.dialect.sealed_fields());
        plain.iter().map(|definition| Arc::new(self.extended(definition, &plain, &views, &sealed))).collect()
    }

    /// The definition with the hooks of its kind.
    fn extended(
        &self,
        plain: &Definition,
        all: &[Arc<Definition>],
        views: &[DialectView],
        sealed: &[SealedField],
    ) -> Definition {
        let is_of = |group: &str, resource: &str| *plain.group == *group && *plain.plural == *resource;
        let view = views.iter().find(|view| is_of(view.group, view.resource));
        let spelling = view.and_then(|view| {
            let (group, resource) = view.stored;
            let stored = all.iter().find(|other| *other.group == *group && *other.plural == *resource)?;
            let stored = stored.stored.clone()?;
            Some(Spelling { stored, to_stored: view.to_stored, to_view: view.to_view })
        });
        let sealed = sealed.iter().filter(|field| is_of(field.group, field.resource)).copied().collect();
        let kind = DialectKind { dialect: self.dialect.name(), sealed, spelling };
        let more: Vec<Subresource> = self
            .subresources
            .iter()
            .filter(|subresource| is_of(subresource.group, subresource.resource))
            .map(|subresource| Subresource {
                name: subresource.name.into(),
                kind: subresource.kind.into(),
                group: String::new(),
                version: String::new(),
                verbs: subresource.verbs.iter().map(ToString::to_string).collect(),
            })
            .collect();
        let extend = |row: &SharedRow| Arc::new(extended_row(row, &kind, &more));
        let stored = plain.stored.as_ref().map(extend);
        let rows = plain.rows.iter().map(|row| match &stored {
            Some(stored) if stored.version == row.version => stored.clone(),
            _ => extend(row),
        });
        Definition { id: compile::number(), rows: rows.collect(), stored: stored.clone(), ..plain.clone() }
    }
}

fn extended_row(row: &Row, kind: &DialectKind, more: &[Subresource]) -> Row {
    let mut row = row.clone();
    row.subresources.extend_from_slice(more);
    row.custom = row.custom.map(|custom| {
        let mut custom = CustomVersion { dialect: kind.clone(), ..(*custom).clone() };
        // Objects in another spelling are stored under the keys of the stored kind, and have a form of their
        // own.
        if let Some(stored) = kind.spelling.as_ref().and_then(|spelling| spelling.stored.custom.as_ref()) {
            custom.key_group.clone_from(&stored.key_group);
            custom.form = compile::number();
        }
        Arc::new(custom)
    });
    row
}

impl Registry {
    /// A subresource that an enabled dialect adds to a kind.
    pub fn dialect_subresource(&self, workspace: &str, row: &Row, name: &str) -> Option<DialectSubresource> {
        let all = self.catalog.dialects.iter();
        let found = all.flat_map(|kinds| kinds.subresources.iter().map(move |own| (kinds, own))).find(
            |(_, subresource)| {
                (subresource.group, subresource.resource, subresource.name)
                    == (row.group.as_str(), row.resource.as_str(), name)
            },
        );
        let (kinds, subresource) = found?;
        self.dialect_enabled(workspace, kinds.dialect.name()).then_some(*subresource)
    }
}

//! Placement by intent: an object says on which clusters it wants to be, in the words of a dialect. A
//! controller of the dialect follows that; here, such objects only become selectable.

use std::fmt;

use atoll_fleet::Placement;
use atoll_fleet::placement_refusal::placement_refusal;
use atoll_meta::{names, object};
use serde_json::Value;

use super::Dialect;
use crate::Registry;
use crate::catalog::Catalog;
use crate::row::Row;

/// Prefix of the labels by which controllers select objects. They are not in the objects, and have no value.
const PREFIX: &str = "intent.atoll.dev/";

/// One cluster that an object asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Intent<'a> {
    pub source: IntentSource<'a>,
    pub cluster: &'a str,
}

/// The part of an object that names a cluster. In messages: `label example.com/cluster`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IntentSource<'a> {
    Label(&'a str),
    Annotation(&'a str),
}

impl fmt::Display for IntentSource<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            IntentSource::Label(name) => write!(formatter, "label {name}"),
            IntentSource::Annotation(name) => write!(formatter, "annotation {name}"),
        }
    }
}

/// The label that selects the objects with an intent of a dialect, and those that it has placed.
pub fn label(dialect: &str) -> String {
    format!("{PREFIX}{dialect}")
}

/// The selectable labels of an object that dialects derive from it.
pub(crate) fn labels(catalog: &Catalog, object: &Value) -> Vec<(Box<str>, Box<str>)> {
    let is_selected = |dialect: &dyn Dialect| {
        dialect.placed_by().is_some_and(|by| {
            !dialect.intents(object).is_empty()
                || (object::annotation(object, atoll_fleet::marks::PLACEMENT).is_some()
                    && Placement::of(object).by == by)
        })
    };
    let dialects = catalog.dialects.iter().map(|kinds| &kinds.dialect);
    let selected = dialects.filter(|dialect| is_selected(&***dialect));
    selected.map(|dialect| (label(dialect.name()).into(), Box::default())).collect()
}

impl Registry {
    /// Whether a cluster accepts an object that is not on it yet: its uid, or the reason why not; `None` if
    /// there is no such Cluster. Cluster-scoped objects are placed only from the registering workspace.
    pub fn accepts(
        &self,
        row: &Row,
        workspace: &str,
        object: &Value,
        cluster: &str,
    ) -> Option<Result<String, String>> {
        let is_name = names::name_is_dns_label(cluster, false).is_empty();
        let registered = is_name.then(|| self.cluster(workspace, cluster, "")).flatten()?;
        if !row.namespaced && registered.workspace != workspace {
            return None;
        }
        let refusal = self
            .refusal_reason(workspace, &registered)
            .or_else(|| placement_refusal(&registered.cluster).map(|closed| closed.why()))
            .or_else(|| self.pod_security_violation(row, workspace, object, &registered));
        Some(match refusal {
            Some(refusal) => Err(refusal),
            None => Ok(object::uid(&registered.cluster).to_string()),
        })
    }
}

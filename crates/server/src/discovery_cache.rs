//! A cache of discovery and OpenAPI documents, shared by all servers of a process with the same resources.

use std::sync::{Arc, Mutex, PoisonError};

use atoll_registry::catalog;
use atoll_registry::{Catalog, SharedRow};

use crate::hidden_api::{GroupVersion, HiddenApi};
use crate::{discovery, openapi};

/// Maximum number of cached selections.
const MAX_SELECTIONS: usize = 16;

/// The documents of a catalog and of selections of it.
pub struct DiscoveryCache {
    rows: Vec<SharedRow>,
    all: Arc<ApiDocuments>,
    /// Rows of `metrics.k8s.io`, served where usage is measured.
    measured: [SharedRow; 2],
    /// By selection, in order of use, the most recent last.
    selections: Mutex<Vec<CachedSelection>>,
}

type CachedSelection = (DocumentSelection, Arc<ApiDocuments>);

/// A selection of the served resources.
#[derive(Clone, PartialEq, Eq)]
struct DocumentSelection {
    hidden: Arc<[GroupVersion]>,
    is_measured: bool,
}

/// Discovery and OpenAPI documents.
pub(crate) struct ApiDocuments {
    pub discovery: discovery::DocumentCache,
    pub openapi: openapi::DocumentCache,
    rows: Vec<SharedRow>,
}

impl DiscoveryCache {
    pub fn new(catalog: &Catalog) -> Self {
        let rows = catalog.rows().to_vec();
        let measured = catalog::metrics_rows().map(Arc::new);
        DiscoveryCache {
            all: Arc::new(ApiDocuments::new(&rows, &[])),
            rows,
            measured,
            selections: Mutex::default(),
        }
    }

    /// Returns the documents for a client that does not see some parts, with or without `metrics.k8s.io`.
    pub(crate) fn select(&self, hidden: Option<&HiddenApi>, is_measured: bool) -> Arc<ApiDocuments> {
        let hidden = hidden.map(|hidden| hidden.versions.clone()).unwrap_or_default();
        if hidden.is_empty() && !is_measured {
            return self.all.clone();
        }
        let selection = DocumentSelection { hidden, is_measured };
        let mut selections = self.selections.lock().unwrap_or_else(PoisonError::into_inner);
        let known = selections.iter().position(|(known, _)| *known == selection);
        let found = match known {
            Some(position) => selections.remove(position),
            None => {
                let measured = self.measured.iter().filter(|_| is_measured);
                let rows: Vec<SharedRow> = self.rows.iter().chain(measured).cloned().collect();
                let documents = Arc::new(ApiDocuments::new(&rows, &selection.hidden));
                (selection, documents)
            }
        };
        if selections.len() == MAX_SELECTIONS {
            selections.remove(0);
        }
        let documents = found.1.clone();
        selections.push(found);
        documents
    }
}

impl ApiDocuments {
    fn new(rows: &[SharedRow], hidden: &[GroupVersion]) -> Self {
        let shown = |row: &&SharedRow| {
            !hidden.iter().any(|(group, version)| *group == row.group && *version == row.version)
        };
        let rows: Vec<SharedRow> = rows.iter().filter(shown).cloned().collect();
        ApiDocuments {
            discovery: discovery::DocumentCache::new(rows.clone(), hidden),
            openapi: openapi::DocumentCache::new(rows.clone(), hidden),
            rows,
        }
    }

    pub fn has_group(&self, group: &str) -> bool {
        self.rows.iter().any(|row| row.group == group)
    }
}

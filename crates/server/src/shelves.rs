//! A cache of discovery and OpenAPI documents, shared by all servers of a process with the same resources.

use std::sync::{Arc, Mutex, PoisonError};

use atoll_registry::catalog;
use atoll_registry::{Catalog, SharedRow};

use crate::weather::{Conditions, GroupVersion};
use crate::{discovery, openapi};

/// Maximum number of cached selections.
const SELECTIONS: usize = 16;

/// The documents of a catalog and of selections of it.
pub struct Shelves {
    rows: Vec<SharedRow>,
    whole: Arc<Shelf>,
    /// Rows of `metrics.k8s.io`, served where usage is measured.
    measured: [SharedRow; 2],
    /// By selection, in order of use, the most recent last.
    parts: Mutex<Vec<Part>>,
}

type Part = (Selected, Arc<Shelf>);

/// A selection of the served resources.
#[derive(Clone, PartialEq, Eq)]
struct Selected {
    hidden: Arc<[GroupVersion]>,
    is_measured: bool,
}

/// Discovery and OpenAPI documents.
pub(crate) struct Shelf {
    pub discovery: discovery::Shelf,
    pub openapi: openapi::Shelf,
    rows: Vec<SharedRow>,
}

impl Shelves {
    pub fn new(catalog: &Catalog) -> Self {
        let rows = catalog.rows().to_vec();
        let measured = catalog::measured().map(Arc::new);
        Shelves { whole: Arc::new(Shelf::new(&rows, &[])), rows, measured, parts: Mutex::default() }
    }

    /// Returns the documents for a client with these network faults, with or without `metrics.k8s.io`.
    pub(crate) fn seen(&self, conditions: Option<&Conditions>, is_measured: bool) -> Arc<Shelf> {
        let hidden = conditions.map(|conditions| conditions.hidden.clone()).unwrap_or_default();
        if hidden.is_empty() && !is_measured {
            return self.whole.clone();
        }
        let selected = Selected { hidden, is_measured };
        let mut parts = self.parts.lock().unwrap_or_else(PoisonError::into_inner);
        let known = parts.iter().position(|(known, _)| *known == selected);
        let found = match known {
            Some(position) => parts.remove(position),
            None => {
                let measured = self.measured.iter().filter(|_| is_measured);
                let rows: Vec<SharedRow> = self.rows.iter().chain(measured).cloned().collect();
                let shelf = Arc::new(Shelf::new(&rows, &selected.hidden));
                (selected, shelf)
            }
        };
        if parts.len() == SELECTIONS {
            parts.remove(0);
        }
        let shelf = found.1.clone();
        parts.push(found);
        shelf
    }
}

impl Shelf {
    fn new(rows: &[SharedRow], hidden: &[GroupVersion]) -> Self {
        let shown = |row: &&SharedRow| {
            !hidden.iter().any(|(group, version)| *group == row.group && *version == row.version)
        };
        let rows: Vec<SharedRow> = rows.iter().filter(shown).cloned().collect();
        Shelf {
            discovery: discovery::Shelf::new(rows.clone(), hidden),
            openapi: openapi::Shelf::new(rows.clone(), hidden),
            rows,
        }
    }

    pub fn has_group(&self, group: &str) -> bool {
        self.rows.iter().any(|row| row.group == group)
    }
}

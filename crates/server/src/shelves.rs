//! The documents about what is served: once in memory, for all servers of a process that serve the same.

use std::sync::{Arc, Mutex, PoisonError};

use atoll_registry::{Catalog, SharedRow};

use crate::weather::{Conditions, GroupVersion};
use crate::{discovery, openapi};

/// How many selections of what seems to be there are remembered.
const SELECTIONS: usize = 16;

/// The documents of a catalog, and those of parts of it.
pub struct Shelves {
    rows: Vec<SharedRow>,
    whole: Arc<Shelf>,
    /// By what is left out, lately used ones last.
    parts: Mutex<Vec<Part>>,
}

type Part = (Arc<[GroupVersion]>, Arc<Shelf>);

/// What discovery and OpenAPI say.
pub(crate) struct Shelf {
    pub discovery: discovery::Shelf,
    pub openapi: openapi::Shelf,
    rows: Vec<SharedRow>,
}

impl Shelves {
    pub fn new(catalog: &Catalog) -> Self {
        let rows = catalog.rows().to_vec();
        Shelves { whole: Arc::new(Shelf::new(&rows, &[])), rows, parts: Mutex::default() }
    }

    /// What is there for somebody in such weather.
    pub(crate) fn seen(&self, conditions: Option<&Conditions>) -> Arc<Shelf> {
        let Some(conditions) = conditions.filter(|conditions| !conditions.hidden.is_empty()) else {
            return self.whole.clone();
        };
        let hidden = &conditions.hidden;
        let mut parts = self.parts.lock().unwrap_or_else(PoisonError::into_inner);
        let known = parts.iter().position(|(known, _)| known == hidden);
        let found = match known {
            Some(position) => parts.remove(position),
            None => (hidden.clone(), Arc::new(Shelf::new(&self.rows, hidden))),
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

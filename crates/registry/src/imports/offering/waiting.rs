//! The names that wait to be handled.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::ops::Bound;

use super::ImportedName;

/// Names by tenant. Those of one tenant are handled one at a time, so that a slow one delays no other tenant.
#[derive(Default)]
pub(super) struct Waiting {
    by_tenant: HashMap<String, Names>,
    /// The tenants of which a name is handled.
    busy: HashSet<String>,
}

#[derive(Default)]
struct Names {
    waiting: BTreeSet<ImportedName>,
    /// The one that was handled last. The next one follows it, so that one that changes often does not keep the others
    /// waiting.
    last: Option<ImportedName>,
}

impl Names {
    fn next(&mut self) -> Option<ImportedName> {
        let after = self.last.as_ref().map_or(Bound::Unbounded, Bound::Excluded);
        let next =
            self.waiting.range((after, Bound::Unbounded)).next().or_else(|| self.waiting.first()).cloned()?;
        self.waiting.remove(&next);
        self.last = Some(next.clone());
        Some(next)
    }
}

impl Waiting {
    pub(super) fn add(&mut self, tenant: String, name: ImportedName) {
        self.by_tenant.entry(tenant).or_default().waiting.insert(name);
    }

    /// The names that are handled from now on: one of each tenant of which none is.
    pub(super) fn start(&mut self) -> Vec<ImportedName> {
        let Waiting { by_tenant, busy } = self;
        by_tenant.retain(|tenant, names| !names.waiting.is_empty() || busy.contains(tenant));
        let idle = by_tenant.iter_mut().filter(|(tenant, _)| !busy.contains(*tenant));
        let started: Vec<(String, ImportedName)> =
            idle.filter_map(|(tenant, names)| Some((tenant.clone(), names.next()?))).collect();
        busy.extend(started.iter().map(|(tenant, _)| tenant.clone()));
        started.into_iter().map(|(_, name)| name).collect()
    }

    /// The name of a tenant that was started has been handled.
    pub(super) fn finish(&mut self, tenant: &str) {
        self.busy.remove(tenant);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tenants_do_not_wait_for_each_other() {
        let name = |workspace: &str, definition: &str| ImportedName {
            workspace: workspace.to_string(),
            definition: definition.to_string(),
        };
        let mut waiting = Waiting::default();
        for definition in ["a", "b", "c"] {
            waiting.add("one".into(), name("one", definition));
        }
        assert_eq!(waiting.start(), [name("one", "a")]);
        waiting.add("two".into(), name("two", "a"));
        assert_eq!(waiting.start(), [name("two", "a")], "while the first tenant is busy");
        assert_eq!(waiting.start(), []);
        waiting.finish("one");
        // A name that changes again and again does not keep the others waiting.
        waiting.add("one".into(), name("one", "a"));
        assert_eq!(waiting.start(), [name("one", "b")]);
        waiting.finish("one");
        assert_eq!(waiting.start(), [name("one", "c")]);
        waiting.finish("one");
        assert_eq!(waiting.start(), [name("one", "a")]);
        waiting.finish("one");
        waiting.finish("two");
        assert_eq!(waiting.start(), []);
    }
}

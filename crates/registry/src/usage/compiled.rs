//! Memory of the compiled CustomResourceDefinitions of a workspace and those below it. Definitions stay
//! compiled while they exist; definitions with the same spec share the compiled form and count once.

use std::collections::HashMap;

use atoll_meta::Status;

use super::{Usage, UsageState, has_limits};
use crate::definitions::Definition;
use crate::row::{ObjectRef, Row};

/// Maximum total size of the compiled definitions of a workspace and those below it, in bytes.
pub const LIMIT: u64 = 256 << 20;

/// The compiled definitions of a workspace and those below it.
#[derive(Clone, Default)]
pub(super) struct Compiled {
    /// Number of uses and size of each spec, by its hash.
    specs: HashMap<u64, (usize, u64)>,
    total: u64,
}

/// A spec with its compiled size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Spec {
    hash: u64,
    size: u64,
}

impl Spec {
    pub fn of(definition: &Definition) -> Spec {
        Spec { hash: definition.hash, size: definition.size }
    }
}

impl Compiled {
    pub fn specs(&self) -> Vec<(Spec, usize)> {
        self.specs.iter().map(|(hash, (count, size))| (Spec { hash: *hash, size: *size }, *count)).collect()
    }

    fn add(&mut self, spec: Spec, count: usize) {
        let (known, size) = self.specs.entry(spec.hash).or_insert((0, spec.size));
        if *known == 0 {
            self.total += *size;
        }
        *known += count;
    }

    fn remove(&mut self, spec: Spec, count: usize) {
        let Some((known, size)) = self.specs.get_mut(&spec.hash) else { return };
        *known = known.saturating_sub(count);
        if *known == 0 {
            self.total -= *size;
            self.specs.remove(&spec.hash);
        }
    }
}

impl UsageState {
    fn ancestry(&self, workspace: &str) -> Vec<Box<str>> {
        let mut line = Vec::with_capacity(4);
        self.find_up(workspace, |id| {
            line.push(id.into());
            None::<()>
        });
        line
    }

    pub(super) fn add_spec(&mut self, workspace: &str, spec: Spec, count: usize) {
        for id in self.ancestry(workspace) {
            self.compiled.entry(id).or_default().add(spec, count);
        }
    }

    pub(super) fn remove_spec(&mut self, workspace: &str, spec: Spec, count: usize) {
        for id in self.ancestry(workspace) {
            let Some(compiled) = self.compiled.get_mut(&id) else { continue };
            compiled.remove(spec, count);
            if compiled.specs.is_empty() {
                self.compiled.remove(&id);
            }
        }
    }
}

/// The reservation for a definition that is about to be written, released on drop.
pub(crate) struct CompileReservation<'u> {
    usage: &'u Usage,
    workspace: String,
    spec: Spec,
}

impl Drop for CompileReservation<'_> {
    fn drop(&mut self) {
        // A written definition is counted separately.
        self.usage.state().remove_spec(&self.workspace, self.spec, 1);
    }
}

impl Usage {
    /// Reserves memory for a compiled definition until it is written.
    pub(crate) fn reserve_compiled(
        &self,
        row: &Row,
        object_ref: &ObjectRef<'_>,
        definition: &Definition,
    ) -> Result<Option<CompileReservation<'_>>, Status> {
        if !has_limits(object_ref.workspace) {
            return Ok(None);
        }
        let spec = Spec::of(definition);
        let mut state = self.state();
        let exceeded = state.find_up(object_ref.workspace, |id| {
            let compiled = state.compiled.get(id)?;
            let exceeds =
                !compiled.specs.contains_key(&spec.hash) && compiled.total.saturating_add(spec.size) > LIMIT;
            exceeds.then_some((compiled.total, id != object_ref.workspace))
        });
        if let Some((used, is_above)) = exceeded {
            let mebibytes = |bytes: u64| bytes.div_ceil(1 << 20);
            let message = format!(
                "exceeded workspace limit: compiled, this CustomResourceDefinition takes {} MiB, those of the workspace{} take \
                 {} MiB, and {} MiB are allowed",
                mebibytes(spec.size),
                if is_above { " above and of all below it" } else { " and of all below it" },
                mebibytes(used),
                LIMIT >> 20
            );
            return Err(Status::forbidden(&row.group, &row.resource, object_ref.name, message));
        }
        state.add_spec(object_ref.workspace, spec, 1);
        Ok(Some(CompileReservation { usage: self, workspace: object_ref.workspace.to_string(), spec }))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::tests::workspace;
    use super::*;
    use crate::bootstrap::ROOT;
    use atoll_watch::Observer;

    fn definitions() -> Row {
        let catalog = crate::Catalog::new(crate::Profile::Minimal);
        Row::clone(catalog.find("apiextensions.k8s.io", "v1", "customresourcedefinitions").unwrap())
    }

    fn definition(number: usize) -> Definition {
        let catalog = crate::Catalog::new(crate::Profile::Minimal);
        let made = crate::definitions::compile::definition(&catalog, &json!({}));
        let mut made = std::sync::Arc::into_inner(made).unwrap();
        (made.hash, made.size) = (number as u64, 16 << 20);
        made
    }

    #[test]
    fn compiled_definitions_of_a_workspace_tree_are_limited() {
        let (usage, row) = (Usage::default(), definitions());
        usage.replaced(None, Some(&workspace(ROOT, "t", "team", &json!({}))));
        usage.replaced(None, Some(&workspace("team", "c", "child", &json!({}))));
        let room = |id: &'static str, number: usize| {
            let object_ref = ObjectRef { workspace: id, namespace: "", name: "things.example.com" };
            usage.reserve_compiled(&row, &object_ref, &definition(number)).map(Option::unwrap)
        };
        let most = (LIMIT / (16 << 20)) as usize;
        let mut held: Vec<CompileReservation<'_>> = (0..most)
            .map(|number| room(if number % 2 == 0 { "team" } else { "child" }, number).unwrap())
            .collect();
        let refused = room("child", 100).err().unwrap();
        assert_eq!(refused.code(), 403);
        assert!(
            refused.message().contains("those of the workspace above and of all below it take 256 MiB"),
            "{refused:?}"
        );
        // An existing spec needs no more memory, whichever workspace has it.
        let same = room("child", 0).unwrap();
        // Another tenant has its own limit, and root has none.
        usage.replaced(None, Some(&workspace(ROOT, "o", "other", &json!({}))));
        drop(room("other", 100).unwrap());
        let object_ref = ObjectRef { workspace: ROOT, namespace: "", name: "things.example.com" };
        assert!(usage.reserve_compiled(&row, &object_ref, &definition(100)).unwrap().is_none());
        drop(held.remove(0));
        assert!(room("team", 100).is_err(), "the child still uses it");
        drop(same);
        drop(room("team", 100).unwrap());
        drop(held);
        assert!(usage.state().compiled.is_empty());
    }

    #[test]
    fn workspaces_below_are_added_and_removed_with_their_parent() {
        let usage = Usage::default();
        // Contents may be counted before their workspace is known.
        usage.state().add_spec("child", Spec { hash: 1, size: 10 }, 2);
        let (team, child) =
            (workspace(ROOT, "t", "team", &json!({})), workspace("team", "c", "child", &json!({})));
        usage.replaced(None, Some(&child));
        usage.replaced(None, Some(&team));
        let total = |id: &str| usage.state().compiled.get(id).map_or(0, |compiled| compiled.total);
        assert_eq!((total("child"), total("team")), (10, 10));
        usage.replaced(Some(&child), None);
        assert_eq!((total("child"), total("team")), (0, 0));
    }
}

//! The dialects of Atoll: APIs of other systems, served in workspaces that enable them.
//!
//! ```text
//!   all ─► Registration ─┬─ Dialect (hooks, pure) ──► registry and server call it
//!                        └─ controllers ────────────► the API: enabled (where), intents (label to placement),
//!                                                     placed (what is on a cluster), sealed_secrets (deletes
//!                                                     unused ones), and a dialect's own
//!   kcp: Clusters with a kubeconfig, labels that place objects
//! ```
//!
//! The registry defines the hooks and knows no dialect. A new one is a module here and a row in [`all`].

mod controller;
mod enabled;
mod events;
pub mod intents;
pub mod kcp;
mod placed;
mod resources;
mod sealed_secrets;

use atoll_informer::ApiScope;
use atoll_registry::dialect::SharedDialect;
use serde_json::Value;

pub use controller::{ControllerContext, DialectController, run};
pub use enabled::EnabledWorkspaces;

/// A dialect with its controllers.
#[derive(Clone)]
pub struct Registration {
    pub dialect: SharedDialect,
    pub controllers: &'static [DialectController],
}

/// All dialects of this program. A new one is added here.
pub fn all() -> Vec<Registration> {
    vec![kcp::registration()]
}

/// The parts of an object that name clusters in any dialect, such as `label example.com/cluster`, with these
/// names.
pub fn named_clusters(object: &Value) -> Vec<(String, String)> {
    let dialects = all();
    let intents = dialects.iter().flat_map(|registration| registration.dialect.intents(object));
    intents.map(|intent| (intent.source.to_string(), intent.cluster.to_string())).collect()
}

/// The same, of the dialects that are enabled in a workspace and whose controllers place objects there. `None` if an object
/// names clusters only in the words of others.
pub fn named_clusters_in(
    enabled: &EnabledWorkspaces,
    api: &ApiScope,
    workspace: &str,
    object: &Value,
) -> Option<Vec<(String, String)>> {
    let dialects = all();
    let placing = dialects.iter().map(|registration| &registration.dialect);
    let mut is_ignored = false;
    let mut named = Vec::new();
    for dialect in placing.filter(|dialect| dialect.placed_by().is_some()) {
        let intents = dialect.intents(object);
        match intents.is_empty() || enabled.contains(api, workspace, dialect.name()) {
            true => named.extend(intents),
            false => is_ignored = true,
        }
    }
    let names = named.into_iter().map(|intent| (intent.source.to_string(), intent.cluster.to_string()));
    let names: Vec<(String, String)> = names.collect();
    (!names.is_empty() || !is_ignored).then_some(names)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use atoll_registry::dialect::DialectTexts;
    use atoll_registry::{Catalog, Profile};

    use super::*;

    /// Expects that no value occurs twice.
    #[track_caller]
    fn expect_unique(what: &str, values: Vec<&str>) {
        let mut seen = HashSet::new();
        for value in values {
            assert!(seen.insert(value), "two dialects or controllers have the {what} {value}");
        }
    }

    #[test]
    fn names_of_dialects_and_controllers_are_unique() {
        let all = all();
        expect_unique("name", all.iter().map(|row| row.dialect.name()).collect());
        // A dialect would change the placements of another one with the same value.
        expect_unique("placed_by", all.iter().filter_map(|row| row.dialect.placed_by()).collect());
        let controllers = all.iter().flat_map(|row| row.controllers);
        expect_unique("name", controllers.flat_map(|row| [row.name, row.alias]).collect());
    }

    #[test]
    fn kinds_are_served_and_sealed_fields_are_strings() {
        for Registration { dialect, .. } in all() {
            let (name, definitions) = (dialect.name(), dialect.definitions());
            let catalog = Catalog::with_dialects(Profile::Minimal, vec![dialect.clone()]);
            for definition in &definitions {
                let resource = resources::of_definition(definition).expect("a version is served");
                let compiled = catalog.dialect_definition(&resource.group, &resource.plural);
                let compiled = compiled.expect("the definition has a group and a plural");
                assert!(compiled.is_served && compiled.is_established, "{name}: {}", resource.plural);
            }
            for field in dialect.sealed_fields() {
                let spec = definitions
                    .iter()
                    .map(|definition| &definition["spec"])
                    .find(|spec| spec["group"] == field.group && spec["names"]["plural"] == field.resource);
                let spec = spec.unwrap_or_else(|| panic!("{name} has no kind {}", field.resource));
                for version in spec["versions"].as_array().into_iter().flatten() {
                    let schema = &version["schema"]["openAPIV3Schema"];
                    let found = field.path.iter().fold(schema, |schema, step| &schema["properties"][step]);
                    assert_eq!(found["type"], "string", "{name}: {:?} of {}", field.path, field.resource);
                }
            }
        }
    }

    #[test]
    fn commands_describe_every_dialect() {
        for Registration { dialect, .. } in all() {
            let texts = dialect.texts();
            let DialectTexts { about, help, serves, enabled, disabled, objects } = texts;
            for text in [about, help, serves, enabled, disabled, objects] {
                assert!(!text.is_empty(), "{}: {texts:?}", dialect.name());
            }
        }
    }
}

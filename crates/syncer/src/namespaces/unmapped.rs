//! Namespaces below that workspaces use without permission, from before names were mapped.

use atoll_fleet::Locator;
use atoll_fleet::namespaces::is_consented;

use super::{MappedNamespace, Namespaces, namespace_key, namespace_path};
use crate::connections::cluster_client::ClusterClient;

/// Maximum number of unmapped namespaces that are reported.
const MAX_UNMAPPED: usize = 50;

impl Namespaces {
    /// Returns namespaces that workspaces other than `registering_workspace` use without a label that allows
    /// it, from before names were mapped. Reads them again, because an administrator may have labelled them.
    pub async fn unmapped(
        &self,
        below: &ClusterClient,
        registering_workspace: &str,
    ) -> Vec<(String, String)> {
        let mut unmapped = Vec::new();
        for (locator, name) in self.unmapped_candidates(registering_workspace) {
            let found = below.get(&namespace_path(&name)).await.ok().flatten();
            match found.is_some_and(|found| is_consented(&found, &locator.workspace)) {
                true => {
                    if let Some(known) = self.known().get_mut(&locator) {
                        known.is_consented = true;
                    }
                }
                false => unmapped.push((name, locator.workspace)),
            }
        }
        unmapped
    }

    fn unmapped_candidates(&self, registering_workspace: &str) -> Vec<(Locator, String)> {
        let required = self.labels();
        let is_prescribed = |locator: &Locator, name: &str| {
            required.get(&namespace_key(locator)).is_some_and(|it| it.name.as_deref() == Some(name))
        };
        let known = self.known();
        let is_plain = |(locator, known): &(&Locator, &MappedNamespace)| {
            locator.workspace != registering_workspace
                && !known.is_consented
                && known.name != locator.below(false)
                && !is_prescribed(locator, &known.name)
        };
        let mut plain: Vec<(Locator, String)> = known
            .iter()
            .filter(is_plain)
            .map(|(locator, known)| (locator.clone(), known.name.clone()))
            .collect();
        plain.sort_unstable();
        plain.truncate(MAX_UNMAPPED);
        plain
    }
}

//! The labels and the name that the control plane requires of namespaces below.

use std::collections::HashMap;
use std::sync::{MutexGuard, PoisonError};

use atoll_client::PatchType;
use atoll_fleet::namespaces::is_prescribable;
use atoll_fleet::pod_security::Labels;
use atoll_fleet::{Locator, marks};
use atoll_meta::Status;

use super::deletion::is_made_for;
use super::{Namespaces, namespace_key, namespace_path};
use crate::connections::cluster_client::ClusterClient;

pub struct RequiredLabels {
    /// The prescribed name of the namespace below.
    pub(super) name: Option<String>,
    pub(super) desired: Labels,
    /// Whether the namespace below has the labels.
    is_written: bool,
}

impl Namespaces {
    /// Sets the labels that the namespace below must have, and the name that it gets if it is created.
    pub fn require(&self, workspace: &str, namespace: &str, desired: Labels, name: Option<String>) {
        let key = (workspace.to_string(), namespace.to_string());
        let name = name.filter(|name| is_prescribable(name));
        self.labels().insert(key, RequiredLabels { name, desired, is_written: false });
    }

    pub(super) fn prescribed(&self, locator: &Locator) -> Option<String> {
        self.labels().get(&namespace_key(locator))?.name.clone()
    }

    /// Forgets all required labels: the view will send them again.
    pub fn forget_labels(&self) {
        self.labels().clear();
    }

    /// Updates the Pod Security labels of a managed namespace.
    pub async fn label(&self, below: &ClusterClient, locator: &Locator) -> Result<(), Status> {
        let key = namespace_key(locator);
        let pending =
            self.labels().get(&key).filter(|labels| !labels.is_written).map(|it| it.desired.clone());
        let (Some(desired), Some(name)) = (pending, self.get(locator)) else { return Ok(()) };
        let path = namespace_path(&name);
        if let Some(found) = below.get(&path).await?.filter(|found| is_made_for(found, locator))
            && let Some(patch) = desired.patch(&found)
        {
            let path = format!("{path}?fieldManager={}", marks::MANAGER);
            below.patch(&path, PatchType::Merge, &patch).await?;
        }
        if let Some(labels) = self.labels().get_mut(&key) {
            labels.is_written = labels.desired == desired;
        }
        Ok(())
    }

    pub(super) fn labels(&self) -> MutexGuard<'_, HashMap<(String, String), RequiredLabels>> {
        self.labels.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

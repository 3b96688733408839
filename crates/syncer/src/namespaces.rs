//! Namespaces in the cluster and the namespaces above that they stand for. A mapping is fixed once created;
//! the locator annotation records it.

pub mod deletion;
pub mod namespace_worker;
mod ownership;
mod required;
mod terminating;
mod unmapped;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use atoll_client::memory_limits::{Budget, Charge};
use atoll_client::{PatchType, path};
use atoll_fleet::namespaces::is_consented;
use atoll_fleet::pod_security::Labels;
use atoll_fleet::view::ObjectTarget;
use atoll_fleet::{Locator, marks};
use atoll_informer::Pages;
use atoll_meta::{Status, object};
use serde_json::{Value, json};

use crate::connections::cluster_client::ClusterClient;
use ownership::{Ownership, find_existing, ownership_of};
use required::RequiredLabels;
pub use terminating::AwaitedNamespace;
use terminating::TerminatingNamespace;

const NAMESPACES: &str = "/api/v1/namespaces";

fn namespace_path(name: &str) -> String {
    path::object(NAMESPACES, name)
}

/// Namespaces above and their namespaces below.
#[derive(Default)]
pub struct Namespaces {
    known: Mutex<HashMap<Locator, MappedNamespace>>,
    /// Namespaces above that are being deleted, by workspace id and name.
    terminating: Mutex<HashMap<(String, String), TerminatingNamespace>>,
    /// Required Pod Security labels, by workspace id and namespace above.
    labels: Mutex<HashMap<(String, String), RequiredLabels>>,
    budget: Option<Arc<Budget>>,
    /// Charge for the namespaces that were read.
    charge: Mutex<Charge>,
}

struct MappedNamespace {
    name: String,
    /// Whether the namespace cannot have been given away since it was verified.
    is_verified: bool,
    /// Whether an administrator of the cluster lets the workspace use it.
    is_consented: bool,
}

impl MappedNamespace {
    fn new(name: &str) -> MappedNamespace {
        MappedNamespace { name: name.to_string(), is_verified: true, is_consented: false }
    }
}

/// Namespace below for the objects of a namespace.
#[derive(Debug, PartialEq, Eq)]
pub enum NamespaceResolution {
    Ready(String),
    /// Not usable; the reason.
    Conflict(String),
    /// Not usable until it is deleted; the reason.
    Terminating(String),
}

/// Memory of an entry in addition to its locator and name.
const KNOWN: usize = 128;

impl Namespaces {
    pub fn new(budget: Option<Arc<Budget>>) -> Namespaces {
        Namespaces { budget, ..Namespaces::default() }
    }

    /// Reads the locators of all namespaces in the cluster.
    pub async fn load(&self, below: &ClusterClient, control_plane: &str) -> Result<(), Status> {
        let (mut found, mut token, mut pages) = (HashMap::new(), String::new(), Pages::default());
        let mut charge = Charge::new(self.budget.clone());
        loop {
            let from = &path::encoded(&token);
            let page = pages.next(&below.client, |limit| async move {
                below.list_metadata(&format!("{NAMESPACES}?limit={limit}&continue={from}")).await
            });
            let page = page.await?;
            for namespace in page["items"].as_array().into_iter().flatten() {
                if let Some(Ok(locator)) = Locator::of(namespace)
                    && locator.control_plane == control_plane
                {
                    charge.grow(locator.text().len() + object::name(namespace).len() + KNOWN)?;
                    let is_consented = is_consented(namespace, &locator.workspace);
                    found.insert(
                        locator,
                        MappedNamespace { is_consented, ..MappedNamespace::new(object::name(namespace)) },
                    );
                }
            }
            token = page["metadata"]["continue"].as_str().unwrap_or_default().to_string();
            if token.is_empty() {
                *self.known() = found;
                *self.charge.lock().unwrap_or_else(PoisonError::into_inner) = charge;
                return Ok(());
            }
        }
    }

    /// Returns the namespace below, if it is known to exist.
    pub fn get(&self, locator: &Locator) -> Option<String> {
        self.known().get(locator).map(|known| known.name.clone())
    }

    /// Returns the namespace above that a namespace below stands for.
    pub fn above(&self, name: &str) -> Option<Locator> {
        self.known().iter().find(|(_, known)| known.name == name).map(|(locator, _)| locator.clone())
    }

    /// Returns the workspace id and the namespace above of those namespaces below that stand for one, by name.
    pub fn mapped(&self, names: &BTreeSet<String>) -> BTreeMap<String, (String, String)> {
        if names.is_empty() {
            return BTreeMap::new();
        }
        let known = self.known();
        let mapped = known.iter().filter(|(_, known)| names.contains(&known.name));
        let above = |locator: &Locator| (locator.workspace.clone(), locator.namespace.clone());
        mapped.map(|(locator, known)| (known.name.clone(), above(locator))).collect()
    }

    /// Records a namespace in which a managed object was found although its locator is missing. Only the
    /// registering workspace, `registering_workspace`, uses it without another check.
    pub fn record_found(&self, locator: Locator, name: &str, registering_workspace: &str) {
        let is_verified = locator.workspace == registering_workspace;
        self.known()
            .entry(locator)
            .or_insert_with(|| MappedNamespace { is_verified, ..MappedNamespace::new(name) });
    }

    /// Requires a verification before the next write: no managed object is left, so the namespace may be
    /// given away.
    pub fn unverify(&self, locator: &Locator) {
        if let Some(known) = self.known().get_mut(locator) {
            known.is_verified = false;
        }
    }

    /// Forgets a namespace that may no longer exist.
    pub fn forget(&self, locator: &Locator) {
        self.known().remove(locator);
    }

    /// Finds a namespace with another name that was created for a locator since all of them were read.
    pub async fn find_by_label(
        &self,
        below: &ClusterClient,
        locator: &Locator,
    ) -> Result<Option<String>, Status> {
        let path = format!("{NAMESPACES}?labelSelector={}%3D{}", marks::STANDS_FOR, locator.below(false));
        let found = below.list_metadata(&path).await?;
        let mut found = found["items"].as_array().into_iter().flatten();
        let stands = |found: &&Value| {
            !object::is_being_deleted(found) && ownership_of(found, locator, false) == Ownership::Owned
        };
        let name = found.find(stands).map(|found| object::name(found).to_string());
        if let Some(name) = &name {
            self.known().insert(locator.clone(), MappedNamespace::new(name));
        }
        Ok(name)
    }

    /// Returns the namespace below and creates it if necessary. `registering_workspace` is the id of the
    /// registering workspace; other workspaces get an existing namespace only if it is labelled for them.
    pub async fn ensure(
        &self,
        below: &ClusterClient,
        locator: Locator,
        registering_workspace: &str,
    ) -> Result<NamespaceResolution, Status> {
        if let Some(name) = self.verified(&locator, registering_workspace) {
            return Ok(NamespaceResolution::Ready(name));
        }
        let before = self.get(&locator);
        if before.is_none()
            && let Some(name) = self.find_by_label(below, &locator).await?
        {
            return Ok(NamespaceResolution::Ready(name));
        }
        let in_registering_workspace = locator.workspace == registering_workspace;
        let mut found = match &before {
            Some(name) => below.get(&namespace_path(name)).await?.map(|found| (name.clone(), found)),
            None => None,
        };
        // A workspace other than the registering one does not wait for a namespace that was taken back.
        let is_conflicting = |(_, found): &(String, Value)| {
            matches!(ownership_of(found, &locator, in_registering_workspace), Ownership::Taken(_))
                && !object::is_being_deleted(found)
        };
        if found.as_ref().is_some_and(|found| !in_registering_workspace && is_conflicting(found)) {
            self.forget(&locator);
            found = None;
        }
        let prescribed = self.prescribed(&locator).filter(|_| before.is_none());
        if found.is_none() {
            found = match &prescribed {
                Some(name) => {
                    let there = below.get(&namespace_path(name)).await?;
                    there.map(|found| (name.clone(), found))
                }
                None => find_existing(below, &locator, in_registering_workspace).await?,
            };
        }
        let (name, found) = match found {
            Some(found) => found,
            None => {
                // A recorded name is kept, unless only the registering workspace may have it.
                let name = before
                    .filter(|_| in_registering_workspace)
                    .or(prescribed)
                    .unwrap_or_else(|| locator.below(in_registering_workspace));
                let made = self.new_namespace(&name, &locator, in_registering_workspace);
                let path = format!("{NAMESPACES}?fieldManager={}", marks::MANAGER);
                (name, below.create(&path, &made).await?)
            }
        };
        if object::is_being_deleted(&found) {
            return Ok(NamespaceResolution::Terminating(format!(
                "namespace {name:?} is being deleted in the cluster"
            )));
        }
        match ownership_of(&found, &locator, in_registering_workspace) {
            Ownership::Owned => {}
            Ownership::Available => {
                let patch = json!({"metadata": {
                    "resourceVersion": object::resource_version(&found),
                    "annotations": { (marks::NAMESPACE): locator.text() },
                }});
                let path = format!("{}?fieldManager={}", namespace_path(&name), marks::MANAGER);
                below.patch(&path, PatchType::Merge, &patch).await?;
            }
            Ownership::Taken(message) => {
                self.forget(&locator);
                return Ok(NamespaceResolution::Conflict(message));
            }
        }
        let is_consented = is_consented(&found, &locator.workspace);
        self.known().insert(locator, MappedNamespace { is_consented, ..MappedNamespace::new(&name) });
        Ok(NamespaceResolution::Ready(name))
    }

    /// Returns the namespace below if it certainly stands for this one. A namespace of a workspace other than
    /// the registering one whose name other users could take is verified before every write.
    pub fn verified(&self, locator: &Locator, registering_workspace: &str) -> Option<String> {
        let known = self.known();
        let known = known.get(locator).filter(|known| known.is_verified)?;
        (locator.workspace == registering_workspace || known.name == locator.below(false))
            .then(|| known.name.clone())
    }

    fn new_namespace(&self, name: &str, locator: &Locator, in_registering_workspace: bool) -> Value {
        let mut made = json!({
            "apiVersion": "v1", "kind": "Namespace",
            "metadata": {
                "name": name, "labels": { (marks::CONTROL_PLANE): locator.control_plane },
                "annotations": { (marks::NAMESPACE): locator.text() },
            },
        });
        // A namespace with a prescribed name is found by this label.
        if ![true, false].iter().any(|is_registered| name == locator.below(*is_registered)) {
            made["metadata"]["labels"][marks::STANDS_FOR] = locator.below(false).into();
        }
        let said = self.labels().get(&namespace_key(locator)).map(|labels| labels.desired.clone());
        said.unwrap_or_else(|| Labels::fallback(in_registering_workspace)).set_on(&mut made);
        made
    }

    fn known(&self) -> MutexGuard<'_, HashMap<Locator, MappedNamespace>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the locator of the namespace of an object.
pub fn locator(control_plane: &str, target: &ObjectTarget) -> Locator {
    Locator {
        control_plane: control_plane.into(),
        workspace: target.workspace.clone(),
        namespace: target.namespace.clone(),
    }
}

fn namespace_key(locator: &Locator) -> (String, String) {
    (locator.workspace.clone(), locator.namespace.clone())
}

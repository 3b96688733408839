//! Namespaces in the cluster and the namespaces above that they stand for. A mapping is fixed once created;
//! the locator annotation records it.

mod verdict;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use atoll_client::PatchType;
use atoll_client::memory::{Budget, Charge};
use atoll_fleet::namespaces::is_consented;
use atoll_fleet::pod_security::Labels;
use atoll_fleet::view::Target;
use atoll_fleet::{Locator, marks};
use atoll_informer::{Key, Pages};
use atoll_meta::{Status, object};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::below::Below;
use crate::ending;
use crate::retire::is_made_for;
use verdict::{Verdict, choose, verify};

const NAMESPACES: &str = "/api/v1/namespaces";
/// How long a namespace may wait for objects that the garbage collector should delete.
const PATIENCE: Duration = Duration::from_secs(120);
/// Maximum number of unmapped namespaces that are reported.
const MOST_UNMAPPED: usize = 50;

/// Namespaces above and their namespaces below.
#[derive(Default)]
pub struct Spaces {
    known: Mutex<HashMap<Locator, Known>>,
    /// Namespaces above that are being deleted, by workspace id and name.
    ending: Mutex<HashMap<(String, String), Ending>>,
    /// Required Pod Security labels, by workspace id and namespace above.
    labels: Mutex<HashMap<(String, String), Required>>,
    budget: Option<Arc<Budget>>,
    /// Charge for the namespaces that were read.
    charge: Mutex<Charge>,
}

struct Required {
    wanted: Labels,
    /// Whether the namespace below has the labels.
    is_written: bool,
}

#[derive(Default)]
struct Ending {
    /// When the deletion of the namespace below was first tried.
    since: Option<Instant>,
    /// The namespace above, if it waits for the deletion.
    held: Option<Held>,
    /// Last reported reason why the namespace below still exists.
    reported: String,
}

/// A namespace above whose deletion waits for the cluster: its uid, and the revision at which the deletion
/// was requested.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    pub uid: String,
    pub since: u64,
}

struct Known {
    name: String,
    /// Whether the namespace cannot have been given away since it was verified.
    is_sure: bool,
    /// Whether an administrator of the cluster lets the workspace use it.
    is_consented: bool,
}

impl Known {
    fn new(name: &str) -> Known {
        Known { name: name.to_string(), is_sure: true, is_consented: false }
    }
}

/// Namespace below for the objects of a namespace.
#[derive(Debug, PartialEq, Eq)]
pub enum Place {
    In(String),
    /// Not usable; the reason.
    Taken(String),
    /// Not usable until it is deleted; the reason.
    Going(String),
}

/// Memory of an entry in addition to its locator and name.
const KNOWN: usize = 128;

impl Spaces {
    pub fn new(budget: Option<Arc<Budget>>) -> Spaces {
        Spaces { budget, ..Spaces::default() }
    }

    /// Reads the locators of all namespaces in the cluster.
    pub async fn load(&self, below: &Below, control_plane: &str) -> Result<(), Status> {
        let (mut found, mut token, mut pages) = (HashMap::new(), String::new(), Pages::default());
        let mut charge = Charge::new(self.budget.clone());
        loop {
            let from = &token;
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
                    found.insert(locator, Known { is_consented, ..Known::new(object::name(namespace)) });
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

    /// Records a namespace in which a managed object was found although its locator is missing. Only the
    /// registering workspace, `home`, uses it without another check.
    pub fn learn(&self, locator: Locator, name: &str, home: &str) {
        let is_sure = locator.workspace == home;
        self.known().entry(locator).or_insert_with(|| Known { is_sure, ..Known::new(name) });
    }

    /// Requires a verification before the next write: no managed object is left, so the namespace may be
    /// given away.
    pub fn doubt(&self, locator: &Locator) {
        if let Some(known) = self.known().get_mut(locator) {
            known.is_sure = false;
        }
    }

    /// Records that the namespace above is being deleted.
    pub fn end(&self, workspace: &str, namespace: &str, held: Option<Held>) {
        let mut ending = self.ending();
        let entry = ending.entry((workspace.to_string(), namespace.to_string())).or_default();
        if held.is_some() {
            entry.held = held;
        }
    }

    /// Starts a round: the view will list the waiting namespaces again.
    pub fn begin_round(&self) {
        self.ending().retain(|_, ending| ending.held.is_none());
    }

    /// Records that objects are placed in the namespace again: it was created anew, unless its deletion is
    /// known to wait.
    pub fn unend(&self, workspace: &str, namespace: &str) {
        let mut ending = self.ending();
        let place = (workspace.to_string(), namespace.to_string());
        if ending.get(&place).is_some_and(|ending| ending.held.is_none()) {
            ending.remove(&place);
        }
    }

    /// Ends the deletion. Returns the namespace above that waits for it.
    pub fn ended(&self, locator: &Locator) -> Option<Held> {
        let ending = self.ending().remove(&(locator.workspace.clone(), locator.namespace.clone()));
        ending.and_then(|ending| ending.held)
    }

    pub fn is_held(&self, locator: &Locator) -> bool {
        let ending = self.ending();
        let ending = ending.get(&(locator.workspace.clone(), locator.namespace.clone()));
        ending.is_some_and(|ending| ending.held.is_some())
    }

    /// Records why a namespace still exists. Returns the namespace above that waits for it, unless the reason
    /// was reported before.
    pub fn is_news(&self, locator: &Locator, why: &str) -> Option<Held> {
        let mut ending = self.ending();
        let ending = ending.get_mut(&place_of(locator)).filter(|ending| ending.reported != why)?;
        ending.reported = why.to_string();
        ending.held.clone()
    }

    pub fn is_ending(&self, locator: &Locator) -> bool {
        self.ending().contains_key(&(locator.workspace.clone(), locator.namespace.clone()))
    }

    /// Returns the queue keys of namespaces that are being deleted.
    pub fn endings(&self) -> Vec<Key> {
        self.ending().keys().map(|(workspace, namespace)| ending::key(workspace, namespace)).collect()
    }

    /// Whether to keep waiting for objects that the garbage collector should delete.
    pub fn is_patient(&self, locator: &Locator) -> bool {
        let mut ending = self.ending();
        let ending = ending.entry((locator.workspace.clone(), locator.namespace.clone())).or_default();
        ending.since.get_or_insert_with(Instant::now).elapsed() < PATIENCE
    }

    fn ending(&self) -> MutexGuard<'_, HashMap<(String, String), Ending>> {
        self.ending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Forgets a namespace that may no longer exist.
    pub fn forget(&self, locator: &Locator) {
        self.known().remove(locator);
    }

    /// Finds a namespace with another name that was created for a locator since all of them were read.
    pub async fn seek(&self, below: &Below, locator: &Locator) -> Result<Option<String>, Status> {
        let path = format!("{NAMESPACES}?labelSelector={}%3D{}", marks::STANDS_FOR, locator.below(false));
        let found = below.list_metadata(&path).await?;
        let mut found = found["items"].as_array().into_iter().flatten();
        let stands = |found: &&Value| {
            !object::is_being_deleted(found) && verify(found, locator, false) == Verdict::Ours
        };
        let name = found.find(stands).map(|found| object::name(found).to_string());
        if let Some(name) = &name {
            self.known().insert(locator.clone(), Known::new(name));
        }
        Ok(name)
    }

    /// Returns the namespace below and creates it if necessary. `home` is the id of the registering
    /// workspace; other workspaces get an existing namespace only if it is labelled for them.
    pub async fn ensure(&self, below: &Below, locator: Locator, home: &str) -> Result<Place, Status> {
        if let Some(name) = self.certain(&locator, home) {
            return Ok(Place::In(name));
        }
        let before = self.get(&locator);
        if before.is_none()
            && let Some(name) = self.seek(below, &locator).await?
        {
            return Ok(Place::In(name));
        }
        let is_home = locator.workspace == home;
        let mut found = match &before {
            Some(name) => {
                below.get(&format!("{NAMESPACES}/{name}")).await?.map(|found| (name.clone(), found))
            }
            None => None,
        };
        // A workspace other than the registering one does not wait for a namespace that was taken back.
        let is_taken = |(_, found): &(String, Value)| {
            matches!(verify(found, &locator, is_home), Verdict::Taken(_)) && !object::is_being_deleted(found)
        };
        if found.as_ref().is_some_and(|found| !is_home && is_taken(found)) {
            self.forget(&locator);
            found = None;
        }
        if found.is_none() {
            found = choose(below, &locator, is_home).await?;
        }
        let (name, found) = match found {
            Some(found) => found,
            None => {
                // A recorded name is kept, unless only the registering workspace may have it.
                let name = before.filter(|_| is_home).unwrap_or_else(|| locator.below(is_home));
                let made = self.new_namespace(&name, &locator, is_home);
                let path = format!("{NAMESPACES}?fieldManager={}", marks::MANAGER);
                (name, below.create(&path, &made).await?)
            }
        };
        if object::is_being_deleted(&found) {
            return Ok(Place::Going(format!("namespace {name:?} is being deleted in the cluster")));
        }
        match verify(&found, &locator, is_home) {
            Verdict::Ours => {}
            Verdict::Free => {
                let patch = json!({"metadata": {
                    "resourceVersion": object::resource_version(&found),
                    "annotations": { (marks::NAMESPACE): locator.text() },
                }});
                let path = format!("{NAMESPACES}/{name}?fieldManager={}", marks::MANAGER);
                below.patch(&path, PatchType::Merge, &patch).await?;
            }
            Verdict::Taken(complaint) => {
                self.forget(&locator);
                return Ok(Place::Taken(complaint));
            }
        }
        let is_consented = is_consented(&found, &locator.workspace);
        self.known().insert(locator, Known { is_consented, ..Known::new(&name) });
        Ok(Place::In(name))
    }

    /// Returns the namespace below if it certainly stands for this one. A namespace of a workspace other than
    /// the registering one whose name other users could take is verified before every write.
    pub fn certain(&self, locator: &Locator, home: &str) -> Option<String> {
        let known = self.known();
        let known = known.get(locator).filter(|known| known.is_sure)?;
        (locator.workspace == home || known.name == locator.below(false)).then(|| known.name.clone())
    }

    fn new_namespace(&self, name: &str, locator: &Locator, is_home: bool) -> Value {
        let mut made = json!({
            "apiVersion": "v1", "kind": "Namespace",
            "metadata": {
                "name": name, "labels": { (marks::CONTROL_PLANE): locator.control_plane },
                "annotations": { (marks::NAMESPACE): locator.text() },
            },
        });
        let said = self.labels().get(&place_of(locator)).map(|labels| labels.wanted.clone());
        said.unwrap_or_else(|| Labels::unsaid(is_home)).put(&mut made);
        made
    }

    /// Sets the labels that the namespace below must have.
    pub fn require(&self, workspace: &str, namespace: &str, wanted: Labels) {
        let place = (workspace.to_string(), namespace.to_string());
        self.labels().insert(place, Required { wanted, is_written: false });
    }

    /// Forgets all required labels: the view will send them again.
    pub fn forget_labels(&self) {
        self.labels().clear();
    }

    /// Updates the Pod Security labels of a managed namespace.
    pub async fn label(&self, below: &Below, locator: &Locator) -> Result<(), Status> {
        let place = place_of(locator);
        let pending =
            self.labels().get(&place).filter(|labels| !labels.is_written).map(|it| it.wanted.clone());
        let (Some(wanted), Some(name)) = (pending, self.get(locator)) else { return Ok(()) };
        let path = format!("{NAMESPACES}/{name}");
        if let Some(found) = below.get(&path).await?.filter(|found| is_made_for(found, locator))
            && let Some(patch) = wanted.patch(&found)
        {
            let path = format!("{path}?fieldManager={}", marks::MANAGER);
            below.patch(&path, PatchType::Merge, &patch).await?;
        }
        if let Some(labels) = self.labels().get_mut(&place) {
            labels.is_written = labels.wanted == wanted;
        }
        Ok(())
    }

    /// Returns namespaces that workspaces other than `home` use without a label that allows it, from before
    /// names were mapped. Reads them again, because an administrator may have labelled them.
    pub async fn unmapped(&self, below: &Below, home: &str) -> Vec<(String, String)> {
        let mut unmapped = Vec::new();
        for (locator, name) in self.plain(home) {
            let found = below.get(&format!("{NAMESPACES}/{name}")).await.ok().flatten();
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

    fn plain(&self, home: &str) -> Vec<(Locator, String)> {
        let known = self.known();
        let is_plain = |(locator, known): &(&Locator, &Known)| {
            locator.workspace != home && !known.is_consented && known.name != locator.below(false)
        };
        let mut plain: Vec<(Locator, String)> = known
            .iter()
            .filter(is_plain)
            .map(|(locator, known)| (locator.clone(), known.name.clone()))
            .collect();
        plain.sort_unstable();
        plain.truncate(MOST_UNMAPPED);
        plain
    }

    fn labels(&self) -> MutexGuard<'_, HashMap<(String, String), Required>> {
        self.labels.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn known(&self) -> MutexGuard<'_, HashMap<Locator, Known>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the locator of the namespace of an object.
pub fn locator(control_plane: &str, target: &Target) -> Locator {
    Locator {
        control_plane: control_plane.into(),
        workspace: target.workspace.clone(),
        namespace: target.namespace.clone(),
    }
}

fn place_of(locator: &Locator) -> (String, String) {
    (locator.workspace.clone(), locator.namespace.clone())
}

//! Namespaces in the cluster: which stands for which one above. Fixed once made, and said by the namespace itself.

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
/// How long a namespace that is to go is given for what was made there for things that are gone.
const PATIENCE: Duration = Duration::from_secs(120);
/// Most namespaces that are told of whose names are not mapped.
const MOST_UNMAPPED: usize = 50;

/// Namespaces above, with the names of those below.
#[derive(Default)]
pub struct Spaces {
    known: Mutex<HashMap<Locator, Known>>,
    /// Namespaces above that are being deleted, with their workspaces.
    ending: Mutex<HashMap<(String, String), Ending>>,
    /// What namespaces have to enforce, by workspace and namespace above.
    labels: Mutex<HashMap<(String, String), Required>>,
    budget: Option<Arc<Budget>>,
    /// For what was known when it was last read.
    charge: Mutex<Charge>,
}

struct Required {
    wanted: Labels,
    /// Whether the namespace below says so already.
    is_written: bool,
}

#[derive(Default)]
struct Ending {
    /// Since when the one below is to go.
    since: Option<Instant>,
    /// Where the one above waits for that.
    held: Option<Held>,
    /// Why the one below is still there, as it was last reported.
    reported: String,
}

/// A namespace above that is held until the cluster has none for it: its uid, and the revision since which it is to go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    pub uid: String,
    pub since: u64,
}

struct Known {
    name: String,
    /// Whether nobody can have given it away since it was looked at.
    is_sure: bool,
    /// Whether an administrator of the cluster lets the workspace use it.
    is_consented: bool,
}

impl Known {
    fn new(name: &str) -> Known {
        Known { name: name.to_string(), is_sure: true, is_consented: false }
    }
}

/// Where objects of a namespace are to go.
#[derive(Debug, PartialEq, Eq)]
pub enum Place {
    In(String),
    /// Nowhere: what is wrong, for people.
    Taken(String),
    /// Nowhere for now.
    Going(String),
}

/// What it takes to remember a namespace, beside its locator and its name.
const KNOWN: usize = 128;

impl Spaces {
    pub fn new(budget: Option<Arc<Budget>>) -> Spaces {
        Spaces { budget, ..Spaces::default() }
    }

    /// Reads what namespaces in the cluster say of themselves.
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

    /// The namespace below, if it is known to be there.
    pub fn get(&self, locator: &Locator) -> Option<String> {
        self.known().get(locator).map(|known| known.name.clone())
    }

    /// The namespace above that one below stands for.
    pub fn above(&self, name: &str) -> Option<Locator> {
        self.known().iter().find(|(_, known)| known.name == name).map(|(locator, _)| locator.clone())
    }

    /// Something of ours was found in a namespace that does not say so any longer. Only the workspace of the Cluster, `home`,
    /// goes on to use it without another look.
    pub fn learn(&self, locator: Locator, name: &str, home: &str) {
        let is_sure = locator.workspace == home;
        self.known().entry(locator).or_insert_with(|| Known { is_sure, ..Known::new(name) });
    }

    /// Nothing is there any more that is ours: it may be given away.
    pub fn doubt(&self, locator: &Locator) {
        if let Some(known) = self.known().get_mut(locator) {
            known.is_sure = false;
        }
    }

    /// The namespace above is being deleted.
    pub fn end(&self, workspace: &str, namespace: &str, held: Option<Held>) {
        let mut ending = self.ending();
        let entry = ending.entry((workspace.to_string(), namespace.to_string())).or_default();
        if held.is_some() {
            entry.held = held;
        }
    }

    /// Everything is about to be said again, and with it which namespaces are held.
    pub fn begin_round(&self) {
        self.ending().retain(|_, ending| ending.held.is_none());
    }

    /// Something is to be in it again: it is another one, unless the one above is known to be held by its deletion.
    pub fn unend(&self, workspace: &str, namespace: &str) {
        let mut ending = self.ending();
        let place = (workspace.to_string(), namespace.to_string());
        if ending.get(&place).is_some_and(|ending| ending.held.is_none()) {
            ending.remove(&place);
        }
    }

    /// There is none below for it any more, or it stays there. Whoever waits above for that.
    pub fn ended(&self, locator: &Locator) -> Option<Held> {
        let ending = self.ending().remove(&(locator.workspace.clone(), locator.namespace.clone()));
        ending.and_then(|ending| ending.held)
    }

    pub fn is_held(&self, locator: &Locator) -> bool {
        let ending = self.ending();
        let ending = ending.get(&(locator.workspace.clone(), locator.namespace.clone()));
        ending.is_some_and(|ending| ending.held.is_some())
    }

    /// Notes why a namespace is still there. Returns the one above that waits for it, unless that was reported before.
    pub fn is_news(&self, locator: &Locator, why: &str) -> Option<Held> {
        let mut ending = self.ending();
        let ending = ending.get_mut(&place_of(locator)).filter(|ending| ending.reported != why)?;
        ending.reported = why.to_string();
        ending.held.clone()
    }

    pub fn is_ending(&self, locator: &Locator) -> bool {
        self.ending().contains_key(&(locator.workspace.clone(), locator.namespace.clone()))
    }

    /// What such are called in queues.
    pub fn endings(&self) -> Vec<Key> {
        self.ending().keys().map(|(workspace, namespace)| ending::key(workspace, namespace)).collect()
    }

    /// Whether it is worth waiting for what is about to go by itself.
    pub fn is_patient(&self, locator: &Locator) -> bool {
        let mut ending = self.ending();
        let ending = ending.entry((locator.workspace.clone(), locator.namespace.clone())).or_default();
        ending.since.get_or_insert_with(Instant::now).elapsed() < PATIENCE
    }

    fn ending(&self) -> MutexGuard<'_, HashMap<(String, String), Ending>> {
        self.ending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// It may be there no longer.
    pub fn forget(&self, locator: &Locator) {
        self.known().remove(locator);
    }

    /// A namespace of another name that was made to stand for one above since all of them were read.
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

    /// The namespace below, which is made if there is none. `home` is the id of the workspace in which the Cluster is
    /// registered: others get a namespace that exists in the cluster only if that says it is for them.
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
        // Another workspace than the one of the Cluster does not wait for a namespace that was taken back.
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
                // A name that is fixed stays, unless it is one that only the workspace of the Cluster may have.
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

    /// The namespace below, if it is certain that it stands for this one. What another workspace than the one of the Cluster
    /// uses under a name that others may give to a namespace as well is looked at before every write.
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

    /// What the namespace below has to enforce.
    pub fn require(&self, workspace: &str, namespace: &str, wanted: Labels) {
        let place = (workspace.to_string(), namespace.to_string());
        self.labels().insert(place, Required { wanted, is_written: false });
    }

    /// Nothing is known any longer of what namespaces have to enforce: it is about to be said again.
    pub fn forget_labels(&self) {
        self.labels().clear();
    }

    /// Brings the labels of a namespace that Atoll made in line with what it has to enforce.
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

    /// Namespaces that workspaces other than `home` use without a label that allows it: from before their names were mapped.
    /// Looks again at those, for an administrator may have labelled them.
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

/// The namespace above that an object is in.
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

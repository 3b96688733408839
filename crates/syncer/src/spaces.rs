//! Namespaces in the cluster: which stands for which one above. Fixed once made, and said by the namespace itself.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use atoll_client::PatchType;
use atoll_client::memory::{Budget, Charge};
use atoll_fleet::view::Target;
use atoll_fleet::{Locator, marks};
use atoll_informer::{Key, Pages};
use atoll_meta::{Status, object};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::below::Below;
use crate::ending;

const NAMESPACES: &str = "/api/v1/namespaces";
/// How long a namespace that is to go is given for what was made there for things that are gone.
const PATIENCE: Duration = Duration::from_secs(120);
/// Every cluster has it, and nobody can make it.
const DEFAULT: &str = "default";

/// Namespaces above, with the names of those below.
#[derive(Default)]
pub struct Spaces {
    known: Mutex<HashMap<Locator, Known>>,
    /// Namespaces above that are being deleted, with their workspaces.
    ending: Mutex<HashMap<(String, String), Ending>>,
    budget: Option<Arc<Budget>>,
    /// For what was known when it was last read.
    charge: Mutex<Charge>,
}

#[derive(Default)]
struct Ending {
    /// Since when the one below is to go.
    since: Option<Instant>,
    /// Where the one above waits for that.
    held: Option<Held>,
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
}

impl Known {
    fn new(name: &str) -> Known {
        Known { name: name.to_string(), is_sure: true }
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
                    found.insert(locator, Known::new(object::name(namespace)));
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

    /// Something of ours was found in a namespace that does not say so any longer.
    pub fn learn(&self, locator: Locator, name: &str) {
        self.known().entry(locator).or_insert_with(|| Known::new(name));
    }

    /// Workspaces that have a namespace there.
    pub fn workspaces(&self) -> HashSet<String> {
        self.known().keys().map(|locator| locator.workspace.clone()).collect()
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
        let stands =
            |found: &&Value| !object::is_being_deleted(found) && verify(found, locator) == Verdict::Ours;
        let name = found.find(stands).map(|found| object::name(found).to_string());
        if let Some(name) = &name {
            self.known().insert(locator.clone(), Known::new(name));
        }
        Ok(name)
    }

    /// The namespace below, which is made if there is none.
    pub async fn ensure(
        &self,
        below: &Below,
        locator: Locator,
        is_only_workspace: impl FnOnce() -> bool,
    ) -> Result<Place, Status> {
        let before = match self.known().get(&locator) {
            Some(known) if known.is_sure => return Ok(Place::In(known.name.clone())),
            known => known.map(|known| known.name.clone()),
        };
        if before.is_none()
            && let Some(name) = self.seek(below, &locator).await?
        {
            return Ok(Place::In(name));
        }
        let plain = locator.below(true);
        let name = before.unwrap_or_else(|| locator.below(is_only_workspace()));
        // One that was adopted has its own name, whoever else is served there.
        if plain != name
            && let Some(found) = below.get(&format!("{NAMESPACES}/{plain}")).await?
            && !object::is_being_deleted(&found)
            && verify(&found, &locator) == Verdict::Ours
        {
            self.known().insert(locator, Known::new(&plain));
            return Ok(Place::In(plain));
        }
        let path = format!("{NAMESPACES}/{name}");
        let found = match below.get(&path).await? {
            Some(found) => found,
            None => {
                let made = json!({
                    "apiVersion": "v1", "kind": "Namespace",
                    "metadata": {
                        "name": name, "labels": { (marks::CONTROL_PLANE): locator.control_plane },
                        "annotations": { (marks::NAMESPACE): locator.text() },
                    },
                });
                below.create(&format!("{NAMESPACES}?fieldManager={}", marks::MANAGER), &made).await?
            }
        };
        if object::is_being_deleted(&found) {
            return Ok(Place::Going(format!("namespace {name:?} is being deleted in the cluster")));
        }
        match verify(&found, &locator) {
            Verdict::Ours => {}
            Verdict::Free => {
                let patch = json!({"metadata": {
                    "resourceVersion": object::resource_version(&found),
                    "annotations": { (marks::NAMESPACE): locator.text() },
                }});
                let path = format!("{path}?fieldManager={}", marks::MANAGER);
                below.patch(&path, PatchType::Merge, &patch).await?;
            }
            Verdict::Taken(complaint) => {
                self.forget(&locator);
                return Ok(Place::Taken(complaint));
            }
        }
        self.known().insert(locator, Known::new(&name));
        Ok(Place::In(name))
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

#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    Ours,
    /// Nobody's, and anybody may use it.
    Free,
    Taken(String),
}

fn verify(found: &Value, locator: &Locator) -> Verdict {
    let name = object::name(found);
    match Locator::of(found) {
        Some(Ok(said)) if said == *locator => Verdict::Ours,
        Some(_) => Verdict::Taken(format!("namespace {name:?} in the cluster stands for another one")),
        None if name == DEFAULT => Verdict::Free,
        None => Verdict::Taken(format!(
            "namespace {name:?} exists in the cluster and was not made by Atoll; adopt it or rename one of the two"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespace_is_used_by_whom_it_names() {
        let namespace = |name: &str, said: Option<&str>| {
            let mut found = json!({"metadata": {"name": name}});
            if let Some(said) = said {
                object::set_annotation(&mut found, marks::NAMESPACE, said);
            }
            found
        };
        let of = |control_plane: &str, workspace: &str, namespace: &str| Locator {
            control_plane: control_plane.into(),
            workspace: workspace.into(),
            namespace: namespace.into(),
        };
        let ours = of("cp", "w", "shop").text();
        assert_eq!(verify(&namespace("shop", Some(&ours)), &of("cp", "w", "shop")), Verdict::Ours);
        assert_eq!(verify(&namespace(DEFAULT, None), &of("cp", "w", DEFAULT)), Verdict::Free);
        for (found, locator) in [
            (namespace("shop", None), of("cp", "w", "shop")),
            (namespace("shop", Some(&ours)), of("cp", "v", "shop")),
            (namespace("shop", Some(&ours)), of("other", "w", "shop")),
            (namespace("shop", Some("nonsense")), of("cp", "w", "shop")),
            (namespace(DEFAULT, Some("nonsense")), of("cp", "w", DEFAULT)),
        ] {
            let verdict = verify(&found, &locator);
            assert!(matches!(verdict, Verdict::Taken(_)), "{found} {verdict:?}");
        }
    }
}

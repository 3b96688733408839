//! Letting go of single objects in a cluster: they stay as they are, and nobody takes them for Atoll's any more.
//!
//! ```text
//!   object below: released ─► placement above: taken out, and let go ─► object below: no mark left
//! ```
//!
//! In this order whoever syncs can be at work all the time: what says that it is released it neither changes nor deletes,
//! whatever else it says; and what is no longer placed there it does not look for.

use atoll_fleet::marks::{ADOPTER, CONTROL_PLANE, KEEP, RELEASED};
use atoll_fleet::view::Target;
use atoll_fleet::{Locator, keep, release};
use atoll_meta::object;
use serde_json::{Value, json};

use super::api::Api;
use super::fleet::{Fleet, uid};
use super::placed::{self, without};
use crate::advice::Failure;
use crate::workspace::session::encoded;

/// How often something is tried that others change at the same time.
const ATTEMPTS: usize = 10;

/// Kinds of which objects take along what they refer to, wherever they are placed: group and resource.
pub const REFERRERS: [(&str, &str); 8] = [
    ("batch", "cronjobs"),
    ("apps", "daemonsets"),
    ("apps", "deployments"),
    ("batch", "jobs"),
    ("apps", "replicasets"),
    ("", "serviceaccounts"),
    ("apps", "statefulsets"),
    ("networking.k8s.io", "ingresses"),
];

/// Says of an object in a cluster that it is nobody's. Whether it is there.
pub async fn disown(below: &Api, path: &str, uid: &str) -> Result<bool, Failure> {
    let patch = json!({ "metadata": { "uid": uid, "annotations": { RELEASED: "true" } } });
    match below.merge(&format!("{path}?fieldManager={ADOPTER}"), &patch).await {
        Ok(_) => Ok(true),
        Err(problem) if problem.is("NotFound") => Ok(false),
        Err(problem) => Err(problem.into()),
    }
}

/// Says of an object in a cluster that stays ours what is let go and refers to it: it is never to be deleted.
pub async fn hold(below: &Api, path: &str, of: &str, referrer: &str) -> Result<(), Failure> {
    change_keep(below, path, of, |kept| Some(keep::with(kept, referrer))).await
}

/// Those that are ours again need it no more than others do.
pub async fn unhold(
    below: &Api,
    path: &str,
    of: &str,
    is_back: impl Fn(&str) -> bool,
) -> Result<(), Failure> {
    change_keep(below, path, of, |kept| keep::without(kept, &is_back)).await
}

async fn change_keep(
    below: &Api,
    path: &str,
    of: &str,
    change: impl Fn(&str) -> Option<String>,
) -> Result<(), Failure> {
    for _ in 0..ATTEMPTS {
        let Some(found) = below.find(path).await?.filter(|found| uid(found) == of) else { return Ok(()) };
        let before = object::annotation(&found, KEEP);
        let after = change(before.unwrap_or_default());
        if before == after.as_deref() {
            return Ok(());
        }
        let patch = json!({ "metadata": {
            "uid": of, "resourceVersion": object::resource_version(&found), "annotations": { KEEP: after },
        } });
        match below.merge(&format!("{path}?fieldManager={ADOPTER}"), &patch).await {
            Ok(_) => return Ok(()),
            Err(problem) if problem.is("NotFound") => return Ok(()),
            // Somebody was faster.
            Err(problem) if problem.is("Conflict") => {}
            Err(problem) => return Err(problem.into()),
        }
    }
    Err(Failure::new(format!("{path} is changed by others all the time"), "try again"))
}

/// Takes everything off an object in a cluster that is ours, and nothing else.
pub async fn strip(below: &Api, path: &str, of: &str) -> Result<(), Failure> {
    for _ in 0..ATTEMPTS {
        let Some(found) = below.find(path).await?.filter(|found| uid(found) == of) else { return Ok(()) };
        let mut patch = release(&found);
        patch["metadata"]["resourceVersion"] = found["metadata"]["resourceVersion"].clone();
        match below.merge(path, &patch).await {
            Ok(_) => return Ok(()),
            Err(problem) if problem.is("NotFound") => return Ok(()),
            // Somebody was faster.
            Err(problem) if problem.is("Conflict") => {}
            Err(problem) => return Err(problem.into()),
        }
    }
    Err(Failure::new(format!("{path} is changed by others all the time"), "try again"))
}

/// Takes a cluster out of the placement of an object that has been disowned there, without anybody deleting anything.
/// `path` is that of the object above.
pub async fn unplace(
    above: &Api,
    home: &Fleet,
    cluster: &str,
    path: &str,
    target: &Target,
) -> Result<(), Failure> {
    let path = format!("{path}/placement");
    for _ in 0..ATTEMPTS {
        let Some(placement) = above.find(&path).await?.filter(|found| uid(found) == target.uid) else {
            return Ok(());
        };
        if let Some(next) = without(&placement, cluster) {
            match above.put(&path, &next).await {
                Ok(_) => {}
                Err(problem) if problem.is("NotFound") => return Ok(()),
                // Somebody was faster.
                Err(problem) if problem.is("Conflict") => continue,
                Err(problem) => return Err(problem.into()),
            }
        }
        placed::let_go(home, cluster, std::slice::from_ref(target)).await?;
        return Ok(());
    }
    Err(Failure::new(format!("others change where {} shall be all the time", target.name), "try again"))
}

/// Whether a cluster could be taken out of the placement of an object; why not, if so.
pub async fn may_unplace(above: &Api, cluster: &str, path: &str) -> Result<(), Failure> {
    let placement = above.get(&format!("{path}/placement")).await?;
    if let Some(next) = without(&placement, cluster) {
        match above.put(&format!("{path}/placement?dryRun=All"), &next).await {
            Err(problem) if !problem.is("Conflict") => return Err(problem.into()),
            _ => {}
        }
    }
    Ok(())
}

/// Adds a cluster to a placement, whoever else has it. Whether it was not in it.
pub async fn place(above: &Api, cluster: &str, path: &str, of: &str, by: &str) -> Result<bool, Failure> {
    let path = format!("{path}/placement");
    for _ in 0..ATTEMPTS {
        let mut placement = above.get(&path).await?;
        if uid(&placement) != of {
            return Err(Failure::new(format!("{path} is another one by now"), "try again"));
        }
        let Some(clusters) = placement["spec"]["clusters"].as_array_mut() else {
            return Err(Failure::from(format!("{path} has no list of clusters")));
        };
        if clusters.iter().any(|share| share["name"] == cluster) {
            return Ok(false);
        }
        let is_first = clusters.is_empty();
        clusters.push(json!({ "name": cluster }));
        if is_first {
            placement["spec"]["by"] = by.into();
        }
        // It is there already: a cordon is no reason against it.
        placement["spec"]["force"] = true.into();
        match above.put(&path, &placement).await {
            Ok(_) => return Ok(true),
            Err(problem) if problem.is("Conflict") => {}
            Err(problem) => return Err(problem.into()),
        }
    }
    Err(Failure::new(format!("others change {path} all the time"), "try again"))
}

/// Namespaces that were there before no longer say what they stood for. Those that Atoll made are another matter.
pub async fn unlocate(below: &Api, control_plane: &str) -> Result<(), Failure> {
    for found in namespaces(below).await? {
        let is_ours = Locator::of(&found)
            .is_some_and(|said| said.is_ok_and(|locator| locator.control_plane == control_plane));
        if is_ours && object::label(&found, CONTROL_PLANE).is_none() {
            let path = format!("/api/v1/namespaces/{}", encoded(object::name(&found)));
            strip(below, &path, uid(&found)).await?;
        }
    }
    Ok(())
}

/// The namespaces of a cluster, with all that their annotations say.
pub async fn namespaces(below: &Api) -> Result<Vec<Value>, Failure> {
    let list = below.get("/api/v1/namespaces").await?;
    Ok(list["items"].as_array().cloned().unwrap_or_default())
}

//! Removal of Atoll's marks from objects that stay in a cluster.

use atoll_client::path;
use atoll_fleet::marks::CONTROL_PLANE;
use atoll_fleet::{Locator, release};
use atoll_meta::object::{self, uid};
use serde_json::Value;

use crate::Failure;
use crate::api::Api;

/// Attempts at an update that conflicts with other writers.
const ATTEMPTS: usize = 10;

/// Removes Atoll's marks from an object in a cluster, and nothing else.
pub async fn remove_marks(below: &Api, path: &str, of: &str) -> Result<(), Failure> {
    for _ in 0..ATTEMPTS {
        let Some(found) = below.find(path).await?.filter(|found| uid(found) == of) else { return Ok(()) };
        let mut patch = release(&found);
        patch["metadata"]["resourceVersion"] = found["metadata"]["resourceVersion"].clone();
        match below.merge(path, &patch).await {
            Ok(_) => return Ok(()),
            Err(problem) if problem.is("NotFound") => return Ok(()),
            // Another writer was faster: retry.
            Err(problem) if problem.is("Conflict") => {}
            Err(problem) => return Err(problem.into()),
        }
    }
    Err(Failure::new(format!("{path} keeps being changed by other writers"), "try again"))
}

/// Removes the locators from namespaces that Atoll did not create.
pub async fn remove_locators(below: &Api, control_plane: &str) -> Result<(), Failure> {
    for found in list_namespaces(below).await? {
        let is_of_control_plane = Locator::of(&found)
            .is_some_and(|parsed| parsed.is_ok_and(|locator| locator.control_plane == control_plane));
        if is_of_control_plane && object::label(&found, CONTROL_PLANE).is_none() {
            let path = path::object("/api/v1/namespaces", object::name(&found));
            remove_marks(below, &path, uid(&found)).await?;
        }
    }
    Ok(())
}

/// Lists the namespaces of a cluster.
pub async fn list_namespaces(below: &Api) -> Result<Vec<Value>, Failure> {
    let list = below.get("/api/v1/namespaces").await?;
    Ok(list["items"].as_array().cloned().unwrap_or_default())
}

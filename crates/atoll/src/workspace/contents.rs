//! Counts what deleting a workspace destroys: all workspaces below it, and all of their objects.

use std::collections::BTreeMap;

use atoll_fleet::Placement;
use atoll_meta::object;
use http::Method;
use serde_json::Value;

use super::session::{Session, encoded};
use crate::advice::{Failure, pluralize};
use crate::cluster::remove::release::{METADATA, PAGE, preferred};
use crate::cluster::{Api, in_workspace};
use crate::place::discover;
use crate::place::resources::ApiResource;
use atoll_joining::client::Problem;

/// Resource version of bootstrap objects that were never changed.
const BOOTSTRAP_VERSION: &str = "1";

#[derive(Debug, Default, PartialEq, Eq)]
pub struct WorkspaceContents {
    /// Number of workspaces below it, at any depth.
    workspaces: usize,
    namespaces: usize,
    objects: usize,
    /// Number of placed objects by cluster.
    placed: BTreeMap<String, usize>,
    /// Whether the user may not read everything.
    is_partial: bool,
}

impl WorkspaceContents {
    pub async fn count(session: &Session, path: &str) -> Result<WorkspaceContents, Failure> {
        let mut contents = WorkspaceContents::default();
        let mut paths = vec![path.to_string()];
        while let Some(path) = paths.pop() {
            match session.child_names(&path).await {
                Ok(names) => {
                    contents.workspaces += names.len();
                    paths.extend(names.into_iter().map(|name| format!("{path}:{name}")));
                }
                Err(problem) if is_forbidden(&problem) => contents.is_partial = true,
                Err(problem) => return Err(problem.into()),
            }
            let api = Api::above(&session.config.context()?, &in_workspace(&path, ""))?;
            let resources = match discover(&api).await {
                Ok(resources) => resources,
                Err(_) => {
                    contents.is_partial = true;
                    continue;
                }
            };
            for resource in preferred(&resources).filter(|resource| is_counted(resource)) {
                contents.add_all(&api, resource).await?;
            }
        }
        Ok(contents)
    }

    async fn add_all(&mut self, api: &Api, resource: &ApiResource) -> Result<(), Failure> {
        let mut next = String::new();
        loop {
            let path = format!("{}?limit={PAGE}{next}", resource.collection(""));
            let list = match api.call_as(Method::GET, &path, METADATA, None).await {
                Ok(list) => list,
                Err(problem) if is_forbidden(&problem) => {
                    self.is_partial = true;
                    return Ok(());
                }
                Err(problem) if problem.is("NotFound") || problem.is("MethodNotAllowed") => return Ok(()),
                Err(problem) => return Err(problem.into()),
            };
            list["items"].as_array().into_iter().flatten().for_each(|item| self.add(resource, item));
            match object::continuation(&list) {
                Some(token) => next = format!("&continue={}", encoded(token)),
                None => return Ok(()),
            }
        }
    }

    fn add(&mut self, resource: &ApiResource, item: &Value) {
        if object::resource_version(item) == BOOTSTRAP_VERSION {
            return;
        }
        if resource.group.is_empty() && resource.name == "namespaces" {
            self.namespaces += 1;
            return;
        }
        self.objects += 1;
        for cluster in Placement::of(item).names() {
            *self.placed.entry(cluster.to_string()).or_default() += 1;
        }
    }

    /// Whether the deletion has effects beyond the workspace itself, which the user must confirm.
    pub fn needs_confirmation(&self) -> bool {
        self.workspaces > 0 || !self.placed.is_empty() || self.is_partial
    }

    pub fn announcement(&self, path: &str) -> String {
        let number = |count: usize, what: &str| pluralize(u64::try_from(count).unwrap_or(u64::MAX), what);
        let below = match self.workspaces {
            0 => String::new(),
            count => format!(" and {} below it", number(count, "workspace")),
        };
        let least = if self.is_partial { "at least " } else { "" };
        let mut text = format!(
            "Deleting {path} deletes it{below}, with {least}{} and {}.",
            number(self.namespaces, "namespace"),
            number(self.objects, "object"),
        );
        if !self.placed.is_empty() {
            let placed: Vec<String> =
                self.placed.iter().map(|(cluster, count)| format!("{count} on {cluster}")).collect();
            text.push_str(&format!("\nPlaced on clusters, and deleted there: {}.", placed.join(", ")));
        }
        text
    }
}

fn is_forbidden(problem: &Problem) -> bool {
    problem.is("Forbidden") || problem.is("Unauthorized")
}

/// Whether objects of a resource are counted: not events and reports, and workspaces are counted separately.
fn is_counted(resource: &ApiResource) -> bool {
    !matches!(
        (resource.group.as_str(), resource.name.as_str()),
        ("" | "events.k8s.io", "events") | ("atoll.dev", "workspaces" | "objectstatuses")
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn contents_are_counted_and_announced() {
        let resource = |group: &str, name: &str| ApiResource {
            group: group.into(),
            name: name.into(),
            ..ApiResource::default()
        };
        let placed = json!({ "metadata": { "resourceVersion": "7", "annotations": {
            "atoll.dev/placement": r#"{"clusters":[{"name":"east"}],"leaving":["west"]}"#,
        } } });
        let mut contents = WorkspaceContents { workspaces: 2, ..WorkspaceContents::default() };
        contents.add(&resource("", "namespaces"), &json!({ "metadata": { "resourceVersion": "1" } }));
        contents.add(&resource("", "namespaces"), &placed);
        contents.add(&resource("apps", "deployments"), &placed);
        contents.add(&resource("", "configmaps"), &json!({ "metadata": { "resourceVersion": "8" } }));
        assert_eq!(
            contents.announcement("root:team"),
            "Deleting root:team deletes it and 2 workspaces below it, with 1 namespace and 2 objects.\n\
             Placed on clusters, and deleted there: 1 on east, 1 on west."
        );
        assert!(contents.needs_confirmation());
        let plain = WorkspaceContents { objects: 3, ..WorkspaceContents::default() };
        assert!(!plain.needs_confirmation());
        let plain = WorkspaceContents { is_partial: true, ..plain };
        assert!(plain.needs_confirmation(), "workspaces below it may be hidden");
        assert_eq!(
            plain.announcement("root:a"),
            "Deleting root:a deletes it, with at least 0 namespaces and 3 objects."
        );
        for (group, name, expected) in
            [("", "events", false), ("atoll.dev", "workspaces", false), ("", "secrets", true)]
        {
            assert_eq!(is_counted(&resource(group, name)), expected, "{group}/{name}");
        }
    }
}

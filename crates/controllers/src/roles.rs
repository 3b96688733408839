//! ClusterRoles that gather their rules from others get them, whenever one of a workspace's own changes.

use std::sync::Arc;

use atoll_client::{Client, PatchType, WatchEvent};
use atoll_meta::aggregation::{aggregated, differs};
use atoll_meta::{Status, object};
use serde_json::{Value, json};

use crate::retry::{Outcome, Queue};
use crate::{WORKSPACE, watching};
use atoll_informer::Tree;

const ROLES: &str = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
const MANAGER: &str = "clusterrole-aggregation-controller";
/// Workspaces that are looked after together.
const AT_ONCE: usize = 8;

pub async fn run(client: Client, tree: Arc<Tree>) {
    let shared = Arc::new(Shared { client: client.clone(), tree });
    let queue = Queue::start(AT_ONCE, move |workspace: String| {
        let shared = shared.clone();
        async move { shared.gather(&workspace).await }
    });
    // What every workspace is born with has gathered already, and shows only where something was written.
    let path = format!("/clusters/*{ROLES}?watch=true&allowWatchBookmarks=true");
    watching::forever(&client, &path, "cluster roles", |event| {
        if let WatchEvent::Added(role) | WatchEvent::Modified(role) | WatchEvent::Deleted(role) = event
            && let Some(workspace) = object::annotation(&role, WORKSPACE)
        {
            queue.add(workspace.into());
        }
    })
    .await;
}

struct Shared {
    client: Client,
    tree: Arc<Tree>,
}

impl Shared {
    async fn gather(&self, workspace: &str) -> Outcome {
        // A workspace may be heard of after what is in it.
        let Some(path) = self.tree.path(workspace) else { return Outcome::Again };
        match self.try_gather(&path).await {
            Ok(()) => Outcome::Done,
            // It is on its way out, or gone.
            Err(status) if matches!(status.reason(), "NotFound" | "Forbidden") => Outcome::Done,
            Err(status) => {
                tracing::warn!(%status, workspace = path, "cluster roles could not be gathered; trying again");
                Outcome::Again
            }
        }
    }

    /// One step: what gathers from such that gather is seen to when those have changed.
    async fn try_gather(&self, workspace: &str) -> Result<(), Status> {
        let roles = format!("/clusters/{workspace}{ROLES}");
        let listed = self.client.get(&roles).await?;
        let all = listed["items"].as_array().map_or(&[][..], Vec::as_slice);
        for role in all {
            let name = object::name(role);
            match aggregated(role, all) {
                Ok(Some(rules)) if differs(role, &rules) => self.apply(&roles, name, &rules).await?,
                Ok(_) => {}
                Err(error) => {
                    tracing::warn!(error, workspace, role = name, "a cluster role cannot gather its rules");
                }
            }
        }
        Ok(())
    }

    async fn apply(&self, roles: &str, name: &str, rules: &[Value]) -> Result<(), Status> {
        let path = format!("{roles}/{}?fieldManager={MANAGER}&force=true", encoded(name));
        let config = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRole",
            "metadata": { "name": name },
            "rules": rules,
        });
        self.client.patch(&path, PatchType::Apply, &config).await.map(drop)
    }
}

/// Names of roles may have characters that mean something in a URL.
fn encoded(name: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~:".contains(&byte);
    let mut out = String::with_capacity(name.len());
    for byte in name.bytes() {
        if plain(byte) {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

#[cfg(test)]
#[test]
fn names_become_parts_of_urls() {
    assert_eq!(encoded("system:view"), "system:view");
    assert_eq!(encoded("a b?c#d%\u{e9}"), "a%20b%3Fc%23d%25%C3%A9");
}

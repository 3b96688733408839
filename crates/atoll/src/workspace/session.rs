//! A connection to the control plane, and the current workspace of its context.

pub use atoll_client::path::encoded;
use atoll_meta::object;
use http::Method;
use serde_json::Value;

use crate::advice::{Failure, closest_match, invocation, join_names};
use crate::command::Connection;
use crate::kubeconfig::Kubeconfig;
use atoll_joining::client::{Client, Problem};

pub const ROOT: &str = "root";
pub const WORKSPACES: &str = "/apis/atoll.dev/v1alpha1/workspaces";

pub struct Session {
    pub config: Kubeconfig,
    pub client: Client,
    pub current: String,
}

impl Session {
    pub fn open(connection: &Connection) -> Result<Self, Failure> {
        let config = Kubeconfig::load(connection)?;
        let client = Client::new(&config.context()?)?;
        let current = match client.base.strip_prefix("/clusters/") {
            Some(path) => path.to_string(),
            None if client.base.is_empty() => ROOT.to_string(),
            None => {
                return Err(Failure::new(
                    format!("{}{} is not an Atoll workspace", client.origin, client.base),
                    "choose a context of an Atoll control plane with --context",
                ));
            }
        };
        Ok(Session { config, client, current })
    }

    pub async fn call(
        &self,
        method: Method,
        workspace: &str,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Value, Problem> {
        self.client.call(method, &format!("/clusters/{}{path}", encoded(workspace)), body).await
    }

    /// Lists the children of a workspace.
    pub async fn children(&self, workspace: &str) -> Result<Value, Problem> {
        self.call(Method::GET, workspace, WORKSPACES, None).await
    }

    /// The names of the children of a workspace.
    pub async fn child_names(&self, workspace: &str) -> Result<Vec<String>, Problem> {
        let list = self.children(workspace).await?;
        let items = list["items"].as_array().into_iter().flatten();
        Ok(items.map(|item| object::name(item).to_string()).collect())
    }

    /// Resolves a path argument: absolute, relative to the current workspace, `..`, `.` or `-`.
    pub async fn resolve(&self, path: &str) -> Result<String, Failure> {
        match path {
            ".." => match self.current.rsplit_once(':') {
                Some((parent, _)) => Ok(parent.to_string()),
                None => {
                    let next = format!("list the workspaces with: {} workspace tree", invocation());
                    Err(Failure::new("root has no parent", next))
                }
            },
            "-" => match self.config.previous_workspace() {
                Some(previous) => Ok(previous.to_string()),
                None => Err(Failure::new("there is no previous workspace", self.workspace_hint().await)),
            },
            "." => Ok(self.current.clone()),
            path if path == ROOT || path.starts_with("root:") => Ok(path.to_string()),
            child => Ok(format!("{}:{child}", self.current)),
        }
    }

    /// The hint for entering a workspace near the current one.
    async fn workspace_hint(&self) -> String {
        let below = self.child_names(&self.current).await.unwrap_or_default();
        let child = below.first().map(|name| format!("{}:{name}", self.current));
        let parent = || self.current.rsplit_once(':').map(|(parent, _)| parent.to_string());
        match child.or_else(parent) {
            Some(path) => format!("enter one by its path, as in: {} workspace use {path}", invocation()),
            None => format!(
                "{} is the only workspace; for creating one, see: {} workspace create --help",
                self.current,
                invocation()
            ),
        }
    }

    /// The failure for a missing workspace; the hint suggests an existing one.
    pub async fn not_found(&self, path: &str, problem: Problem) -> Failure {
        let Problem::Refused(status) = &problem else { return problem.into() };
        if status.reason() != "NotFound" {
            return problem.into();
        }
        let mut failure = Failure::refused(status);
        let mut names = path.split(':');
        let mut known = names.next().unwrap_or(ROOT).to_string();
        for name in names {
            let Ok(siblings) = self.child_names(&known).await else { break };
            if siblings.iter().any(|sibling| sibling == name) {
                known = format!("{known}:{name}");
                continue;
            }
            failure.hint = Some(suggestion(&known, name, &siblings));
            break;
        }
        failure
    }
}

/// The hint for a missing workspace `name` below `known`.
fn suggestion(known: &str, name: &str, siblings: &[String]) -> String {
    let siblings: Vec<&str> = siblings.iter().map(String::as_str).collect();
    match closest_match(name, siblings.iter().copied()) {
        Some(near) => format!("did you mean {known}:{near}?"),
        None if siblings.is_empty() => {
            format!(
                "{known} has no workspaces; create one in it with: {} workspace create NAME",
                invocation()
            )
        }
        None => format!("{known} has {}", join_names(&siblings)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hints_suggest_existing_workspaces() {
        let cases: [(&[&str], &str); 3] = [
            (&["east", "west"], "did you mean root:data:east?"),
            (&["north"], "root:data has north"),
            (&[], "root:data has no workspaces; create one in it with: atoll workspace create NAME"),
        ];
        for (siblings, expected) in cases {
            let siblings: Vec<String> = siblings.iter().map(|name| (*name).to_string()).collect();
            assert_eq!(suggestion("root:data", "eest", &siblings), expected);
        }
    }
}

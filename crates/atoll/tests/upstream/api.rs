//! The API client of scenarios: failures are errors with a reason, and waiting times out.

use std::time::{Duration, Instant};

use atoll_testkit::{ApiResponse, Client};
use serde_json::{Value, json};

use crate::cluster::Cluster;

/// The timeout for a single condition.
const TIMEOUT: Duration = Duration::from_secs(240);
/// The polling interval. Many scenarios poll at the same time.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// A client for one namespace.
pub struct Api<'c> {
    pub client: Client,
    pub namespace: &'static str,
    cluster: &'c Cluster,
}

pub type ScenarioResult = Result<(), String>;

impl<'c> Api<'c> {
    /// Creates the namespace.
    pub async fn within(cluster: &'c Cluster, namespace: &'static str) -> Result<Api<'c>, String> {
        let api = Api { client: cluster.client(), namespace, cluster };
        let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
        api.create("/api/v1/namespaces", object).await?;
        // Pods need it.
        api.until("the default ServiceAccount", "serviceaccounts/default", |_| true).await?;
        Ok(api)
    }

    /// Returns a client for cluster-scoped objects.
    pub fn cluster_scoped(cluster: &'c Cluster) -> Api<'c> {
        Api { client: cluster.client(), namespace: "default", cluster }
    }

    /// Returns the path of `pods/a` or `apps/v1 deployments/a` in this namespace. Paths with a leading slash
    /// are returned unchanged.
    pub fn path(&self, resource: &str) -> String {
        match resource.split_once(' ') {
            _ if resource.starts_with('/') => resource.to_owned(),
            Some((version, rest)) => format!("/apis/{version}/namespaces/{}/{rest}", self.namespace),
            None => format!("/api/v1/namespaces/{}/{resource}", self.namespace),
        }
    }

    pub async fn create(&self, resource: &str, object: Value) -> Result<Value, String> {
        let path = self.path(resource);
        checked(&format!("POST {path}"), self.client.post(&path, &object).await)
    }

    pub async fn merge(&self, resource: &str, patch: Value) -> Result<Value, String> {
        let path = self.path(resource);
        checked(&format!("PATCH {path}"), self.client.patch(&path, "merge", &patch).await)
    }

    /// Deletes an object with a propagation policy.
    pub async fn delete(&self, resource: &str, policy: &str) -> Result<Value, String> {
        let path = format!("{}?propagationPolicy={policy}", self.path(resource));
        checked(&format!("DELETE {path}"), self.client.delete(&path).await)
    }

    pub async fn get(&self, resource: &str) -> Result<Value, String> {
        let path = self.path(resource);
        checked(&format!("GET {path}"), self.client.get(&path).await)
    }

    /// Returns the items of a list.
    pub async fn items(&self, resource: &str) -> Result<Vec<Value>, String> {
        Ok(self.get(resource).await?["items"].as_array().cloned().unwrap_or_default())
    }

    /// Polls an object until a condition holds.
    pub async fn until(
        &self,
        what: &str,
        resource: &str,
        condition: impl Fn(&Value) -> bool,
    ) -> Result<Value, String> {
        let (deadline, mut ticks) = (Instant::now() + TIMEOUT, tokio::time::interval(POLL_INTERVAL));
        loop {
            ticks.tick().await;
            let seen = self.get(resource).await;
            match &seen {
                Ok(object) if condition(object) => return seen,
                _ if Instant::now() < deadline => {}
                Ok(object) => return Err(format!("timed out waiting for {what}: {}", summary(object))),
                Err(problem) => return Err(format!("timed out waiting for {what}: {problem}")),
            }
        }
    }

    /// Polls a list until this many items match.
    pub async fn until_count(
        &self,
        what: &str,
        list: &str,
        count: usize,
        fits: impl Fn(&Value) -> bool,
    ) -> ScenarioResult {
        let number = |list: &Value| {
            list["items"].as_array().map_or(0, |items| items.iter().filter(|item| fits(item)).count())
        };
        self.until(&format!("{count} {what}"), list, |list| number(list) == count).await.map(drop)
    }

    /// Polls until the object is gone.
    pub async fn until_gone(&self, resource: &str) -> ScenarioResult {
        let path = self.path(resource);
        let (deadline, mut ticks) = (Instant::now() + TIMEOUT, tokio::time::interval(POLL_INTERVAL));
        loop {
            ticks.tick().await;
            match self.client.get(&path).await {
                Ok(answer) if answer.status == 404 => return Ok(()),
                _ if Instant::now() < deadline => {}
                Ok(answer) => return Err(format!("{path} is not deleted: {}", summary(&answer.json()))),
                Err(error) => return Err(format!("{path}: {error}")),
            }
        }
    }

    /// Runs kubectl in this namespace. It must succeed.
    pub async fn kubectl(&self, line: &str) -> Result<String, String> {
        let mut command =
            self.cluster.kubectl(&format!("--request-timeout=120s -n {} {line}", self.namespace));
        let output = tokio::task::spawn_blocking(move || command.output()).await;
        let output = output.map_err(|error| error.to_string())?.map_err(|error| error.to_string())?;
        match output.status.success() {
            true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
            false => Err(format!("kubectl {line}: {}", String::from_utf8_lossy(&output.stderr).trim())),
        }
    }
}

fn checked(what: &str, answer: Result<ApiResponse, atoll_testkit::ClientError>) -> Result<Value, String> {
    match answer {
        Ok(answer) if answer.status < 300 => Ok(answer.json()),
        Ok(answer) => {
            let body = answer.json();
            let message = body["message"].as_str().map_or(answer.text(), str::to_owned);
            Err(format!("{what}: {} {message}", answer.status))
        }
        Err(error) => Err(format!("{what}: {error}")),
    }
}

/// Returns the parts of an object that are useful in an error message.
fn summary(object: &Value) -> String {
    let text = match object["items"].as_array() {
        Some(items) => format!("{} items, the first: {}", items.len(), items.first().unwrap_or(&Value::Null)),
        None => format!("spec {} status {}", object["spec"], object["status"]),
    };
    match text.char_indices().nth(1500) {
        Some((cut, _)) => format!("{}…", &text[..cut]),
        None => text,
    }
}

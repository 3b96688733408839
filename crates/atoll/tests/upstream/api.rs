//! An API client for one namespace: failures are errors with a reason, and waiting times out.

use std::time::{Duration, Instant};

use atoll_testkit::{ApiResponse, Client, Kubectl, MERGE, RequestContent};
use http::Method;
use serde_json::{Value, json};

/// The polling interval. Many scenarios poll at the same time.
pub const POLL_INTERVAL: Duration = Duration::from_millis(200);

pub struct Api {
    client: Client,
    kubectl: Option<Kubectl>,
    pub namespace: &'static str,
    /// The timeout for a single condition.
    pub timeout: Duration,
}

pub type ScenarioResult = Result<(), String>;

impl Api {
    pub fn new(client: &Client, kubectl: Option<Kubectl>, namespace: &'static str, timeout: Duration) -> Api {
        Api { client: client.keep_alive(), kubectl, namespace, timeout }
    }

    pub async fn create_namespace(&self) -> ScenarioResult {
        let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.namespace}});
        self.create("/api/v1/namespaces", object).await?;
        // Pods need it.
        self.until("the default ServiceAccount", "serviceaccounts/default", |_| true).await.map(drop)
    }

    /// Returns the path of `pods/a` or `apps/v1 deployments/a` in this namespace. Paths with a leading slash
    /// are returned unchanged.
    fn path(&self, resource: &str) -> String {
        match resource.split_once(' ') {
            _ if resource.starts_with('/') => resource.to_owned(),
            Some((version, rest)) => format!("/apis/{version}/namespaces/{}/{rest}", self.namespace),
            None => format!("/api/v1/namespaces/{}/{resource}", self.namespace),
        }
    }

    /// Sends a request and returns the response, whatever its status is.
    pub async fn send(
        &self,
        method: Method,
        resource: &str,
        body: RequestContent,
    ) -> Result<ApiResponse, String> {
        let path = self.path(resource);
        let answer = self.client.try_request(method.clone(), &path, body).await;
        answer.map_err(|error| format!("{method} {path}: {error}"))
    }

    /// Sends a request that must succeed.
    async fn request(&self, method: Method, resource: &str, body: RequestContent) -> Result<Value, String> {
        let answer = self.send(method.clone(), resource, body).await?;
        if answer.status < 300 {
            return Ok(answer.json_or_null());
        }
        let message = answer.json_or_null()["message"].as_str().map_or(answer.text(), str::to_owned);
        Err(format!("{method} {}: {} {message}", self.path(resource), answer.status))
    }

    pub async fn create(&self, resource: &str, object: Value) -> Result<Value, String> {
        self.request(Method::POST, resource, RequestContent::Json(object)).await
    }

    pub async fn merge(&self, resource: &str, patch: Value) -> Result<Value, String> {
        self.request(Method::PATCH, resource, RequestContent::Raw(MERGE, patch.to_string().into())).await
    }

    /// Deletes an object with a propagation policy.
    pub async fn delete(&self, resource: &str, policy: &str) -> Result<Value, String> {
        let resource = format!("{resource}?propagationPolicy={policy}");
        self.request(Method::DELETE, &resource, RequestContent::None).await
    }

    pub async fn get(&self, resource: &str) -> Result<Value, String> {
        self.request(Method::GET, resource, RequestContent::None).await
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
        let (deadline, mut ticks) = (Instant::now() + self.timeout, tokio::time::interval(POLL_INTERVAL));
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
        let (deadline, mut ticks) = (Instant::now() + self.timeout, tokio::time::interval(POLL_INTERVAL));
        loop {
            ticks.tick().await;
            match self.send(Method::GET, resource, RequestContent::None).await {
                Ok(answer) if answer.status == 404 => return Ok(()),
                _ if Instant::now() < deadline => {}
                Ok(answer) => {
                    return Err(format!("{resource} is not deleted: {}", summary(&answer.json_or_null())));
                }
                Err(problem) => return Err(problem),
            }
        }
    }

    /// Runs kubectl in this namespace. It must succeed. Returns `None` where kubectl is not available.
    pub async fn kubectl(&self, line: &str) -> Result<Option<String>, String> {
        let Some(kubectl) = &self.kubectl else { return Ok(None) };
        let mut command = kubectl.command(&format!("--namespace {} {line}", self.namespace));
        let output = tokio::task::spawn_blocking(move || command.output()).await;
        let output = output.map_err(|error| error.to_string())?.map_err(|error| error.to_string())?;
        match output.status.success() {
            true => Ok(Some(String::from_utf8_lossy(&output.stdout).into_owned())),
            false => Err(format!("kubectl {line}: {}", String::from_utf8_lossy(&output.stderr).trim())),
        }
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

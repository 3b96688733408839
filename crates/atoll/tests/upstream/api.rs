//! The API as scenarios use it: what cannot be done is an error with the reason, and waiting ends.

use std::time::{Duration, Instant};

use atoll_testkit::{Answer, Client};
use serde_json::{Value, json};

use crate::cluster::Cluster;

/// How long a cluster may take for one thing.
const PATIENCE: Duration = Duration::from_secs(240);
/// Between two looks: many look at once.
const PAUSE: Duration = Duration::from_millis(200);

/// In one namespace.
pub struct Api<'c> {
    pub client: Client,
    pub namespace: &'static str,
    cluster: &'c Cluster,
}

pub type Done = Result<(), String>;

impl<'c> Api<'c> {
    /// Creates the namespace.
    pub async fn within(cluster: &'c Cluster, namespace: &'static str) -> Result<Api<'c>, String> {
        let api = Api { client: cluster.client(), namespace, cluster };
        let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
        api.create("/api/v1/namespaces", object).await?;
        // Pods wait for it.
        api.until("the default ServiceAccount", "serviceaccounts/default", |_| true).await?;
        Ok(api)
    }

    /// For what is in no namespace.
    pub fn anywhere(cluster: &'c Cluster) -> Api<'c> {
        Api { client: cluster.client(), namespace: "default", cluster }
    }

    /// `pods/a` is one in this namespace, `apps/v1 deployments/a` too; anything that begins with a slash is itself.
    pub fn path(&self, place: &str) -> String {
        match place.split_once(' ') {
            _ if place.starts_with('/') => place.to_owned(),
            Some((version, rest)) => format!("/apis/{version}/namespaces/{}/{rest}", self.namespace),
            None => format!("/api/v1/namespaces/{}/{place}", self.namespace),
        }
    }

    pub async fn create(&self, place: &str, object: Value) -> Result<Value, String> {
        let path = self.path(place);
        good(&format!("POST {path}"), self.client.post(&path, &object).await)
    }

    pub async fn merge(&self, place: &str, patch: Value) -> Result<Value, String> {
        let path = self.path(place);
        good(&format!("PATCH {path}"), self.client.patch(&path, "merge", &patch).await)
    }

    /// With a propagation policy.
    pub async fn delete(&self, place: &str, policy: &str) -> Result<Value, String> {
        let path = format!("{}?propagationPolicy={policy}", self.path(place));
        good(&format!("DELETE {path}"), self.client.delete(&path).await)
    }

    pub async fn get(&self, place: &str) -> Result<Value, String> {
        let path = self.path(place);
        good(&format!("GET {path}"), self.client.get(&path).await)
    }

    /// The items of a list.
    pub async fn items(&self, place: &str) -> Result<Vec<Value>, String> {
        Ok(self.get(place).await?["items"].as_array().cloned().unwrap_or_default())
    }

    /// Looks at an object until it is as it should be.
    pub async fn until(
        &self,
        what: &str,
        place: &str,
        condition: impl Fn(&Value) -> bool,
    ) -> Result<Value, String> {
        let (deadline, mut looks) = (Instant::now() + PATIENCE, tokio::time::interval(PAUSE));
        loop {
            looks.tick().await;
            let seen = self.get(place).await;
            match &seen {
                Ok(object) if condition(object) => return seen,
                _ if Instant::now() < deadline => {}
                Ok(object) => return Err(format!("waited in vain for {what}: {}", summary(object))),
                Err(problem) => return Err(format!("waited in vain for {what}: {problem}")),
            }
        }
    }

    /// Until there are so many that fit.
    pub async fn until_count(
        &self,
        what: &str,
        list: &str,
        count: usize,
        fits: impl Fn(&Value) -> bool,
    ) -> Done {
        let number = |list: &Value| {
            list["items"].as_array().map_or(0, |items| items.iter().filter(|item| fits(item)).count())
        };
        self.until(&format!("{count} {what}"), list, |list| number(list) == count).await.map(drop)
    }

    /// Until it is gone.
    pub async fn until_gone(&self, place: &str) -> Done {
        let path = self.path(place);
        let (deadline, mut looks) = (Instant::now() + PATIENCE, tokio::time::interval(PAUSE));
        loop {
            looks.tick().await;
            match self.client.get(&path).await {
                Ok(answer) if answer.status == 404 => return Ok(()),
                _ if Instant::now() < deadline => {}
                Ok(answer) => return Err(format!("{path} does not go: {}", summary(&answer.json()))),
                Err(error) => return Err(format!("{path}: {error}")),
            }
        }
    }

    /// kubectl in this namespace; it must succeed.
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

fn good(what: &str, answer: Result<Answer, atoll_testkit::Error>) -> Result<Value, String> {
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

/// What is worth telling of an object that is not as it should be.
fn summary(object: &Value) -> String {
    let told = match object["items"].as_array() {
        Some(items) => format!("{} items, the first: {}", items.len(), items.first().unwrap_or(&Value::Null)),
        None => format!("spec {} status {}", object["spec"], object["status"]),
    };
    match told.char_indices().nth(1500) {
        Some((cut, _)) => format!("{}…", &told[..cut]),
        None => told,
    }
}

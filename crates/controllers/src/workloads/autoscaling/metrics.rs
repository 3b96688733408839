//! Reads metrics from the resource, custom and external metrics APIs.

// upstream: pkg/controller/podautoscaler/metrics/client.go

use std::time::Duration;

use atoll_informer::{ApiScope, Key, Pages, encoded};
use atoll_meta::time::{self, Timestamp};
use atoll_meta::{LabelSelector, Status, object};
use serde_json::Value;

use super::usage::{Sample, Samples, amount};
use crate::workloads::scale;

const RESOURCE_METRICS: &str = "/apis/metrics.k8s.io/v1beta1";
const CUSTOM_METRICS: &str = "/apis/custom.metrics.k8s.io";
const EXTERNAL_METRICS: &str = "/apis/external.metrics.k8s.io/v1beta1";
/// Window of a metric that does not state its own.
const WINDOW: Duration = Duration::from_secs(60);

/// Maximum number of values of an external metric.
const MAX_EXTERNAL: usize = 1000;
/// Maximum number of pods whose metrics are read for one autoscaler.
const MAX_PODS: usize = 100_000;

/// Metrics client of one autoscaler.
pub struct Metrics<'a> {
    pub api: &'a ApiScope,
    pub autoscaler: &'a Key,
}

impl Metrics<'_> {
    async fn get(&self, path: &str, request: &str) -> Result<Value, String> {
        let root =
            self.api.root(&self.autoscaler.workspace).map_err(|status| error_message(&status, request))?;
        self.api
            .client()
            .get(&format!("{root}{path}"))
            .await
            .map_err(|status| error_message(&status, request))
    }

    /// Lists metrics, with one page in memory, because a workspace may serve its own resource under this path. Returns
    /// their number and what was read of each.
    async fn list<T>(
        &self,
        path: &str,
        request: &str,
        most: usize,
        read: impl Fn(&Value) -> Option<T>,
    ) -> Result<(usize, Vec<T>), String> {
        let (mut count, mut found, mut token) = (0, Vec::new(), String::new());
        let mut pages = Pages::default();
        let root =
            self.api.root(&self.autoscaler.workspace).map_err(|status| error_message(&status, request))?;
        loop {
            let from = encoded(&token);
            let ask = |limit: usize| {
                let page = format!("{root}{path}&limit={limit}&continue={from}");
                async move { self.api.client().get(&page).await }
            };
            let page = pages.next(self.api.client(), ask).await;
            let page = page.map_err(|status| error_message(&status, request))?;
            count += items(&page).len();
            if count > most {
                return Err(format!("the response contains more than {most} metrics"));
            }
            found.extend(items(&page).iter().filter_map(&read));
            token = page["metadata"]["continue"].as_str().unwrap_or_default().to_string();
            if token.is_empty() {
                return Ok((count, found));
            }
        }
    }

    /// Returns the usage of a resource by pods, or by one container in each of them.
    pub async fn of_resource(
        &self,
        resource: &str,
        selector: &str,
        container: &str,
    ) -> Result<Samples, String> {
        let namespace = &self.autoscaler.namespace;
        let path =
            format!("{RESOURCE_METRICS}/namespaces/{namespace}/pods?labelSelector={}", encoded(selector));
        let (count, samples) = self
            .list(&path, "get pods.metrics.k8s.io", MAX_PODS, |item| of_pod(item, resource, container))
            .await
            .map_err(|problem| format!("unable to fetch metrics from resource metrics API: {problem}"))?;
        if count == 0 {
            return Err("no metrics returned from resource metrics API".into());
        }
        Ok(samples.into_iter().collect())
    }

    /// Returns the values of a custom metric of pods.
    pub async fn of_pods(&self, metric: &str, pods: &str, labels: &Value) -> Result<Samples, String> {
        let fetched = async {
            let base = self.custom_base().await?;
            let selector = LabelSelector::from_object(labels)?.to_string();
            let path = format!(
                "{base}/namespaces/{}/pods/*/{}?labelSelector={}&metricLabelSelector={}",
                self.autoscaler.namespace,
                encoded(metric),
                encoded(pods),
                encoded(&selector)
            );
            self.get(&path, &format!("get pods.custom.metrics.k8s.io *{metric}")).await
        };
        let list = fetched.await.map_err(custom_metrics_error)?;
        let items = items(&list);
        if items.is_empty() {
            return Err("no metrics returned from custom metrics API".into());
        }
        let sample = |item: &Value| {
            let name = item["describedObject"]["name"].as_str()?.to_string();
            let seconds = item["windowSeconds"].as_i64().or_else(|| item["window"].as_i64());
            let window = seconds.map_or(WINDOW, |seconds| Duration::from_secs(seconds.unsigned_abs()));
            Some((name, Sample { value: amount(&item["value"])?, at: timestamp(item), window }))
        };
        Ok(items.iter().filter_map(sample).collect())
    }

    /// Returns a custom metric of an object of the same namespace, or of the namespace itself.
    pub async fn of_object(&self, metric: &str, reference: &Value, labels: &Value) -> Result<i64, String> {
        let text = |field: &str| reference[field].as_str().unwrap_or_default();
        let (kind, name, api_version) = (text("kind"), text("name"), text("apiVersion"));
        let namespace = &self.autoscaler.namespace;
        let fetched = async {
            let base = self.custom_base().await?;
            let selector = encoded(&LabelSelector::from_object(labels)?.to_string());
            // An invalid apiVersion counts as the core group.
            let group = object::split_api_version(api_version).map_or("", |(group, _)| group);
            let place = match (kind, group) {
                ("Namespace", "") => format!("namespaces/{namespace}/metrics"),
                _ => {
                    let workspace = &self.autoscaler.workspace;
                    let found = scale::resource_of_kind(self.api, workspace, group, kind).await;
                    let resource = found.map_err(|problem| {
                        let dot = if group.is_empty() { "" } else { "." };
                        format!("unable to map kind {kind}{dot}{group} to resource: {problem}")
                    })?;
                    format!(
                        "namespaces/{namespace}/{}/{}",
                        encoded(&scale::group_resource(&resource)),
                        encoded(name)
                    )
                }
            };
            self.get(
                &format!("{base}/{place}/{}?metricLabelSelector={selector}", encoded(metric)),
                "get custom.metrics.k8s.io",
            )
            .await
        };
        let answer = fetched.await.map_err(custom_metrics_error)?;
        let [item] = items(&answer) else {
            let count = items(&answer).len();
            return Err(custom_metrics_error(format!(
                "the custom metrics API server returned {count} results when we asked for exactly one"
            )));
        };
        amount(&item["value"]).ok_or_else(|| custom_metrics_error("the metric has no value".into()))
    }

    /// Returns all values of an external metric.
    pub async fn external(&self, metric: &str, labels: &Value) -> Result<Vec<i64>, String> {
        let selector = LabelSelector::from_object(labels)?.to_string();
        let namespace = &self.autoscaler.namespace;
        let path = format!(
            "{EXTERNAL_METRICS}/namespaces/{namespace}/{}?labelSelector={}",
            encoded(metric),
            encoded(&selector)
        );
        let request = format!("get {metric}.external.metrics.k8s.io");
        let (count, values) =
            self.list(&path, &request, MAX_EXTERNAL, |item| amount(&item["value"]))
                .await
                .map_err(|problem| format!("unable to fetch metrics from external metrics API: {problem}"))?;
        if count == 0 {
            return Err("no metrics returned from external metrics API".into());
        }
        Ok(values)
    }

    /// Returns the path of the newest version of the custom metrics API that is served.
    async fn custom_base(&self) -> Result<String, String> {
        let missing = || "no custom metrics API (custom.metrics.k8s.io) registered".to_string();
        let group = self.get(CUSTOM_METRICS, "").await.map_err(|_| missing())?;
        let served = |version: &&str| {
            group["versions"].as_array().into_iter().flatten().any(|known| known["version"] == **version)
        };
        let version = ["v1beta2", "v1beta1"].into_iter().find(served).ok_or_else(missing)?;
        Ok(format!("{CUSTOM_METRICS}/{version}"))
    }
}

fn custom_metrics_error(problem: String) -> String {
    format!("unable to fetch metrics from custom metrics API: {problem}")
}

/// Appends the request to the error if the path is not served.
fn error_message(status: &Status, request: &str) -> String {
    const NOT_SERVED: &str = "the server could not find the requested resource";
    match status.message() {
        NOT_SERVED => format!("{NOT_SERVED} ({request})"),
        message => message.to_string(),
    }
}

fn items(list: &Value) -> &[Value] {
    list["items"].as_array().map_or(&[], Vec::as_slice)
}

fn timestamp(item: &Value) -> Timestamp {
    let parsed = item["timestamp"].as_str().and_then(|parsed| time::parse(parsed).ok());
    parsed.unwrap_or(Timestamp::new(0, 0))
}

fn of_pod(item: &Value, resource: &str, container: &str) -> Option<(String, Sample)> {
    let containers = item["containers"].as_array().map_or(&[][..], Vec::as_slice);
    let usage = |container: &Value| amount(&container["usage"][resource]);
    let value = match container {
        "" if containers.is_empty() => return None,
        "" => containers.iter().map(usage).sum::<Option<i64>>()?,
        name => usage(containers.iter().find(|container| container["name"] == name)?)?,
    };
    let window = item["window"].as_str().and_then(duration).unwrap_or_default();
    Some((object::name(item).to_string(), Sample { value, at: timestamp(item), window }))
}

/// Parses a Go duration such as `1m30.5s`.
fn duration(text: &str) -> Option<Duration> {
    let nanos = time::parse_duration(text)?;
    u64::try_from(nanos).ok().map(Duration::from_nanos)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn durations_are_read_as_go_writes_them() {
        for (text, expected) in [
            ("30s", Some(30_000)),
            ("1m30.5s", Some(90_500)),
            ("250ms", Some(250)),
            ("1h0m0s", Some(3_600_000)),
            ("0", Some(0)),
            ("x", None),
            ("30", None),
        ] {
            assert_eq!(duration(text), expected.map(Duration::from_millis), "{text}");
        }
    }

    #[test]
    fn pod_usage_is_the_sum_of_its_containers() {
        let item = json!({
            "metadata": {"name": "p"}, "timestamp": "2026-01-01T00:00:00Z", "window": "30s",
            "containers": [{"name": "a", "usage": {"cpu": "250m"}}, {"name": "b", "usage": {"cpu": "1", "memory": "1Ki"}}],
        });
        for (resource, container, expected) in [
            ("cpu", "", Some(1250)),
            ("cpu", "a", Some(250)),
            ("memory", "", None),
            ("memory", "b", Some(1_024_000)),
            ("cpu", "x", None),
        ] {
            let value = of_pod(&item, resource, container).map(|(_, sample)| sample.value);
            assert_eq!(value, expected, "{resource} of {container}");
        }
    }
}

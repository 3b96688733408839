//! Resources of a server, and their names: plural, singular, kind or short name, as in kubectl.

// upstream: staging/src/k8s.io/cli-runtime/pkg/resource/builder.go
// upstream: staging/src/k8s.io/client-go/restmapper/shortcut.go

use atoll_client::path;
use atoll_fleet::placement::is_never_placed;
use atoll_fleet::view::{self, ObjectTarget};
use serde_json::Value;

use crate::advice::closest_match;

/// Media types of aggregated discovery; servers before 1.30 only support the second.
pub const ACCEPT: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,\
application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList";

/// Paths of the discovery documents, in the order of lookup.
pub const DOCUMENTS: [&str; 2] = ["/api", "/apis"];

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ApiResource {
    pub group: String,
    pub version: String,
    /// The plural name.
    pub name: String,
    pub singular: String,
    pub kind: String,
    pub short_names: Vec<String>,
    pub namespaced: bool,
    pub verbs: Vec<String>,
    /// Whether its objects can be placed on clusters.
    pub placeable: bool,
}

impl ApiResource {
    /// The target of an object, as used in the sync view.
    pub fn target(&self, workspace: &str, namespace: &str, name: &str, uid: &str) -> ObjectTarget {
        let resource = view::SyncResource {
            group: self.group.clone(),
            version: self.version.clone(),
            resource: self.name.clone(),
            kind: self.kind.clone(),
            namespaced: self.namespaced,
        };
        let [workspace, namespace, name, uid] = [workspace, namespace, name, uid].map(str::to_string);
        ObjectTarget { resource, workspace, namespace, name, uid }
    }
}

/// The resources in a document, preferred versions first.
pub fn read(document: &Value) -> Vec<ApiResource> {
    let list = |value: &'_ Value| value.as_array().cloned().unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_string();
    let texts = |value: &Value| list(value).iter().map(text).collect();
    let mut found = Vec::new();
    for group in list(&document["items"]) {
        for version in list(&group["versions"]) {
            found.extend(list(&version["resources"]).iter().map(|resource| ApiResource {
                group: text(&group["metadata"]["name"]),
                version: text(&version["version"]),
                name: text(&resource["resource"]),
                singular: text(&resource["singularResource"]),
                kind: text(&resource["responseKind"]["kind"]),
                short_names: texts(&resource["shortNames"]),
                namespaced: resource["scope"] == "Namespaced",
                verbs: texts(&resource["verbs"]),
                placeable: !is_never_placed(&text(&group["metadata"]["name"]), &text(&resource["resource"]))
                    && list(&resource["verbs"]).iter().any(|verb| verb == "update"),
            }));
        }
    }
    found
}

/// Resolves a resource argument: `deploy`, `Deployment`, `deployments.apps`, `deployments.v1.apps`.
pub fn resolve<'a>(resources: &'a [ApiResource], word: &str) -> Option<&'a ApiResource> {
    let word = word.to_lowercase();
    let (name, rest) = word.split_once('.').unwrap_or((&word, ""));
    let fits = |resource: &ApiResource| match rest {
        "" => true,
        rest if resource.group == rest => true,
        rest => rest.split_once('.').map_or(resource.group.is_empty() && resource.version == rest, |parts| {
            parts == (resource.version.as_str(), resource.group.as_str())
        }),
    };
    let by_name = |resource: &&ApiResource| {
        fits(resource)
            && (resource.name == name || resource.singular == name || resource.kind.to_lowercase() == name)
    };
    let by_short_name =
        |resource: &&ApiResource| fits(resource) && resource.short_names.iter().any(|short| short == name);
    resources.iter().find(by_name).or_else(|| resources.iter().find(by_short_name))
}

/// The most similar resource name.
pub fn suggestion<'a>(resources: &'a [ApiResource], word: &str) -> Option<&'a str> {
    closest_match(word, resources.iter().map(|resource| resource.name.as_str()))
}

impl ApiResource {
    /// The name with its group, as kubectl prints it.
    pub fn qualified(&self) -> String {
        match self.group.as_str() {
            "" => self.name.clone(),
            group => format!("{}.{group}", self.name),
        }
    }

    /// Group and version, as in `apiVersion`.
    pub fn api_version(&self) -> String {
        match self.group.as_str() {
            "" => self.version.clone(),
            group => format!("{group}/{}", self.version),
        }
    }

    /// The path of the collection in a namespace, or in all if it is empty.
    pub fn collection(&self, namespace: &str) -> String {
        collection(&self.group, &self.version, namespace, &self.name)
    }
}

/// The path of a collection.
pub fn collection(group: &str, version: &str, namespace: &str, resource: &str) -> String {
    path::collection(group, version, namespace, resource)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn some() -> Vec<ApiResource> {
        let resource = |plural: &str, singular: &str, kind: &str, short: &[&str], scope: &str| {
            json!({
                "resource": plural, "singularResource": singular, "responseKind": { "kind": kind },
                "shortNames": short, "scope": scope, "verbs": ["get", "list"],
            })
        };
        let group =
            |name: &str, versions: Value| json!({ "metadata": { "name": name }, "versions": versions });
        let core = [
            resource("services", "service", "Service", &["svc"], "Namespaced"),
            resource("namespaces", "namespace", "Namespace", &["ns"], "Cluster"),
            resource("events", "event", "Event", &["ev"], "Namespaced"),
        ];
        let apps = [resource("deployments", "deployment", "Deployment", &["deploy"], "Namespaced")];
        let scalers = [resource(
            "horizontalpodautoscalers",
            "horizontalpodautoscaler",
            "HorizontalPodAutoscaler",
            &["hpa"],
            "Namespaced",
        )];
        let serving = [resource("services", "service", "Service", &["ksvc"], "Namespaced")];
        read(&json!({ "items": [
            group("", json!([{ "version": "v1", "resources": core }])),
            group("apps", json!([{ "version": "v1", "resources": apps }])),
            group("autoscaling", json!([
                { "version": "v2", "resources": scalers }, { "version": "v1", "resources": scalers },
            ])),
            group("serving.example.com", json!([{ "version": "v1", "resources": serving }])),
        ] }))
    }

    #[test]
    fn resources_are_resolved_by_all_their_names() {
        let resources = some();
        for (word, expected) in [
            ("deployments", "/apis/apps/v1/namespaces/n/deployments"),
            ("deployment", "/apis/apps/v1/namespaces/n/deployments"),
            ("Deployment", "/apis/apps/v1/namespaces/n/deployments"),
            ("deploy", "/apis/apps/v1/namespaces/n/deployments"),
            ("deploy.apps", "/apis/apps/v1/namespaces/n/deployments"),
            ("deployments.v1.apps", "/apis/apps/v1/namespaces/n/deployments"),
            ("svc", "/api/v1/namespaces/n/services"),
            ("services", "/api/v1/namespaces/n/services"),
            ("services.v1", "/api/v1/namespaces/n/services"),
            ("services.serving.example.com", "/apis/serving.example.com/v1/namespaces/n/services"),
            ("services.v1.serving.example.com", "/apis/serving.example.com/v1/namespaces/n/services"),
            ("ksvc", "/apis/serving.example.com/v1/namespaces/n/services"),
            ("hpa", "/apis/autoscaling/v2/namespaces/n/horizontalpodautoscalers"),
            ("hpa.v1.autoscaling", "/apis/autoscaling/v1/namespaces/n/horizontalpodautoscalers"),
        ] {
            let found = resolve(&resources, word).map(|resource| resource.collection("n"));
            assert_eq!(found.as_deref(), Some(expected), "{word}");
        }
        for word in ["", "deploys", "deployments.batch", "deployments.v2.apps", "svc.apps"] {
            assert_eq!(resolve(&resources, word), None, "{word}");
        }
        assert_eq!(suggestion(&resources, "deploymnts"), Some("deployments"));
        assert!(!resolve(&resources, "ns").expect("namespaces").namespaced);
    }
}

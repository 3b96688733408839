//! The bootstrap objects, which every workspace has from the start.

// upstream: plugin/pkg/auth/authorizer/rbac/bootstrappolicy/policy.go
// upstream: pkg/controlplane/instance.go
// upstream: pkg/controlplane/controller/kubernetesservice/controller.go

use std::net::SocketAddr;

use atoll_merge::apply::Author;
use atoll_meta::aggregation::{aggregate_rules, differs};
use atoll_watch::{Facts, Layer};
use bytes::Bytes;
use serde_json::{Value, json};

use crate::catalog::{ATOLL, Catalog};
use crate::row::Row;
use crate::services::Network;
use crate::{facts, reset_fields};

/// Id of the root workspace; all other workspaces have random ids.
pub const ROOT: &str = "root";

/// The user name with which the server calls kubelets. Kubelets check its permissions.
pub const KUBELET_CLIENT: &str = "kube-apiserver-kubelet-client";

/// The namespaces that upstream creates.
pub const SYSTEM_NAMESPACES: [&str; 4] = ["default", "kube-node-lease", "kube-public", "kube-system"];

/// The properties of this control plane that bootstrap objects contain.
pub struct BootstrapOptions<'a> {
    /// Time of the first start, in seconds since 1970.
    pub created: i64,
    /// The address for clients.
    pub endpoint: SocketAddr,
    pub network: &'a Network,
    /// The CA certificate of clients and the server, in PEM.
    pub authority: &'a str,
    /// Whether to include objects that upstream's controllers create: default ServiceAccounts, root CA
    /// ConfigMaps and the rules of aggregated ClusterRoles. False if another controller manager creates them.
    pub controller_objects: bool,
}

/// Builds the bootstrap layer.
pub fn layer(catalog: &Catalog, options: &BootstrapOptions<'_>) -> Layer {
    let mut layer = Layer::default();
    let objects = SYSTEM_NAMESPACES.map(namespace).into_iter().chain(kubernetes_service(options));
    let objects = objects
        .chain(namespace_objects(options))
        .chain(discovery_config_maps(options))
        .chain(common_objects())
        .chain([kubelet_api()])
        .chain(placement_roles());
    let objects: Vec<BootstrapObject> = objects.collect();
    let aggregated_rules =
        if options.controller_objects { aggregate_bootstrap_roles(&objects) } else { Vec::new() };
    for (group, resource, mut object) in objects {
        let Some(row) = catalog.stored(group, resource) else { continue };
        let created = atoll_meta::time::format(options.created);
        atoll_meta::object::set_creation_timestamp(&mut object, &created);
        let conditions = object.pointer_mut("/status/conditions").and_then(Value::as_array_mut);
        for condition in conditions.into_iter().flatten() {
            condition["lastTransitionTime"] = created.as_str().into();
        }
        atoll_meta::object::set_type(&mut object, &row.api_version(), &row.kind);
        record(row, &mut object, &created);
        if let Some((_, rules)) = aggregated_rules.iter().find(|(name, _)| is_role(resource, &object, name)) {
            object = with_rules(row, object, rules, &created);
        }
        let encoded = Bytes::from(atoll_meta::json::encode_object(&object));
        let facts = facts::of(catalog, row, &object);
        let facts = Facts { labels: facts.labels.clone(), fields: facts.fields.clone(), extra: None };
        let namespace = atoll_meta::object::namespace(&object);
        layer.add(group, resource, namespace, atoll_meta::object::name(&object), encoded, facts);
    }
    layer
}

type BootstrapObject = (&'static str, &'static str, Value);

/// The rules of each aggregated ClusterRole. Some aggregate other aggregated ClusterRoles.
fn aggregate_bootstrap_roles(objects: &[BootstrapObject]) -> Vec<(String, Value)> {
    let mut roles: Vec<Value> = objects
        .iter()
        .filter(|(_, resource, _)| *resource == "clusterroles")
        .map(|(_, _, object)| object.clone())
        .collect();
    let mut aggregated_rules: Vec<(String, Value)> = Vec::new();
    // Each round moves rules one step, and no chain is longer than the number of roles.
    for _ in 0..roles.len() {
        let mut settled = true;
        for position in 0..roles.len() {
            let Ok(Some(rules)) = aggregate_rules(&roles[position], &roles) else { continue };
            if !differs(&roles[position], &rules) {
                continue;
            }
            settled = false;
            let name = atoll_meta::object::name(&roles[position]).to_string();
            roles[position]["rules"] = rules.clone().into();
            aggregated_rules.retain(|(known, _)| *known != name);
            aggregated_rules.push((name, rules.into()));
        }
        if settled {
            break;
        }
    }
    aggregated_rules
}

fn is_role(resource: &str, object: &Value, name: &str) -> bool {
    resource == "clusterroles" && atoll_meta::object::name(object) == name
}

/// Applies aggregated rules as the aggregation controller does.
fn with_rules(row: &Row, role: Value, rules: &Value, created: &str) -> Value {
    let (manager, subresource) = ("clusterrole-aggregation-controller", "");
    let author = Author { manager, subresource, time: created, resets: reset_fields::of(row, subresource) };
    let mut config = json!({ "metadata": { "name": atoll_meta::object::name(&role) }, "rules": rules });
    atoll_meta::object::set_type(&mut config, &row.api_version(), &row.kind);
    row.managed.apply(&role, &config, &author, true).unwrap_or(role)
}

/// The objects that are the same in every upstream cluster.
fn common_objects() -> impl Iterator<Item = BootstrapObject> {
    include_str!("../data/bootstrap.txt").lines().filter_map(|line| {
        let (resource, object) = line.split_once(' ')?;
        let (resource, group) = resource.split_once('.')?;
        Some((group, resource, serde_json::from_str(object).ok()?))
    })
}

/// The binding that lets the server call kubelets. Upstream has the role and leaves the binding to
/// installers.
fn kubelet_api() -> BootstrapObject {
    const GROUP: &str = "rbac.authorization.k8s.io";
    let binding = json!({
        "metadata": { "name": "atoll:kubelet-api-admin" },
        "roleRef": { "apiGroup": GROUP, "kind": "ClusterRole", "name": "system:kubelet-api-admin" },
        "subjects": [{ "apiGroup": GROUP, "kind": "User", "name": KUBELET_CLIENT }],
    });
    (GROUP, "clusterrolebindings", binding)
}

/// The permissions on placement policies of upstream's roles for namespaces: `view` reads them, and `admin`
/// writes those of its namespace. The verb `override` belongs to neither.
fn placement_roles() -> [BootstrapObject; 2] {
    const GROUP: &str = "rbac.authorization.k8s.io";
    let role = |to: &str, resources: &[&str], verbs: &[&str]| {
        let role = json!({
            "metadata": {
                "name": format!("atoll:aggregate-to-{to}"),
                "labels": {
                    "kubernetes.io/bootstrapping": "rbac-defaults",
                    format!("rbac.authorization.k8s.io/aggregate-to-{to}"): "true",
                },
            },
            "rules": [{ "apiGroups": [ATOLL], "resources": resources, "verbs": verbs }],
        });
        (GROUP, "clusterroles", role)
    };
    let read = ["placementpolicies", "placementpolicies/status", "clusterplacementpolicies"];
    let write = ["create", "delete", "deletecollection", "patch", "update"];
    [role("view", &read, &["get", "list", "watch"]), role("admin", &["placementpolicies"], &write)]
}

/// Fields that upstream's creators do not set and the system fills in afterwards.
const FILLED_IN: [(&str, &str); 3] =
    [("namespaces", "/spec/finalizers"), ("services", "/spec/clusterIPs"), ("services", "/spec/ipFamilies")];

/// Records the managed fields of an object's creator.
fn record(row: &Row, object: &mut Value, created: &str) {
    let manager = match row.resource.as_str() {
        "serviceaccounts" | "configmaps" => "kube-controller-manager",
        _ => "kube-apiserver",
    };
    let author = Author { manager, subresource: "", time: created, resets: reset_fields::of(row, "") };
    let mut set = object.clone();
    for (_, path) in FILLED_IN.iter().filter(|(resource, _)| *resource == row.resource) {
        let holder = path.rsplit_once('/').and_then(|(holder, name)| Some((set.pointer_mut(holder)?, name)));
        if let Some((Value::Object(holder), name)) = holder {
            holder.remove(name);
        }
    }
    row.managed.record(row.managed.empty(), &mut set, &author);
    if row.resource == "servicecidrs" {
        set = with_status(row, set, created);
    }
    if let Some(managed) = set["metadata"].get("managedFields") {
        object["metadata"]["managedFields"] = managed.clone();
    }
}

/// Applies the status of the ServiceCIDR as its controller does.
fn with_status(row: &Row, ranges: Value, created: &str) -> Value {
    let (manager, subresource) = ("kubernetes-service-cidr-controller", "status");
    let author = Author { manager, subresource, time: created, resets: reset_fields::of(row, subresource) };
    let mut config = json!({ "metadata": { "name": "kubernetes" }, "status": ranges["status"] });
    if let Some(condition) = config["status"]["conditions"][0].as_object_mut() {
        condition.remove("reason");
    }
    atoll_meta::object::set_type(&mut config, &row.api_version(), &row.kind);
    // The object existed before it became ready.
    let mut unready = ranges.clone();
    unready["status"] = json!({});
    row.managed.apply(&unready, &config, &author, true).unwrap_or(ranges)
}

fn namespace(name: &str) -> BootstrapObject {
    let namespace = json!({
        "metadata": { "name": name, "labels": { "kubernetes.io/metadata.name": name } },
        "spec": { "finalizers": ["kubernetes"] },
        "status": { "phase": "Active" },
    });
    ("", "namespaces", namespace)
}

/// The objects that every namespace has; a controller creates them in later namespaces.
fn namespace_objects(options: &BootstrapOptions<'_>) -> Vec<BootstrapObject> {
    if !options.controller_objects {
        return Vec::new();
    }
    let account = |namespace: &str| json!({ "metadata": { "name": "default", "namespace": namespace } });
    let trust = |namespace: &str| {
        json!({
            "metadata": { "name": "kube-root-ca.crt", "namespace": namespace },
            "data": { "ca.crt": options.authority },
        })
    };
    let accounts = SYSTEM_NAMESPACES.map(|namespace| ("", "serviceaccounts", account(namespace)));
    accounts
        .into_iter()
        .chain(SYSTEM_NAMESPACES.map(|namespace| ("", "configmaps", trust(namespace))))
        .collect()
}

/// ConfigMaps for other programs: the client CA, and the time since which the use of legacy token Secrets is
/// tracked.
fn discovery_config_maps(options: &BootstrapOptions<'_>) -> [BootstrapObject; 2] {
    let since = atoll_meta::time::format(options.created);
    let since = since.split('T').next().unwrap_or_default();
    let clients = json!({
        "metadata": { "name": "extension-apiserver-authentication", "namespace": "kube-system" },
        "data": { "client-ca-file": options.authority },
    });
    let tokens = json!({
        "metadata": {
            "name": "kube-apiserver-legacy-service-account-token-tracking",
            "namespace": "kube-system",
        },
        "data": { "since": since },
    });
    [("", "configmaps", clients), ("", "configmaps", tokens)]
}

/// The `kubernetes` Service of the workspace, with its endpoints, address and range.
fn kubernetes_service(options: &BootstrapOptions<'_>) -> Vec<BootstrapObject> {
    let Some(range) = options.network.ranges.first() else { return Vec::new() };
    let (address, family) = (range.first_usable().to_string(), range.family());
    let (endpoint, port) = (options.endpoint.ip().to_string(), options.endpoint.port());
    let endpoint_family = if options.endpoint.is_ipv4() { "IPv4" } else { "IPv6" };
    let ranges: Vec<String> = options.network.ranges.iter().map(ToString::to_string).collect();
    let own_port = json!({ "name": "https", "port": port, "protocol": "TCP" });
    let service = json!({
        "metadata": {
            "name": "kubernetes",
            "namespace": "default",
            "labels": { "component": "apiserver", "provider": "kubernetes" },
        },
        "spec": {
            "ports": [{ "name": "https", "protocol": "TCP", "port": 443, "targetPort": port }],
            "clusterIP": address,
            "clusterIPs": [address],
            "type": "ClusterIP",
            "sessionAffinity": "None",
            "ipFamilies": [family],
            "ipFamilyPolicy": "SingleStack",
            "internalTrafficPolicy": "Cluster",
        },
        "status": { "loadBalancer": {} },
    });
    let endpoints = json!({
        "metadata": {
            "name": "kubernetes",
            "namespace": "default",
            "labels": { "endpointslice.kubernetes.io/skip-mirror": "true" },
        },
        "subsets": [{ "addresses": [{ "ip": endpoint }], "ports": [own_port] }],
    });
    let slice = json!({
        "metadata": {
            "name": "kubernetes",
            "namespace": "default",
            "generation": 1,
            "labels": { "kubernetes.io/service-name": "kubernetes" },
        },
        "addressType": endpoint_family,
        "endpoints": [{ "addresses": [endpoint], "conditions": { "ready": true } }],
        "ports": [own_port],
    });
    let held = json!({
        "metadata": {
            "name": address,
            "labels": {
                "ipaddress.kubernetes.io/ip-family": family,
                "ipaddress.kubernetes.io/managed-by": "ipallocator.k8s.io",
            },
        },
        "spec": { "parentRef": { "resource": "services", "namespace": "default", "name": "kubernetes" } },
    });
    let ready = json!({
        "type": "Ready",
        "status": "True",
        "reason": "",
        "message": "Kubernetes default Service CIDR is ready",
    });
    let own_ranges = json!({
        "metadata": { "name": "kubernetes" },
        "spec": { "cidrs": ranges },
        "status": { "conditions": [ready] },
    });
    vec![
        ("", "services", service),
        ("", "endpoints", endpoints),
        ("discovery.k8s.io", "endpointslices", slice),
        ("networking.k8s.io", "ipaddresses", held),
        ("networking.k8s.io", "servicecidrs", own_ranges),
    ]
}

//! Pods in clusters reach the API of their workspace: with a token that is renewed, and only where they can reach the
//! address of the control plane.

use std::net::{IpAddr, SocketAddr, UdpSocket};

use atoll_testkit::wait::eventually;
use atoll_testkit::{Client, Setup};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::health::{EAST, condition};
use crate::{Fleet, Mode, create, object, wait_for, wait_until_deleted};

const SHOP: &str = "/api/v1/namespaces/shop";
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/shop/deployments";
const SELF: &str = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1/namespaces/shop";
/// Seconds; long enough to use a token before it expires.
const LIFETIME: u32 = 10;
const TYPE: &str = "atoll.dev/service-account-token";
const WEB: &str = "system:serviceaccount:shop:web";

/// Returns an address of this machine that other machines may reach.
fn own_address() -> Option<IpAddr> {
    let socket = UdpSocket::bind("0.0.0.0:0").ok()?;
    // An address reserved for documentation, which is routed like any other.
    socket.connect("192.0.2.1:9").ok()?;
    Some(socket.local_addr().ok()?.ip()).filter(|address| !address.is_loopback())
}

fn deployment(name: &str, annotations: Value) -> Value {
    let container = json!({ "name": "main", "image": "nginx" });
    let template = json!({
        "metadata": { "labels": { "app": name }, "annotations": annotations },
        "spec": { "serviceAccountName": "web", "containers": [container] },
    });
    let spec = json!({ "replicas": 1, "selector": { "matchLabels": { "app": name } }, "template": template });
    object("apps/v1", "Deployment", name, json!({ "spec": spec }))
}

/// Returns the Deployment of this name in the cluster, in any namespace.
async fn deployment_below(below: &Client, name: &str) -> Value {
    let mut found = Value::Null;
    eventually(&format!("{name} arrives"), async || {
        let list = below.get("/apis/apps/v1/deployments").await.expect(200);
        let mut items = list["items"].as_array().unwrap().iter();
        found = items.find(|item| item["metadata"]["name"] == name).cloned().unwrap_or_default();
        found.is_object()
    })
    .await;
    found
}

/// Returns the access Secrets of a cluster.
async fn access_secrets(client: &Client) -> Vec<Value> {
    let list = client.get(&format!("/api/v1/secrets?fieldSelector=type={TYPE}")).await.expect(200);
    list["items"].as_array().unwrap().clone()
}

fn decoded(secret: &Value, key: &str) -> String {
    String::from_utf8(STANDARD.decode(secret["data"][key].as_str().unwrap_or_default()).unwrap()).unwrap()
}

fn environment(container: &Value, name: &str) -> Value {
    let variables = container["env"].as_array().into_iter().flatten();
    variables
        .into_iter()
        .find(|variable| variable["name"] == name)
        .map_or(Value::Null, |one| one["value"].clone())
}

/// Waits until the token in the cluster is of the account, and is not `other`. Returns it.
async fn working_token(above: &Client, below: &Client, other: &str) -> String {
    let mut token = String::new();
    eventually("a token of the account works", async || {
        token =
            access_secrets(below).await.first().map(|secret| decoded(secret, "token")).unwrap_or_default();
        if token.is_empty() || token == other {
            return false;
        }
        // As clients in Pods do: without a workspace in the URL.
        let answer = above.token(&token).post(SELF, json!({})).await;
        answer.status == 201 && answer.json()["status"]["userInfo"]["username"] == WEB
    })
    .await;
    token
}

async fn pods_use_the_api_of_their_workspace(mode: Mode) {
    let Some(address) = own_address() else {
        println!("skipped: this machine has no address but loopback");
        return;
    };
    let setup = Setup::new().listen(SocketAddr::new(address, 0)).flag("--pod-token-lifetime", LIFETIME);
    let fleet = Fleet::start_with(setup, mode, &["east"]);
    let (root, below) = (fleet.admin(), fleet.clusters[0].admin());
    fleet.atoll.run("workspace create team");
    let above = root.workspace("root:team");
    create(&above, "/api/v1/namespaces", object("v1", "Namespace", "shop", json!({}))).await;
    create(&above, &format!("{SHOP}/serviceaccounts"), object("v1", "ServiceAccount", "web", json!({})))
        .await;
    create(&above, DEPLOYMENTS, deployment("web", json!({}))).await;
    let of_cluster = deployment("other", json!({ "atoll.dev/api": "cluster" }));
    create(&above, DEPLOYMENTS, of_cluster).await;
    let invalid = above
        .post(&format!("{DEPLOYMENTS}?dryRun=All"), deployment("x", json!({ "atoll.dev/api": "x" })))
        .await;
    invalid.expect(201);
    let warning = invalid.header("warning").unwrap_or_default();
    assert!(warning.contains("atoll.dev/api") && warning.contains("is ignored"), "{warning}");
    wait_for("Pods reach the API", &root, EAST, |east| condition(east, "PodsReachApi").1 == "Direct").await;

    // The template and its Pods.
    let found = deployment_below(&below, "web").await;
    let (namespace, spec) =
        (found["metadata"]["namespace"].as_str().unwrap(), &found["spec"]["template"]["spec"]);
    assert_ne!(namespace, "shop");
    let container = &spec["containers"][0];
    assert_eq!(environment(container, "KUBERNETES_SERVICE_HOST"), address.to_string());
    assert_eq!(environment(container, "KUBERNETES_SERVICE_PORT"), fleet.atoll.address.port().to_string());
    assert_eq!(spec["automountServiceAccountToken"], false);
    let pods = format!("/api/v1/namespaces/{namespace}/pods?labelSelector=app=web");
    wait_for("a Pod runs", &below, &pods, |pods| pods["items"][0]["status"]["phase"] == "Running").await;
    let pod = below.get(&pods).await.expect(200)["items"][0].clone();
    assert_eq!(pod["spec"]["volumes"].as_array().unwrap().len(), 1, "{pod:#}");
    let mount = &pod["spec"]["containers"][0]["volumeMounts"][0];
    assert_eq!(mount["mountPath"], "/var/run/secrets/kubernetes.io/serviceaccount");

    // The Secret.
    let token = working_token(&root, &below, "").await;
    let secrets = access_secrets(&below).await;
    assert_eq!(secrets.len(), 1);
    let secret = &secrets[0];
    assert_eq!(pod["spec"]["volumes"][0]["secret"]["secretName"], secret["metadata"]["name"]);
    assert_eq!(
        (secret["metadata"]["namespace"].as_str().unwrap(), decoded(secret, "namespace").as_str()),
        (namespace, "shop")
    );
    let kubeconfig = std::fs::read_to_string(fleet.atoll.kubeconfig()).unwrap();
    assert!(kubeconfig.contains(secret["data"]["ca.crt"].as_str().unwrap()), "another authority");
    let path =
        format!("/api/v1/namespaces/{namespace}/secrets/{}", secret["metadata"]["name"].as_str().unwrap());
    working_token(&root, &below, &token).await;

    // Workloads that use the API of their cluster.
    let other = deployment_below(&below, "other").await;
    let spec = &other["spec"]["template"]["spec"];
    assert_eq!((&spec["volumes"], &spec["containers"][0]["env"]), (&Value::Null, &Value::Null));

    // Nothing of it is above, and no orphan below.
    assert_eq!(access_secrets(&above).await, Vec::<Value>::new());
    let statuses = above.get("/apis/atoll.dev/v1alpha1/namespaces/shop/objectstatuses").await.expect(200);
    let mut statuses = statuses["items"].as_array().unwrap().iter();
    assert!(statuses.all(|one| one["spec"]["resource"]["resource"] != "secrets"));
    assert!(fleet.atoll.run("orphans list").starts_with("No orphans"));

    // Rights stay in the control plane, unless the cluster allows controllers.
    let role = json!({ "rules": [{ "apiGroups": [""], "resources": ["configmaps"], "verbs": ["list"] }] });
    create(&above, &format!("{RBAC}/roles"), object("rbac.authorization.k8s.io/v1", "Role", "r", role)).await;
    let binding = json!({
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r" },
        "subjects": [{ "kind": "ServiceAccount", "name": "web", "namespace": "shop" }],
    });
    let binding = object("rbac.authorization.k8s.io/v1", "RoleBinding", "b", binding);
    create(&above, &format!("{RBAC}/rolebindings"), binding).await;
    wait_for("the token is withdrawn", &below, &path, |secret| secret["data"].get("token").is_none()).await;
    root.merge(EAST, json!({ "spec": { "controllers": "allow" } })).await.expect(200);
    let token = working_token(&root, &below, "").await;
    let pod = root.token(&token);
    pod.get(&format!("{SHOP}/configmaps")).await.expect(200);
    pod.get(&format!("{SHOP}/secrets")).await.expect_status(403, "Forbidden");

    // Without a workload that needs it, there is no Secret.
    above.delete(&format!("{DEPLOYMENTS}/web")).await.expect(200);
    wait_until_deleted(&below, &path).await;
    deployment_below(&below, "other").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_use_the_api_of_their_workspace_with_push() {
    pods_use_the_api_of_their_workspace(Mode::Push).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_use_the_api_of_their_workspace_with_an_agent() {
    pods_use_the_api_of_their_workspace(Mode::None).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_start_where_they_cannot_reach_the_control_plane() {
    let fleet = Fleet::start(Mode::Push, &["east"]);
    let (above, below) = (fleet.admin(), fleet.clusters[0].admin());
    wait_for("the address is known", &above, EAST, |east| {
        condition(east, "PodsReachApi").1 == "LoopbackAddress"
    })
    .await;
    let (status, _, message) = condition(&above.get(EAST).await.expect(200), "PodsReachApi");
    assert!(status == "False" && message.contains("--advertise-address"), "{message}");
    create(&above, "/api/v1/namespaces", object("v1", "Namespace", "shop", json!({}))).await;
    create(&above, &format!("{SHOP}/serviceaccounts"), object("v1", "ServiceAccount", "web", json!({})))
        .await;
    create(&above, DEPLOYMENTS, deployment("web", json!({}))).await;
    let found = deployment_below(&below, "web").await;
    let spec = &found["spec"]["template"]["spec"];
    assert_eq!((&spec["volumes"], &spec["containers"][0]["env"]), (&Value::Null, &Value::Null));
    wait_for("a Pod runs", &below, &format!("{SHOP}/pods"), |pods| {
        pods["items"][0]["status"]["phase"] == "Running"
    })
    .await;
    assert_eq!(access_secrets(&below).await, Vec::<Value>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn adopted_workloads_get_access_with_their_next_template() {
    let Some(address) = own_address() else {
        println!("skipped: this machine has no address but loopback");
        return;
    };
    let fleet = Fleet::start_with(Setup::new().listen(SocketAddr::new(address, 0)), Mode::Push, &["east"]);
    let (above, below) = (fleet.admin(), fleet.clusters[0].admin());
    create(&below, "/api/v1/namespaces", object("v1", "Namespace", "shop", json!({}))).await;
    create(&below, &format!("{SHOP}/serviceaccounts"), object("v1", "ServiceAccount", "web", json!({})))
        .await;
    create(&below, DEPLOYMENTS, deployment("web", json!({}))).await;
    let path = format!("{DEPLOYMENTS}/web");
    wait_for("it is available", &below, &path, |web| web["status"]["availableReplicas"] == 1).await;
    let before = below.get(&path).await.expect(200)["spec"]["template"].clone();
    fleet.atoll.run("adopt deployment/web -n shop --cluster east");
    above.merge(&path, json!({ "spec": { "replicas": 2 } })).await.expect(200);
    wait_for("replicas arrive", &below, &path, |web| web["spec"]["replicas"] == 2).await;
    assert_eq!(below.get(&path).await.expect(200)["spec"]["template"], before, "nothing may restart");
    let image = json!([{ "name": "main", "image": "nginx:2" }]);
    above
        .merge(&path, json!({ "spec": { "template": { "spec": { "containers": image } } } }))
        .await
        .expect(200);
    wait_for("the new template arrives", &below, &path, |web| {
        let container = &web["spec"]["template"]["spec"]["containers"][0];
        container["image"] == "nginx:2"
            && environment(container, "KUBERNETES_SERVICE_HOST") == address.to_string()
    })
    .await;
}

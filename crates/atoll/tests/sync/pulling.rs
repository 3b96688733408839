//! Agents that join with a token and sync their own cluster.

use atoll_authn::{certificate, request};
use atoll_meta::time;
use atoll_testkit::wait::eventually;
use atoll_testkit::{Atoll, Client, Setup, Signal, Watch, atoll, succeed};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::health::{EAST, condition};
use crate::joining::start_pull_agent;
use crate::{Fleet, Mode, create, object, start_cluster, wait_for, wait_until_deleted};

const CERTIFICATE: &str = "/services/sync/east/certificate";
const VIEW: &str = "/services/sync/east";
const AGENT_SECRET: &str = "/api/v1/namespaces/atoll-system/secrets/atoll-agent";
const JOIN_SECRET: &str = "/api/v1/namespaces/atoll-system/secrets/join-east";
const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// Registers the cluster and returns the data of the Secret in its manifest.
fn manifest(control_plane: &Atoll) -> (String, Vec<Value>) {
    let mut command = atoll(&["cluster", "join", "east", "--mode", "pull", "--image", "example.com/atoll:2"]);
    let text = succeed(command.arg("--control-plane-kubeconfig").arg(control_plane.kubeconfig()));
    let documents = text.split("---\n").filter(|text| !text.trim().is_empty());
    let objects = documents.map(|text| serde_saphyr::from_str(text).unwrap()).collect();
    (text, objects)
}

fn secret_of(objects: &[Value]) -> &Value {
    objects.iter().find(|object| object["kind"] == "Secret").unwrap()
}

fn text(secret: &Value, name: &str) -> String {
    String::from_utf8(STANDARD.decode(secret["data"][name].as_str().unwrap()).unwrap()).unwrap()
}

fn csr(user: &str, key: &str) -> Value {
    json!({ "request": request::create(user, key).unwrap() })
}

#[tokio::test(flavor = "multi_thread")]
async fn join_tokens_are_good_for_one_key() {
    let above = Atoll::start();
    let admin = above.admin();
    let (text_of_manifest, objects) = manifest(&above);
    assert!(text_of_manifest.contains("example.com/atoll:2"), "{text_of_manifest}");
    let secret = secret_of(&objects);
    let (token, user) = (text(secret, "token"), text(secret, "user"));
    let joining = admin.token(&token);
    // The token is good for nothing else.
    for path in [VIEW, "/services/sync/east/tunnel", "/api/v1/secrets", JOIN_SECRET, "/services/clusters"] {
        joining.get(path).await.expect_status(403, "Forbidden");
    }
    let (key, other) = (request::key().unwrap(), request::key().unwrap());
    joining.post(CERTIFICATE, csr("admin", &key)).await.expect_status(400, "BadRequest");
    admin.post(CERTIFICATE, csr(&user, &key)).await.expect_status(403, "Forbidden");
    joining.post(CERTIFICATE, csr(&user, &key)).await.expect(200);
    // An agent that was killed asks again; no one else has its key.
    let answer = joining.post(CERTIFICATE, csr(&user, &key)).await.expect(200);
    joining.post(CERTIFICATE, csr(&user, &other)).await.expect_status(403, "Forbidden");
    let agent = admin.with_identity(answer["certificate"].as_str().unwrap(), &key);
    for path in [
        "/api/v1/namespaces",
        "/api/v1/secrets",
        JOIN_SECRET,
        "/services/sync/west",
        "/services/placed/east",
        EAST,
    ] {
        agent.get(path).await.expect_status(403, "Forbidden");
    }
    create(
        &admin,
        "/apis/atoll.dev/v1alpha1/workspaces",
        object("atoll.dev/v1alpha1", "Workspace", "team", json!({})),
    )
    .await;
    let elsewhere = agent.workspace("root:team").get("/api/v1/namespaces").await;
    assert!(matches!(elsewhere.status, 401 | 403), "{}", elsewhere.text());
    let _view = Watch::open(&agent, VIEW).await;
    wait_until_deleted(&admin, JOIN_SECRET).await;
    assert_eq!(joining.post(CERTIFICATE, csr(&user, &key)).await.status, 401);
    // A newer token is kept for an agent that has not joined, even while an older certificate is in use.
    let (_, objects) = manifest(&above);
    let newer = admin.token(&text(secret_of(&objects), "token"));
    let _again = Watch::open(&agent, VIEW).await;
    let both = tokio::join!(
        newer.post(CERTIFICATE, csr(&user, &other)),
        newer.post(CERTIFICATE, csr(&user, &request::key().unwrap())),
    );
    let mut statuses = [both.0.status, both.1.status];
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 403], "one of two requests at the same time gets a certificate");
    // The agent renews its certificate with the certificate.
    agent.post(CERTIFICATE, csr(&user, &other)).await.expect(200);
    // It belongs to this Cluster, not to another one with its name.
    admin.delete(EAST).await.expect(200);
    wait_until_deleted(&admin, EAST).await;
    assert!(matches!(agent.get(VIEW).await.status, 403 | 404));
    let (_, objects) = manifest(&above);
    agent.get(VIEW).await.expect_status(403, "Forbidden");
    agent.post(CERTIFICATE, csr(&user, &other)).await.expect_status(403, "Forbidden");
    let joining = admin.token(&text(secret_of(&objects), "token"));
    joining.post(CERTIFICATE, csr(&user, &other)).await.expect_status(400, "BadRequest");
}

async fn wait_for_tunnel(above: &Client) {
    wait_for("the tunnel is open", above, EAST, |cluster| condition(cluster, "TunnelOpen").0 == "True").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_agents_continue() {
    let mut fleet = Fleet::start(Mode::Pull, &["east"]);
    let (above, below) = (fleet.admin(), fleet.clusters[0].admin());
    wait_for_tunnel(&above).await;
    let secret = below.get(AGENT_SECRET).await.expect(200);
    assert!(secret["data"]["token"].is_null(), "the token is no longer needed");
    above.get(JOIN_SECRET).await.expect_status(404, "NotFound");
    let secrets = above.get("/api/v1/namespaces/atoll-system/secrets").await.expect(200);
    assert_eq!(secrets["items"], json!([]), "no credential of the cluster is stored above");
    let below_through_tunnel = above.get("/services/clusters/east/proxy/api/v1/secrets").await.expect(200);
    let listed = below_through_tunnel["items"].as_array().unwrap();
    assert!(listed.iter().all(|secret| secret["metadata"]["name"] != "atoll-agent"), "{listed:?}");
    let one =
        above.get("/services/clusters/east/proxy/api/v1/namespaces/atoll-system/secrets/atoll-agent").await;
    one.expect_status(403, "Forbidden");
    let mut agent = fleet.agents.remove(0);
    agent.signal(Signal::KILL);
    agent.wait();
    // A manifest that is applied again has the token that was used.
    below
        .merge(AGENT_SECRET, json!({ "data": { "token": STANDARD.encode("used.before.now") } }))
        .await
        .expect(200);
    fleet.agents.push(start_pull_agent("east", &fleet.clusters[0], fleet.credentials.path()).await);
    create(&above, CONFIG_MAPS, object("v1", "ConfigMap", "later", json!({ "data": { "a": "1" } }))).await;
    fleet.place("configmaps/later", "east");
    wait_for("the object exists below", &below, &format!("{CONFIG_MAPS}/later"), |_| true).await;
    wait_for_tunnel(&above).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn agent_killed_between_its_request_and_the_first_use_joins() {
    let (above, cluster) = (Atoll::start(), start_cluster("east"));
    let (admin, below) = (above.admin(), cluster.admin());
    let credentials = tempfile::tempdir().unwrap();
    let (_, objects) = manifest(&above);
    for object in &objects {
        let (kind, name) = (object["kind"].as_str().unwrap(), object["metadata"]["name"].as_str().unwrap());
        let collection = match kind {
            "Namespace" => "/api/v1/namespaces".to_string(),
            "ClusterRole" | "ClusterRoleBinding" => {
                format!("/apis/rbac.authorization.k8s.io/v1/{}s", kind.to_lowercase())
            }
            "Role" | "RoleBinding" => {
                format!("/apis/rbac.authorization.k8s.io/v1/namespaces/atoll-system/{}s", kind.to_lowercase())
            }
            "Deployment" => "/apis/apps/v1/namespaces/atoll-system/deployments".to_string(),
            _ => format!("/api/v1/namespaces/atoll-system/{}s", kind.to_lowercase()),
        };
        let path = format!("{collection}/{name}?fieldManager=kubectl");
        let applied = below.apply(&path, object).await;
        assert!(matches!(applied.status, 200 | 201), "{}", applied.text());
    }
    // Before it was killed, the agent had stored its key, and its request had been answered.
    let (secret, key) = (secret_of(&objects), request::key().unwrap());
    let joining = admin.token(&text(secret, "token"));
    joining.post(CERTIFICATE, csr(&text(secret, "user"), &key)).await.expect(200);
    below.merge(AGENT_SECRET, json!({ "data": { "joining.key": STANDARD.encode(&key) } })).await.expect(200);
    let _agent = start_pull_agent("east", &cluster, credentials.path()).await;
    wait_for_tunnel(&admin).await;
    let stored = below.get(AGENT_SECRET).await.expect(200);
    assert_eq!(text(&stored, "tls.key"), key);
    wait_until_deleted(&admin, JOIN_SECRET).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn certificate_is_renewed_while_it_is_used() {
    let fleet = Fleet::start_with(Setup::new().flag("--certificate-lifetime", 90), Mode::Pull, &["east"]);
    let (above, below) = (fleet.admin(), fleet.clusters[0].admin());
    wait_for_tunnel(&above).await;
    let first = text(&below.get(AGENT_SECRET).await.expect(200), "tls.crt");
    let expires = certificate::expiry(first.as_bytes()).unwrap();
    let is_renewed = |secret: &Value| {
        certificate::expiry(text(secret, "tls.crt").as_bytes()).is_some_and(|renewed| renewed > expires)
    };
    wait_for("the certificate is renewed", &below, AGENT_SECRET, is_renewed).await;
    // Requests use the new certificate, even if their connection was open before.
    let is_later = |lease: &Value| {
        let renewed = lease["spec"]["renewTime"].as_str().and_then(|text| time::parse_micro(text).ok());
        renewed.is_some_and(|renewed| renewed.seconds > expires + 1)
    };
    let leases = "/apis/coordination.k8s.io/v1/namespaces/atoll-system/leases";
    wait_for("the first certificate has expired", &below, &format!("{leases}/atoll-syncer"), is_later).await;
    // The administrator's certificate was renewed, too.
    let reported = format!("{leases}/cluster-east");
    eventually("a heartbeat arrives", async || {
        let lease = fleet.admin().get(&reported).await;
        lease.status == 200 && is_later(&lease.json())
    })
    .await;
    wait_for_tunnel(&fleet.admin()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_reach_the_cluster_through_its_agent() {
    let fleet = Fleet::start(Mode::Pull, &["east"]);
    let (above, below) = (fleet.admin(), fleet.clusters[0].admin());
    wait_for_tunnel(&above).await;
    wait_for(
        "the cluster is claimed",
        &below,
        "/api/v1/namespaces/atoll-system/configmaps/atoll-claim",
        |_| true,
    )
    .await;
    create(&below, CONFIG_MAPS, object("v1", "ConfigMap", "mine", json!({ "data": { "a": "1" } }))).await;
    fleet.atoll.run("adopt configmaps/mine --cluster east -n default");
    wait_for("the object is adopted", &above, &format!("{CONFIG_MAPS}/mine"), |_| true).await;
    fleet.atoll.run("cluster remove east --yes");
    above.get(EAST).await.expect_status(404, "NotFound");
    wait_until_deleted(&below, "/api/v1/namespaces/atoll-system").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn observed_clusters_are_described_through_their_agents() {
    let (above, cluster) = (Atoll::start(), start_cluster("east"));
    let (admin, below) = (above.admin(), cluster.admin());
    let credentials = tempfile::tempdir().unwrap();
    let mut command = atoll(&["cluster", "join", "east", "--mode", "pull", "--observe", "--kubeconfig"]);
    command.arg(cluster.kubeconfig()).arg("--control-plane-kubeconfig").arg(above.kubeconfig());
    succeed(&mut command);
    let _agent = start_pull_agent("east", &cluster, credentials.path()).await;
    wait_for_tunnel(&admin).await;
    let template = json!({
        "metadata": { "labels": { "app": "web" } }, "spec": { "containers": [{ "name": "web", "image": "web" }] },
    });
    let spec = json!({ "selector": { "matchLabels": { "app": "web" } }, "template": template });
    let web = object("apps/v1", "Deployment", "running-web", json!({ "spec": spec }));
    create(&below, "/apis/apps/v1/namespaces/default/deployments", web).await;
    let described = above.run("cluster describe east");
    assert!(described.contains("running-web"), "{described}");
    // The agent has no right to read Secrets of the cluster.
    admin.get("/services/clusters/east/proxy/api/v1/secrets").await.expect_status(403, "Forbidden");
}

//! Requests of the control plane to clusters: directly, and through the tunnels of agents.

use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use atoll_client::cluster_api::{ClusterApi, Upgrade, set_upgrade};
use atoll_client::https::Https;
use atoll_client::{BoxError, BoxFuture, ResponseBody, Transport};
use atoll_testkit::wait::{eventually, within};
use atoll_testkit::{Client, Signal, Watch};
use atoll_tunnel::KeepAlive;
use bytes::Bytes;
use http::{HeaderValue, Request, Response};
use http_body::{Body, Frame};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use tokio::io::AsyncReadExt;
use tokio::task::JoinHandle;

use crate::health::{EAST, condition};
use crate::support::raw::Raw;
use crate::{Fleet, Mode, create, object, start_agent, wait_for};

/// The API of the cluster, as the control plane reaches it.
const PROXY: &str = "/services/clusters/east/proxy";
const TUNNEL: &str = "/services/sync/east/tunnel";
const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
const PODS: &str = "/api/v1/namespaces/default/pods";
const ROLES: &str = "/apis/rbac.authorization.k8s.io/v1";

/// Waits until the control plane can send requests to the cluster.
async fn wait_until_connected(above: &Client) {
    let version = format!("{PROXY}/version");
    eventually("the cluster is connected", async || above.get(&version).await.status == 200).await;
}

/// Lets the syncer's account run commands in pods, which it may not do otherwise.
async fn allow_commands(below: &Client) {
    let rules = json!([{ "apiGroups": [""], "resources": ["pods/exec"], "verbs": ["get", "create"] }]);
    let kind = "rbac.authorization.k8s.io/v1";
    let role = object(kind, "ClusterRole", "commands", json!({ "rules": rules }));
    create(below, &format!("{ROLES}/clusterroles"), role).await;
    let account = json!({ "kind": "ServiceAccount", "name": "atoll-syncer", "namespace": "atoll-system" });
    let reference =
        json!({ "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "commands" });
    let binding = json!({ "roleRef": reference, "subjects": [account] });
    let binding = object(kind, "ClusterRoleBinding", "commands", binding);
    create(below, &format!("{ROLES}/clusterrolebindings"), binding).await;
}

/// Runs `cat` in the pod `web` over a WebSocket, and checks that it returns what it gets.
async fn run_cat(above: &Client, below: &Client) {
    let containers = json!([{ "name": "main", "image": "web" }]);
    create(below, PODS, object("v1", "Pod", "web", json!({ "spec": { "containers": containers } }))).await;
    let is_running = |pod: &Value| pod["status"]["phase"] == "Running";
    wait_for("the pod runs", below, &format!("{PODS}/web"), is_running).await;
    let path = format!("{PROXY}{PODS}/web/exec?command=cat&stdin=true&stdout=true");
    let mut raw = Raw::open(above).await;
    let lines = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
                 Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Protocol: v4.channel.k8s.io\r\n";
    raw.send(raw.head("GET", &path, lines)).await.unwrap();
    let head = raw.answer().await.expect("a response");
    assert_eq!(head.status, 101, "{}", head.text);
    let text = head.text.to_ascii_lowercase();
    for expected in [
        "upgrade: websocket",
        "sec-websocket-accept: s3pplmbitxaq9kygzzhzrbk+xoo=",
        "sec-websocket-protocol: v4.channel.k8s.io",
    ] {
        assert!(text.contains(expected), "{text}");
    }
    // A masked binary frame for channel 0, with the mask 0.
    let mut frame = vec![0x82, 0x80 | 8, 0, 0, 0, 0, 0];
    frame.extend_from_slice(b"to+from");
    raw.send(&frame).await.unwrap();
    let (mut read, mut piece) = (Vec::new(), [0; 1024]);
    while !read.windows(7).any(|window| window == b"to+from") {
        let count = within("cat returns its input", raw.stream.read(&mut piece)).await.unwrap();
        assert!(count > 0, "the stream ended: {read:?}");
        read.extend_from_slice(&piece[..count]);
    }
}

async fn requests_and_streams_reach_the_cluster(mode: Mode) {
    let fleet = Fleet::start(mode, &["east"]);
    let (above, below) = (fleet.admin(), fleet.clusters[0].admin());
    wait_until_connected(&above).await;
    let path = format!("{PROXY}{CONFIG_MAPS}");
    let made = object("v1", "ConfigMap", "made", json!({ "data": { "a": "1" } }));
    let mut watch = Watch::open(&above, &format!("{path}?watch=true")).await;
    create(&above, &path, made.clone()).await;
    assert_eq!(below.get(&format!("{CONFIG_MAPS}/made")).await.expect(200)["data"]["a"], "1");
    above.post(&path, made).await.expect_status(409, "AlreadyExists");
    above.merge(&format!("{path}/made"), json!({ "data": { "a": "2" } })).await.expect(200);
    above.delete(&format!("{path}/made")).await.expect(200);
    above.get(&format!("{path}/made")).await.expect_status(404, "NotFound");
    let mut seen = Vec::new();
    while seen.len() < 3 {
        let event = watch.event().await;
        if event.name() == "made" {
            seen.push(event.kind);
        }
    }
    assert_eq!(seen, ["ADDED", "MODIFIED", "DELETED"]);
    // The rights are those of the syncer's account.
    let roles = above.get(&format!("{PROXY}{ROLES}/clusterroles")).await;
    assert!(roles.expect_status(403, "Forbidden").contains("atoll-syncer"), "{}", roles.text());
    // Credentials of the account stay in the cluster, and nothing but its API is reached.
    let token = "/api/v1/namespaces/atoll-system/serviceaccounts/atoll-syncer/token";
    let request = json!({ "kind": "TokenRequest", "apiVersion": "authentication.k8s.io/v1", "spec": {} });
    above.post(&format!("{PROXY}{token}"), request).await.expect_status(403, "Forbidden");
    for path in ["/api/v1/namespaces/atoll-system/secrets", "/metrics"] {
        above.get(&format!("{PROXY}{path}")).await.expect_status(403, "Forbidden");
    }
    // The control plane serves no path with such a segment.
    assert_eq!(above.get(&format!("{PROXY}/api/v1/%2e%2e/metrics")).await.status, 404);
    // A large document is complete.
    assert_eq!(above.get(&format!("{PROXY}/openapi/v2")).await.expect(200)["swagger"], "2.0");
    allow_commands(&below).await;
    run_cat(&above, &below).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn control_plane_reaches_clusters_directly() {
    requests_and_streams_reach_the_cluster(Mode::Push).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn control_plane_reaches_clusters_through_tunnels() {
    requests_and_streams_reach_the_cluster(Mode::None).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn control_plane_reaches_clusters_of_agents_in_them() {
    requests_and_streams_reach_the_cluster(Mode::Pull).await;
}

fn agent_credential(directory: &Path, cluster: &str) -> Client {
    Client::from_kubeconfig(&directory.join(format!("{cluster}.control-plane.kubeconfig")))
}

/// Asks for a tunnel, and returns the connection with the status of the response.
async fn ask(client: &Client, path: &str) -> (Raw, u16) {
    let mut raw = Raw::open(client).await;
    let token = client.endpoint().token.as_deref().map(|token| format!("Authorization: Bearer {token}\r\n"));
    let lines = "Connection: Upgrade\r\nUpgrade: atoll-tunnel/1\r\n";
    let head = raw.head("GET", path, &format!("{lines}{}", token.unwrap_or_default()));
    raw.send(head).await.unwrap();
    let status = raw.answer().await.expect("a response").status;
    (raw, status)
}

#[tokio::test(flavor = "multi_thread")]
async fn tunnels_need_the_right_to_the_sync_view() {
    let fleet = Fleet::start(Mode::None, &["east", "west"]);
    let admin = fleet.admin();
    wait_until_connected(&admin).await;
    let [east, west] = ["east", "west"].map(|name| agent_credential(fleet.credentials.path(), name));
    assert_eq!(ask(&west, TUNNEL).await.1, 403);
    assert_eq!(ask(&east.anonymous(), TUNNEL).await.1, 403);
    assert_eq!(ask(&east.token("no.such.token"), TUNNEL).await.1, 401);
    assert_eq!(ask(&admin, "/services/sync/north/tunnel").await.1, 404);
    east.get(TUNNEL).await.expect_status(400, "BadRequest");
    east.post(TUNNEL, json!({})).await.expect_status(405, "MethodNotAllowed");
    // The agent cannot use its own tunnel, or that of another cluster, from above.
    for name in ["east", "west"] {
        let version = format!("/services/clusters/{name}/proxy/version");
        east.get(&version).await.expect_status(403, "Forbidden");
    }
    admin.get("/services/clusters/north/proxy/version").await.expect_status(404, "NotFound");
    for path in [
        "/api/v1/namespaces",
        "/api/v1/secrets",
        "/api/v1/namespaces/atoll-system/secrets/cluster-east",
        "/api/v1/namespaces/atoll-system/configmaps",
        "/apis/atoll.dev/v1alpha1/clusters",
        "/apis/atoll.dev/v1alpha1/clusters/west",
        "/apis/apps/v1/deployments",
        "/services/sync/west",
        "/services/placed/east",
        "/services/clusters",
        "/metrics",
        "/atoll/snapshot",
    ] {
        east.get(path).await.expect_status(403, "Forbidden");
    }
    for path in ["/api/v1/namespaces", "/apis/atoll.dev/v1alpha1/clusters", CONFIG_MAPS] {
        east.post(path, json!({ "metadata": { "name": "x" } })).await.expect_status(403, "Forbidden");
    }
    // The control plane connects to this cluster itself, whatever agents do.
    admin.merge(EAST, json!({ "spec": { "mode": "push" } })).await.expect(200);
    let is_refused = async || ask(&east, TUNNEL).await.1 == 409;
    eventually("a cluster with mode push has no tunnel", is_refused).await;
}

/// Opens a tunnel and serves it as an agent does, so that only the control plane ends it.
async fn serve_tunnel(client: &Client, path: &str) -> JoinHandle<()> {
    let cluster = Arc::new(Https::new(client.endpoint()).unwrap());
    serve_tunnel_to(cluster, client, path).await
}

async fn serve_tunnel_to(cluster: Arc<dyn ClusterApi>, client: &Client, path: &str) -> JoinHandle<()> {
    let api = Https::new(client.endpoint()).unwrap();
    let mut request = Request::new(());
    *request.uri_mut() = path.parse().unwrap();
    set_upgrade(request.headers_mut(), HeaderValue::from_static(atoll_tunnel::PROTOCOL));
    let answer = within("the server answers", api.upgrade(request)).await.unwrap();
    let Upgrade::Switched(_, stream) = answer else { panic!("the server opened no tunnel") };
    tokio::spawn(async move {
        // The end of the tunnel may be an error.
        let _ = atoll_tunnel::serve(stream, cluster, KeepAlive::default()).await;
    })
}

/// A cluster whose responses do not end.
struct EndlessCluster;

impl Transport for EndlessCluster {
    fn send(&self, _: Request<Bytes>) -> BoxFuture<'_, Result<Response<ResponseBody>, BoxError>> {
        Box::pin(async { Ok(Response::new(EndlessBody.boxed_unsync())) })
    }
}

impl ClusterApi for EndlessCluster {
    fn upgrade(&self, _: Request<()>) -> BoxFuture<'_, Result<Upgrade, BoxError>> {
        Box::pin(async { Ok(Upgrade::Refused(Response::new(EndlessBody.boxed_unsync()))) })
    }

    fn forward(&self, request: Request<Bytes>) -> BoxFuture<'_, Result<Response<ResponseBody>, BoxError>> {
        self.send(request)
    }

    fn unread_limit(&self) -> usize {
        0
    }
}

struct EndlessBody;

impl Body for EndlessBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(&[b'x'; 16 << 10])))))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn responses_that_are_not_read_count_as_memory_of_their_cluster() {
    let fleet = Fleet::start_unscheduled(Mode::Push, &[]);
    let admin = fleet.admin();
    for name in ["east", "west"] {
        let cluster = object("atoll.dev/v1alpha1", "Cluster", name, json!({ "spec": { "mode": "none" } }));
        create(&admin, "/apis/atoll.dev/v1alpha1/clusters", cluster).await;
    }
    let _east = serve_tunnel_to(Arc::new(EndlessCluster), &admin, TUNNEL).await;
    let _west = serve_tunnel(&admin, "/services/sync/west/tunnel").await;
    let west = "/services/clusters/west/proxy/version";
    eventually("the other cluster is connected", async || admin.get(west).await.status == 200).await;
    let mut unread = Vec::new();
    for _ in 0..16 {
        let mut raw = Raw::open(&admin).await;
        raw.send(raw.head("GET", &format!("{PROXY}/version"), "")).await.unwrap();
        assert_eq!(raw.answer().await.expect("a response").status, 200);
        unread.push(raw);
    }
    // Each charges the limit of what may arrive, 8 MiB, while its client reads nothing. A tunnel takes no more than
    // 4 MiB of data for all of them, so some may have none.
    let charged = async || {
        let metrics = admin.get("/metrics").await.text();
        let mut lines = metrics.lines().filter(|line| line.starts_with("atoll_cluster_memory_bytes"));
        let east = lines.find(|line| line.contains(r#"cluster="east""#)).expect("the cluster is connected");
        east.rsplit(' ').next().and_then(|bytes| bytes.parse::<u64>().ok()).expect("a number")
    };
    eventually("unread responses are charged", async || charged().await >= 64 << 20).await;
    admin.get(west).await.expect(200);
    drop(unread);
    eventually("the memory is free again", async || charged().await < 1 << 20).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tunnel_ends_with_its_cluster() {
    let fleet = Fleet::start_unscheduled(Mode::Push, &[]);
    let admin = fleet.admin();
    for name in ["east", "west"] {
        let cluster = object("atoll.dev/v1alpha1", "Cluster", name, json!({ "spec": { "mode": "none" } }));
        create(&admin, "/apis/atoll.dev/v1alpha1/clusters", cluster).await;
    }
    let replaced = serve_tunnel(&admin, TUNNEL).await;
    wait_until_connected(&admin).await;
    let removed = serve_tunnel(&admin, TUNNEL).await;
    within("the newest tunnel replaces the other one", replaced).await.unwrap();
    wait_until_connected(&admin).await;
    let other = serve_tunnel(&admin, "/services/sync/west/tunnel").await;
    admin.delete(EAST).await.expect(200);
    within("the tunnel ends with its cluster", removed).await.unwrap();
    admin
        .merge("/apis/atoll.dev/v1alpha1/clusters/west", json!({ "spec": { "mode": "push" } }))
        .await
        .expect(200);
    within("a cluster with mode push has no tunnel", other).await.unwrap();
}

async fn wait_for_tunnel(above: &Client, status: &str) {
    let what = format!("the condition TunnelOpen is {status}");
    wait_for(&what, above, EAST, |cluster| condition(cluster, "TunnelOpen").0 == status).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tunnel_is_opened_again_after_each_side_was_killed() {
    let mut fleet = Fleet::start(Mode::None, &["east"]);
    let above = fleet.admin();
    wait_for_tunnel(&above, "True").await;
    let path = format!("{PROXY}{CONFIG_MAPS}");
    let mut watch = Watch::open(&above, &format!("{path}?watch=true&resourceVersion=0")).await;
    let mut agent = fleet.agents.remove(0);
    agent.signal(Signal::KILL);
    agent.wait();
    // The watch of a client ends, and requests say why they fail.
    within("the watch ends", async { while let Ok(Some(_)) = watch.next_line().await {} }).await;
    eventually("requests say why they fail", async || {
        let message = above.get(&path).await.expect_status(503, "ServiceUnavailable");
        message.contains("no agent of cluster east has a tunnel")
    })
    .await;
    wait_for_tunnel(&above, "False").await;
    fleet.agents.push(start_agent(&fleet.join_outputs[0]));
    wait_until_connected(&above).await;
    wait_for_tunnel(&above, "True").await;
    fleet.atoll.kill();
    fleet.atoll.restart();
    let above = fleet.admin();
    wait_until_connected(&above).await;
    above.get(&path).await.expect(200);
    wait_for_tunnel(&above, "True").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn views_and_tunnels_end_when_the_right_to_them_is_withdrawn() {
    let mut fleet = Fleet::start(Mode::None, &["east"]);
    let admin = fleet.admin();
    let east = agent_credential(fleet.credentials.path(), "east");
    wait_until_connected(&admin).await;
    let mut agent = fleet.agents.remove(0);
    agent.signal(Signal::KILL);
    agent.wait();
    let tunnel = serve_tunnel(&east, TUNNEL).await;
    let mut view = Watch::open(&east, "/services/sync/east").await;
    wait_until_connected(&admin).await;
    admin.delete(&format!("{ROLES}/clusterrolebindings/atoll:syncer:east")).await.expect(200);
    within("the tunnel ends", tunnel).await.unwrap();
    within("the view ends", async { while let Ok(Some(_)) = view.next_line().await {} }).await;
    assert_eq!(ask(&east, TUNNEL).await.1, 403);
}

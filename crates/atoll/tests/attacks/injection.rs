//! Strings from a cluster or an agent are only text: they are never written as a part of a file, do not
//! control terminals, and are stored only if they have the expected form and size.

use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use atoll_testkit::wait::eventually;
use atoll_testkit::{Setup, atoll, fail};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};

use crate::fake_cluster::{FakeCluster, FakeResponse};

const EAST: &str = "/apis/atoll.dev/v1alpha1/clusters/east";

/// Returns a ServiceAccount token with this signature that expires at the given time, in seconds since 1970.
fn token(expires: i64, signature: &str) -> String {
    let claims = json!({ "sub": "system:serviceaccount:atoll-system:atoll-syncer", "iat": expires - 3600, "exp": expires });
    format!("e30.{}.{signature}", URL_SAFE_NO_PAD.encode(claims.to_string()))
}

fn cluster(mode: &str) -> Value {
    json!({
        "apiVersion": "atoll.dev/v1alpha1", "kind": "Cluster", "metadata": { "name": "east" }, "spec": { "mode": mode },
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_tokens_of_a_cluster_are_not_written_to_a_kubeconfig() {
    let control_plane = Setup::new().start();
    control_plane.admin().post("/apis/atoll.dev/v1alpha1/clusters", cluster("none")).await.expect(201);
    let directory = tempfile::tempdir().unwrap();
    let ran = directory.path().join("ran");
    for signature in [
        format!("s\n    exec: {{apiVersion: client.authentication.k8s.io/v1, command: touch, args: [{}]}}", ran.display()),
        "s\"}}],\"users\":[{\"name\":\"u\",\"user\":{\"exec\":{\"command\":\"touch\"}}}],\"x\":[{\"y\":{\"z\":\"".to_string(),
        "s\r\n".to_string(),
        "\u{1b}[2J".to_string(),
        "s".repeat(1 << 20),
    ] {
        let given = Arc::new(AtomicUsize::new(0));
        let counted = given.clone();
        let answered = signature.clone();
        let east = FakeCluster::with("east", move |_, target| {
            target.ends_with("/token").then(|| {
                counted.fetch_add(1, Ordering::Relaxed);
                let expires = i64::from(u32::MAX);
                FakeResponse::Json(201, json!({ "status": { "token": token(expires, &answered) } }))
            })
        });
        let east = east.await;
        // The token has expired, so the syncer requests another one immediately. The file is YAML, as people
        // and other programs write it.
        let old = token(1_700_000_000, "s");
        let text: Value = serde_json::from_str(&east.kubeconfig(&old)).unwrap();
        let text = serde_saphyr::to_string(&text).unwrap();
        let file = directory.path().join("cluster.kubeconfig");
        std::fs::write(&file, &text).unwrap();
        let mut syncer = atoll(&["syncer", "--from-kubeconfig"]);
        syncer.arg(control_plane.kubeconfig()).arg("--to-kubeconfig").arg(&file).arg("east");
        let mut syncer = syncer.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        eventually("another token was requested", async || given.load(Ordering::Relaxed) > 0).await;
        // The syncer logs either result.
        let logged = {
            use std::io::BufRead;
            let lines = std::io::BufReader::new(syncer.stderr.take().unwrap()).lines().map_while(Result::ok);
            lines.into_iter().find(|line| line.contains("renewed the token") || line.contains("cannot renew the token"))
        };
        syncer.kill().unwrap();
        syncer.wait().unwrap();
        assert!(logged.is_some_and(|logged| logged.contains("cannot renew the token")), "{signature:?}");
        assert_eq!(std::fs::read_to_string(&file).unwrap(), text, "{signature:?}");
    }
    assert!(!ran.exists());
}

fn has_control_characters(text: &str) -> bool {
    text.chars().any(|character| character != '\n' && character.is_control() || character == '\u{202e}')
}

const HOSTILE: &str = "v1.36.0\u{1b}]0;owned\u{7}\u{1b}[2J\u{9b}31m\u{202e}";

#[tokio::test(flavor = "multi_thread")]
async fn control_characters_of_a_cluster_do_not_reach_a_terminal() {
    let control_plane = Setup::new().flag("--cluster-grace-period", 12).start();
    let above = control_plane.admin();
    let east = FakeCluster::with("east", |_, target| match target {
        "/version" => Some(FakeResponse::Json(200, json!({ "gitVersion": HOSTILE }))),
        target if target.starts_with("/api/v1/nodes?") && !target.contains("watch=true") => {
            let labels =
                json!({ "topology.kubernetes.io/region": HOSTILE, "topology.kubernetes.io/zone": HOSTILE });
            let node = json!({ "metadata": { "name": "n", "uid": "n", "labels": labels } });
            Some(FakeResponse::Json(200, json!({ "metadata": { "resourceVersion": "1" }, "items": [node] })))
        }
        _ => None,
    });
    let east = east.await;
    east.register(&above, "east").await;
    eventually("the version is reported", async || {
        let found = above.get(EAST).await.expect(200);
        found["status"]["kubernetesVersion"].is_string() && found["status"]["region"].is_string()
    })
    .await;
    let found = above.get(EAST).await.expect(200);
    for field in ["kubernetesVersion", "region"] {
        let logged = found["status"][field].as_str().unwrap();
        assert!(!has_control_characters(logged), "{field}: {logged:?}");
    }
    // Stored values that contain control characters are printed without them.
    let conditions = json!([{ "type": "Ready", "status": HOSTILE, "reason": HOSTILE, "message": HOSTILE }]);
    let logged = json!({ "kubernetesVersion": HOSTILE, "region": HOSTILE, "conditions": conditions });
    above.merge(&format!("{EAST}/status"), json!({ "status": logged })).await;
    for line in [
        &["cluster", "list"][..],
        &["cluster", "list", "--output", "wide"],
        &["cluster", "list", "--output", "yaml"],
        &["cluster", "list", "--output", "json"],
        &["cluster", "describe", "east"],
    ] {
        let output = atoll(line).env("KUBECONFIG", control_plane.kubeconfig()).output().unwrap();
        for text in [output.stdout, output.stderr] {
            let text = String::from_utf8(text).unwrap();
            assert!(!has_control_characters(&text), "{line:?}: {text:?}");
        }
    }
    // Messages of rejected requests come from the cluster as well.
    let refusing = FakeCluster::with("refusing", |_, _| {
        Some(FakeResponse::Json(
            403,
            json!({
                "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 403, "reason": "Forbidden", "message": HOSTILE,
            }),
        ))
    });
    let refusing = refusing.await;
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("kubeconfig");
    std::fs::write(&file, refusing.kubeconfig("token")).unwrap();
    let mut joining = atoll(&["cluster", "join", "west", "--kubeconfig"]);
    joining.arg(&file).env("KUBECONFIG", control_plane.kubeconfig()).stdin(Stdio::null());
    let errors = fail(&mut joining);
    assert!(errors.contains("owned") && !has_control_characters(&errors), "{errors:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_parts_of_agent_reports_are_dropped() {
    let control_plane = Setup::new().start();
    let above = control_plane.admin();
    above.post("/apis/atoll.dev/v1alpha1/clusters", cluster("none")).await.expect(201);
    let report = "/services/sync/east";
    let large = "x".repeat(2 << 20);
    for (heartbeat, code) in [
        (json!({ "nodes": { "total": large } }), 422),
        (json!({ "nodes": [large] }), 422),
        (json!({ "capacity": { "cpu": { "nested": large } } }), 422),
        (json!({ "region": { "nested": large } }), 422),
        (json!({ "zones": large }), 422),
        (json!({ "free": [{ "cpu": [large] }] }), 422),
        (json!({ "reason": "<script>", "message": "m" }), 422),
        (json!({ "syncer": { "instance": { "nested": 1 } } }), 422),
        (json!([]), 422),
        // Fields of a newer syncer are dropped.
        (
            json!({ "later": large, "kubernetesVersion": "v1.36.0", "syncer": { "instance": "one", "later": 1 } }),
            200,
        ),
        (
            json!({ "region": large, "zones": ["a", "b"], "syncer": { "instance": "one", "version": "1" } }),
            200,
        ),
    ] {
        let answer = above.post(report, json!({ "heartbeat": heartbeat })).await;
        assert_eq!(
            answer.status,
            code,
            "{}",
            String::from_utf8_lossy(&answer.body).chars().take(500).collect::<String>()
        );
        assert!(answer.body.len() < 4096, "{} bytes", answer.body.len());
        let found = above.get(EAST).await.expect(200).to_string();
        assert!(found.len() < 16 << 10 && !found.contains("later"), "{} bytes", found.len());
    }
    assert_eq!(above.post(report, json!({ "records": "many" })).await.status, 400);
    assert_eq!(above.post(report, json!({ "records": [{ "state": "Wonderful" }] })).await.status, 400);
    let found = above.get(EAST).await.expect(200);
    assert_eq!(found["status"]["kubernetesVersion"], "v1.36.0");
    assert_eq!(found["status"]["zones"], json!(["a", "b"]));

    // The status of a placed object is limited in size.
    let map = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "placed" } });
    let map = above.post("/api/v1/namespaces/default/configmaps", map).await.expect(201);
    let place = json!({ "spec": { "clusters": [{ "name": "east" }], "force": true } });
    let placement = "/api/v1/namespaces/default/configmaps/placed/placement";
    let placed = above.put(placement, place).await;
    assert!(placed.status < 300, "{placed:?}");
    let record = |status: Value| {
        json!({ "records": [{
            "resource": { "version": "v1", "resource": "configmaps", "kind": "ConfigMap", "namespaced": true },
            "workspace": "root", "namespace": "default", "name": "placed", "uid": map["metadata"]["uid"],
            "state": "Applied", "message": format!("\u{1b}[2J{}", "y".repeat(1 << 19)), "status": status,
        }] })
    };
    for status in [json!({ "a": "z".repeat(1 << 20) }), json!("z".repeat(1 << 20)), json!({ "ready": true })]
    {
        above.post(report, record(status)).await.expect(200);
        let kept = above.get("/apis/atoll.dev/v1alpha1/namespaces/default/objectstatuses").await.expect(200);
        assert_eq!(kept["items"].as_array().map(Vec::len), Some(1), "{kept}");
        let kept = kept["items"][0].to_string();
        assert!(kept.len() < 16 << 10 && !kept.contains("u001b"), "{} bytes", kept.len());
    }
}

//! A cluster may send responses of any size: the control plane limits how much it reads, reports the cause and
//! keeps serving other clusters.

use atoll_testkit::wait::{eventually, within};
use atoll_testkit::{Atoll, Client, Setup};
use bytes::Bytes;
use serde_json::{Value, json};
use tokio::io::AsyncReadExt;

use crate::fake_cluster::{FakeCluster, FakeResponse, condition};
use crate::support::raw::Raw;

/// The memory limit in MiB. A server in these tests uses less than a hundred, and the budget of each cluster
/// is 256.
const MAX_MEMORY: u64 = 900;

/// Returns the peak resident memory of the server process in MiB.
fn peak_memory(atoll: &Atoll) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", atoll.process())).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() / 1024
}

/// Waits until a cluster is not ready for `reason`, while the control plane stays below the memory limit.
async fn wait_until_not_ready(control_plane: &Atoll, above: &Client, cluster: &str, reason: &str) {
    eventually(&format!("{cluster} is not ready because of {reason}"), async || {
        assert!(peak_memory(control_plane) < MAX_MEMORY, "{cluster}: {} MiB", peak_memory(control_plane));
        let [status, why, message] = condition(above, cluster, "Ready").await;
        let is_told = status == "False" && why == reason;
        if is_told {
            assert!(message.contains("Next: "), "{message}");
        }
        is_told
    })
    .await;
}

async fn wait_until_ready(above: &Client, cluster: &str) {
    eventually(&format!("{cluster} is ready"), async || {
        condition(above, cluster, "Ready").await[0] == "True"
    })
    .await;
}

fn is_pod_list(target: &str) -> bool {
    target.starts_with("/api/v1/pods?") && !target.contains("watch=true")
}

/// Returns a page of pods with long uids. The page grows with `count`.
fn pod_page(count: usize) -> Value {
    let item = |at: usize| json!({ "metadata": { "name": "p", "uid": format!("{count}-{at}-{}", "x".repeat(20_000)) } });
    json!({ "metadata": { "continue": count.to_string() }, "items": (0..400).map(item).collect::<Vec<_>>() })
}

#[tokio::test(flavor = "multi_thread")]
async fn endless_answers_of_a_cluster_are_cut_off() {
    let control_plane = Setup::new().flag("--cluster-grace-period", 12).start();
    let above = control_plane.admin();
    let chunk = || Bytes::from("x".repeat(1 << 16));
    let good = FakeCluster::start("good").await;
    good.register(&above, "good").await;
    wait_until_ready(&above, "good").await;

    // An endless object, an endless page and an endless watch line.
    let text = move || Some(FakeResponse::Endless(Bytes::from_static(b"{\"a\":\""), chunk()));
    let object = FakeCluster::with("object", move |_, target| {
        (target == "/api/v1/namespaces/kube-system").then(text).flatten()
    });
    let endless_page = FakeCluster::with("page", move |_, target| is_pod_list(target).then(text).flatten());
    let line = FakeCluster::with("line", move |_, target| {
        let is_watch = target.starts_with("/api/v1/nodes?") && target.contains("watch=true");
        is_watch.then(text).flatten()
    });
    for (name, cluster, reason) in [
        ("object", object.await, "AnswerTooLarge"),
        ("page", endless_page.await, "AnswerTooLarge"),
        ("line", line.await, "AnswerTooLarge"),
    ] {
        cluster.register(&above, name).await;
        wait_until_not_ready(&control_plane, &above, name, reason).await;
        above.delete(&format!("/apis/atoll.dev/v1alpha1/clusters/{name}")).await;
    }

    // Pages that are each small enough, without an end.
    let count = std::sync::atomic::AtomicUsize::new(0);
    let pages = FakeCluster::with("pages", move |_, target| {
        let count = || count.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        is_pod_list(target).then(|| FakeResponse::Json(200, pod_page(count())))
    });
    let pages = pages.await;
    pages.register(&above, "pages").await;
    wait_until_not_ready(&control_plane, &above, "pages", "MemoryBudgetExceeded").await;
    let metrics = String::from_utf8(above.get("/metrics").await.body.to_vec()).unwrap();
    let is_counted = |line: &str| {
        line.starts_with("atoll_cluster_oversized_responses{workspace=\"root\",cluster=\"pages\"} ")
            && !line.ends_with(" 0")
    };
    assert!(metrics.lines().any(is_counted), "{metrics}");
    assert!(metrics.contains("atoll_cluster_memory_bytes{workspace=\"root\",cluster=\"good\"}"), "{metrics}");
    above.delete("/apis/atoll.dev/v1alpha1/clusters/pages").await;

    // Few bytes on the wire that need much memory once they are decoded.
    let dense = Bytes::from(format!("{{\"items\":[{}0]}}", "{\"a\":0},".repeat(12 << 17)));
    let values = FakeCluster::with("values", move |_, target| {
        is_pod_list(target).then(|| FakeResponse::Bytes(dense.clone()))
    });
    let values = values.await;
    values.register(&above, "values").await;
    wait_until_not_ready(&control_plane, &above, "values", "AnswerTooLarge").await;
    wait_until_ready(&above, "good").await;
}

/// A proxy in front of a cluster may not support HTTP/2, or may not select any protocol.
#[tokio::test(flavor = "multi_thread")]
async fn clusters_without_http2_are_synced() {
    let control_plane = Setup::new().flag("--cluster-grace-period", 12).start();
    let above = control_plane.admin();
    for (name, protocols) in [("one", &["http/1.1"][..]), ("none", &[])] {
        let cluster = FakeCluster::with_protocols(name, protocols, |_, _| None).await;
        cluster.register(&above, name).await;
        wait_until_ready(&above, name).await;
    }
    // Answers have the same limits.
    let text = || FakeResponse::Endless(Bytes::from_static(b"{\"a\":\""), Bytes::from("x".repeat(1 << 16)));
    let endless = FakeCluster::with_protocols("endless", &["http/1.1"], move |_, target| {
        (target == "/api/v1/namespaces/kube-system").then(text)
    });
    endless.await.register(&above, "endless").await;
    wait_until_not_ready(&control_plane, &above, "endless", "AnswerTooLarge").await;
}

/// Returns whether a response of a cluster was not read because it was too large.
async fn is_refused(above: &Client, cluster: &str) -> bool {
    let metrics = above.get("/metrics").await.text();
    let name = format!("atoll_cluster_oversized_responses{{workspace=\"root\",cluster=\"{cluster}\"}} ");
    metrics.lines().any(|line| line.strip_prefix(&name).is_some_and(|count| count != "0"))
}

/// Documents about all types of a cluster are large already without an attack.
#[tokio::test(flavor = "multi_thread")]
async fn endless_discovery_documents_of_a_cluster_are_cut_off() {
    let control_plane = Setup::new().flag("--cluster-grace-period", 12).start();
    let above = control_plane.admin();
    let good = FakeCluster::start("good").await;
    good.register(&above, "good").await;
    let endless = || {
        let first = Bytes::from_static(b"{\"kind\":\"APIGroupDiscoveryList\",\"items\":[{\"a\":\"");
        FakeResponse::Endless(first, Bytes::from("x".repeat(1 << 16)))
    };
    // Few bytes on the wire that need much memory once they are decoded.
    let group = "{\"metadata\":{},\"versions\":[{}]},";
    let dense = format!("{{\"kind\":\"APIGroupDiscoveryList\",\"items\":[{}{{}}]}}", group.repeat(12 << 15));
    let dense = Bytes::from(dense);
    let core = json!({ "kind": "APIGroupDiscoveryList", "items": [] });
    let of_core = FakeCluster::with("core", move |_, target| (target == "/api").then(endless));
    let then = core.clone();
    let of_groups = FakeCluster::with("groups", move |_, target| match target {
        "/api" => Some(FakeResponse::Json(200, then.clone())),
        "/apis" => Some(endless()),
        _ => None,
    });
    let of_many = FakeCluster::with("many", move |_, target| match target {
        "/api" => Some(FakeResponse::Json(200, core.clone())),
        "/apis" => Some(FakeResponse::Bytes(dense.clone())),
        _ => None,
    });
    for (name, cluster) in [("core", of_core.await), ("groups", of_groups.await), ("many", of_many.await)] {
        cluster.register(&above, name).await;
        wait_until_not_ready(&control_plane, &above, name, "AnswerTooLarge").await;
        assert!(is_refused(&above, name).await, "{name}");
        above.delete(&format!("/apis/atoll.dev/v1alpha1/clusters/{name}")).await;
    }
    wait_until_ready(&above, "good").await;
    assert!(!is_refused(&above, "good").await);
}

/// The OpenAPI document of a cluster is not read by the control plane, but by clients through it.
#[tokio::test(flavor = "multi_thread")]
async fn endless_openapi_documents_of_a_cluster_do_not_accumulate() {
    const READERS: usize = 8;
    let control_plane = Setup::new().flag("--cluster-grace-period", 12).start();
    let above = control_plane.admin();
    let cluster = FakeCluster::with("openapi", |_, target| {
        let rest = Bytes::from("x".repeat(1 << 16));
        let first = Bytes::from_static(b"{\"openapi\":\"3.0.0\",\"paths\":{\"");
        target.starts_with("/openapi/v3").then(|| FakeResponse::Endless(first, rest))
    });
    let cluster = cluster.await;
    cluster.register(&above, "openapi").await;
    wait_until_ready(&above, "openapi").await;
    let proxy = "/services/clusters/openapi/proxy/openapi/v3";
    let mut readers = Vec::new();
    for path in ["", "/apis/apps/v1"].into_iter().cycle().take(READERS) {
        let mut raw = Raw::open(&above).await;
        let head = raw.head("GET", &format!("{proxy}{path}"), "Connection: close\r\n");
        raw.send(head).await.unwrap();
        let response = raw.answer().await.unwrap();
        assert_eq!(response.status, 200, "{}", response.text);
        readers.push(raw);
    }
    // One client reads more than any document that is read as a whole may have.
    let mut reader = readers.pop().unwrap();
    let mut piece = vec![0; 1 << 20];
    let reading = async {
        let mut left = 64 << 20;
        while left > 0 {
            match reader.stream.read(&mut piece).await.unwrap() {
                0 => panic!("the response ended"),
                count => left -= count.min(left),
            }
        }
    };
    within("the document is streamed", reading).await;
    assert!(peak_memory(&control_plane) < MAX_MEMORY, "{} MiB", peak_memory(&control_plane));
    // The server keeps its own document, and the cluster is still synced.
    above.get("/openapi/v3").await.expect(200);
    wait_until_ready(&above, "openapi").await;
}

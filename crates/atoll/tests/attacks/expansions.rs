//! Objects that are small to store and huge to show: tables whose columns repeat a large field, and nested
//! lists, whose indentation is much longer than their contents.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use atoll_testkit::wait::eventually;
use atoll_testkit::{ApiResponse, Client, RequestContent};
use bytes::Bytes;
use http::Method;
use serde_json::{Value, json};

use crate::bindings::{TenantServer, create_tenant_workspace};
use crate::definitions::DEFINITIONS;

const OBJECTS: &str = "/apis/example.com/v1/namespaces/default/widgets";
const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";
const YAML: &str = "application/yaml";
const JSON: &str = "application/json";

/// Memory that a refused response may use.
const MOST: u64 = 400 << 20;

/// Defines Widgets, which may contain anything, with `columns` that all show the spec.
async fn define_widgets(tenant: &Client, columns: usize) {
    let column = |number| json!({ "name": format!("c{number}"), "type": "string", "jsonPath": ".spec" });
    let columns: Vec<Value> = (0..columns).map(column).collect();
    let definition = json!({
        "metadata": { "name": "widgets.example.com" },
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": { "plural": "widgets", "kind": "Widget" },
            "versions": [{
                "name": "v1", "served": true, "storage": true, "additionalPrinterColumns": columns,
                "schema": { "openAPIV3Schema": {
                    "type": "object", "x-kubernetes-preserve-unknown-fields": true,
                } },
            }],
        },
    });
    tenant.post(DEFINITIONS, definition).await.expect(201);
    eventually("widgets are served", async || tenant.get(OBJECTS).await.status == 200).await;
}

async fn create(tenant: &Client, name: &str, spec: &str, query: &str) -> ApiResponse {
    let object = format!(
        r#"{{"apiVersion":"example.com/v1","kind":"Widget","metadata":{{"name":"{name}"}},"spec":{spec}}}"#
    );
    tenant
        .request(Method::POST, &format!("{OBJECTS}{query}"), RequestContent::Raw(JSON, Bytes::from(object)))
        .await
}

async fn get(client: &Client, path: &str, accept: &'static str) -> ApiResponse {
    client.http1().await.unwrap().get_accepting(path, accept).await.unwrap()
}

/// Returns the events of a watch as tables until it ends.
async fn watch(client: &Client, seconds: usize) -> Vec<Value> {
    let answer = get(client, &format!("{OBJECTS}?watch=1&timeoutSeconds={seconds}"), TABLE).await;
    answer.expect_status_code(200);
    answer.text().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Returns a list of `count` numbers, nested in other lists.
fn nested(depth: usize, count: usize) -> String {
    format!("{}{}1{}", "[".repeat(depth), "1,".repeat(count - 1), "]".repeat(depth))
}

async fn start() -> (Arc<TenantServer>, Client) {
    let server = TenantServer::start(&["ann"], &[("--controllers", "false")]);
    create_tenant_workspace(&server.admin(), "root", "team", "ann").await;
    let tenant = server.user("ann", "root:team");
    (Arc::new(server), tenant)
}

/// Measures by how much the memory of the server grows at most.
struct Peak {
    before: u64,
    most: Arc<AtomicU64>,
    done: Arc<AtomicBool>,
    thread: std::thread::JoinHandle<()>,
}

impl Peak {
    fn start(server: &Arc<TenantServer>) -> Peak {
        let (most, done) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let (server, highest, stop) = (server.clone(), most.clone(), done.clone());
        let before = server.atoll.resident();
        let thread = std::thread::spawn(move || {
            while !stop.load(Ordering::SeqCst) {
                highest.fetch_max(server.atoll.resident(), Ordering::SeqCst);
                std::thread::park_timeout(Duration::from_millis(5));
            }
        });
        Peak { before, most, done, thread }
    }

    fn growth(self) -> u64 {
        self.done.store(true, Ordering::SeqCst);
        self.thread.thread().unpark();
        self.thread.join().unwrap();
        self.most.load(Ordering::SeqCst).saturating_sub(self.before)
    }
}

#[track_caller]
fn assert_refused(answer: &ApiResponse) {
    answer.expect_status_code(413);
    assert!(answer.text().contains("MiB of memory to respond to this request"), "{}", answer.text());
}

#[tokio::test(flavor = "multi_thread")]
async fn tables_that_repeat_a_field_are_counted_while_they_are_made() {
    let (server, tenant) = start().await;
    define_widgets(&tenant, 1000).await;
    let small = json!("small").to_string();
    create(&tenant, "small", &small, "").await.expect_status_code(201);
    // A table of this one is larger than its JSON, but not too large.
    create(&tenant, "medium", &json!("m".repeat(10_000)).to_string(), "").await.expect_status_code(201);
    let large = json!("y".repeat(1_000_000)).to_string();
    create(&tenant, "large", &large, "").await.expect_status_code(201);
    let peak = Peak::start(&server);
    for path in [OBJECTS.to_string(), format!("{OBJECTS}/large")] {
        assert_refused(&get(&tenant, &path, TABLE).await);
    }
    // Objects come in the order of their names, so the watch begins and ends with the error.
    let events = watch(&tenant, 60).await;
    assert_eq!(events.len(), 1);
    assert_eq!((&events[0]["type"], &events[0]["object"]["code"]), (&json!("ERROR"), &json!(413)));
    let growth = peak.growth();
    println!("refused tables: {} MiB more", growth >> 20);
    assert!(growth < MOST, "{} MiB more in use for tables that were refused", growth >> 20);
    // Other tables are whole.
    for (name, length) in [("small", 5), ("medium", 10_000)] {
        let table = get(&tenant, &format!("{OBJECTS}/{name}"), TABLE).await.expect(200);
        let cells = table["rows"][0]["cells"].as_array().unwrap();
        assert_eq!((cells.len(), &cells[0]), (1001, &json!(name)));
        assert!(cells[1..].iter().all(|cell| cell.as_str().unwrap().len() == length));
    }
    tenant.delete(&format!("{OBJECTS}/large")).await.expect_status_code(200);
    let list = get(&tenant, OBJECTS, TABLE).await.expect(200);
    assert_eq!(list["rows"].as_array().unwrap().len(), 2);
    let events = watch(&tenant, 5).await;
    assert_eq!(events.len(), 2);
    for (number, length) in [10_000, 5].into_iter().enumerate() {
        let (kind, table) = (&events[number]["type"], &events[number]["object"]);
        let cell = table["rows"][0]["cells"][1000].as_str().map(str::len);
        assert_eq!((kind, cell), (&json!("ADDED"), Some(length)));
        let columns = table["columnDefinitions"].as_array().map(Vec::len);
        assert_eq!(columns, (number == 0).then_some(1001), "columns are sent once");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn indentation_is_counted_while_it_is_written() {
    let (server, tenant) = start().await;
    define_widgets(&tenant, 1).await;
    create(&tenant, "small", &nested(50, 3), "").await.expect_status_code(201);
    create(&tenant, "medium", &nested(100, 60_000), "").await.expect_status_code(201);
    create(&tenant, "large", &nested(500, 1_400_000), "").await.expect_status_code(201);
    let peak = Peak::start(&server);
    for name in ["/large", ""] {
        assert_refused(&get(&tenant, &format!("{OBJECTS}{name}?pretty=true"), JSON).await);
        assert_refused(&get(&tenant, &format!("{OBJECTS}{name}"), YAML).await);
    }
    // The object is created, and the client learns why it does not see it.
    let created = create(&tenant, "created", &nested(500, 1_400_000), "?pretty=true").await;
    created.expect_status_code(500);
    assert!(created.text().contains("the request was carried out"), "{}", created.text());
    let growth = peak.growth();
    println!("refused indentation: {} MiB more", growth >> 20);
    assert!(growth < MOST, "{} MiB more in use for text that was refused", growth >> 20);
    for name in ["large", "created"] {
        let whole = get(&tenant, &format!("{OBJECTS}/{name}"), JSON).await;
        whole.expect_status_code(200);
        assert!(whole.body.len() > 2_800_000);
    }
    for name in ["small", "medium"] {
        let path = format!("{OBJECTS}/{name}");
        let compact = get(&tenant, &path, JSON).await.expect(200);
        let pretty = get(&tenant, &format!("{path}?pretty=true"), JSON).await;
        assert!(pretty.text().contains("\n  \"kind\""), "{name} is indented");
        assert_eq!(pretty.expect(200), compact);
        let yaml = get(&tenant, &path, YAML).await;
        yaml.expect_status_code(200);
        assert!(yaml.text().contains("kind: Widget"));
    }
}

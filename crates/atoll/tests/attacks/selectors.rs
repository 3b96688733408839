//! Selectors with thousands of terms do not keep the server from others.

use atoll_testkit::wait::eventually;
use atoll_testkit::{Atoll, Client, RequestContent, Setup, Watch};
use http::Method;
use serde_json::{Map, Value, json};

use crate::bindings::{TenantServer, bind, create_tenant_workspace};
use crate::definitions::tenant;
use crate::support::raw::Raw;
use crate::support::{CONFIG_MAPS, config_map_with};

/// Length of a selector, about as much as fits into a URL.
const LENGTH: usize = 60_000;
/// Number of lists whose cost is measured.
const LISTS: usize = 10;
/// Number of objects in them.
const OBJECTS: usize = 300;
/// Processor time that does not count, in hundredths of a second.
const TOLERANCE: u64 = 40;
/// More watches with long selectors than a user may open.
const MANY_WATCHES: usize = 300;
/// Number of small requests that must be answered before the long lists.
const SMALL_REQUESTS: usize = 20;

/// Returns a selector with as many terms as possible.
fn terms(term: impl Fn(u32) -> String) -> String {
    let mut selector = String::new();
    for number in 0.. {
        if selector.len() > LENGTH {
            break;
        }
        selector += &term(number);
        selector.push(',');
    }
    selector.pop();
    selector
}

/// Returns a short key of a label.
fn key(number: u32) -> String {
    [number / 1296, number / 36 % 36, number % 36]
        .map(|digit| char::from_digit(digit, 36).unwrap())
        .iter()
        .collect()
}

/// Returns the processor time of some lists.
async fn cost_of_lists(atoll: &Atoll, client: &Client, path: &str) -> u64 {
    let before = atoll.processor_ticks();
    for _ in 0..LISTS {
        client.get(path).await.expect(200);
    }
    atoll.processor_ticks() - before
}

#[tokio::test(flavor = "multi_thread")]
async fn long_selectors_cost_little_for_each_object() {
    let atoll = Setup::new().flag("--controllers", false).start();
    let tenant = tenant(&atoll, "team", json!({})).await;
    for number in 0..OBJECTS {
        let labels = json!({ "a": "1", "b": "2", "c": "3" });
        let object = json!({ "metadata": { "name": format!("c{number}"), "labels": labels } });
        tenant.post(CONFIG_MAPS, object).await.expect(201);
    }
    let empty = CONFIG_MAPS.replace("default", "none");
    // Nothing is selected, so that the difference is that of matching.
    for (name, query) in [
        ("one key", format!("labelSelector={},z=z", terms(|number| format!("b!={number}")))),
        ("one list", format!("labelSelector=b+notin+({}),z=z", terms(|number| number.to_string()))),
        ("many keys", format!("labelSelector={},z=z", terms(|number| format!("!{}", key(number))))),
        (
            "one field",
            format!(
                "fieldSelector={},metadata.namespace!=default",
                terms(|number| format!("metadata.name!={number}"))
            ),
        ),
    ] {
        let parsing = cost_of_lists(&atoll, &tenant, &format!("{empty}?{query}")).await;
        let matching = cost_of_lists(&atoll, &tenant, &format!("{CONFIG_MAPS}?{query}")).await;
        println!("{name}: {parsing} ticks without objects, {matching} with {OBJECTS}");
        assert!(matching <= 3 * parsing + TOLERANCE, "{name}: {matching} ticks, {parsing} without objects");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn long_lists_do_not_delay_others() {
    // One thread handles all requests, so that one long list would delay all others.
    let atoll = Setup::new().flag("--controllers", false).variable("TOKIO_WORKER_THREADS", 1).start();
    let tenant = tenant(&atoll, "team", json!({})).await;
    let labels: Map<String, Value> = (0..2000).map(|number| (format!("l{number}"), json!(""))).collect();
    for number in 0..150 {
        let object = json!({ "metadata": { "name": format!("c{number}"), "labels": labels } });
        tenant.post(CONFIG_MAPS, object).await.expect(201);
    }
    // No object has one of the keys, so all of its labels are looked up. The fields are compared at last.
    let labels = terms(|number| format!("!{}", key(number)));
    let path = format!("{CONFIG_MAPS}?labelSelector={labels}&fieldSelector=metadata.namespace!=default");
    for method in [Method::GET, Method::DELETE] {
        let lists: Vec<_> = (0..4)
            .map(|_| {
                let (tenant, method, path) = (tenant.clone(), method.clone(), path.clone());
                tokio::spawn(async move { tenant.request(method, &path, RequestContent::None).await })
            })
            .collect();
        let mut other = atoll.admin().http1().await.unwrap();
        let mut answered = 0;
        while !lists.iter().all(|list| list.is_finished()) {
            let small =
                other.request(Method::GET, "/api/v1/namespaces/default", RequestContent::None).await.unwrap();
            small.expect(200);
            answered += 1;
        }
        for list in lists {
            assert_eq!(list.await.unwrap().expect(200)["items"], json!([]));
        }
        assert!(answered >= SMALL_REQUESTS, "{answered} small requests were answered before {method}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn selectors_of_watches_use_up_the_share_of_their_user_only() {
    let server = TenantServer::start(&["owner", "ann"], &[("--controllers", "false")]);
    let admin = server.admin();
    create_tenant_workspace(&admin, "root", "team", "owner").await;
    bind(&admin, "ann", "cluster-admin", json!({ "kind": "User", "name": "ann" })).await;
    let owner = server.user("owner", "root:team");
    eventually("the workspace is there", async || owner.get(CONFIG_MAPS).await.status == 200).await;
    let query = format!("watch=1&labelSelector={}", terms(|number| format!("!{}", key(number))));
    let open = async || {
        let mut raw = Raw::open(&admin.anonymous()).await;
        let path = format!("{}{CONFIG_MAPS}?{query}", owner.base());
        let head = raw.head("GET", &path, "Authorization: Bearer owner\r\n");
        raw.send(head).await.unwrap();
        let answer = raw.answer().await.unwrap();
        (raw, answer)
    };
    let before = server.atoll.resident();
    let mut held = Vec::new();
    let refused = loop {
        match open().await {
            (raw, answer) if answer.status == 200 && held.len() < MANY_WATCHES => held.push(raw),
            (_, answer) => break answer,
        }
    };
    let grown = server.atoll.resident().saturating_sub(before) >> 20;
    println!("{} watches: {grown} MiB more", held.len());
    assert_eq!(refused.status, 429, "after {}: {}", held.len(), refused.text);
    assert!(refused.text.to_lowercase().contains("retry-after: 1"), "{}", refused.text);
    assert!(grown < 400, "{grown} MiB more in use for {} watches", held.len());
    // Ordinary watches and long ones of other users are possible.
    let ann = server.user("ann", "root");
    for (client, query) in [(&owner, "watch=1&labelSelector=!none"), (&ann, query.as_str())] {
        client.post(CONFIG_MAPS, config_map_with("mine", "1")).await.expect(201);
        let mut watch = Watch::open(client, &format!("{CONFIG_MAPS}?{query}")).await;
        while watch.event().await.name() != "mine" {}
    }
    drop(held);
    eventually("the share of closed connections is free again", async || open().await.1.status == 200).await;
}

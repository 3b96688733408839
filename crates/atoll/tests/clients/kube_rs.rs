//! kube-rs: typed objects, watchers and reflectors that survive a restart of the server, and consistent
//! pages.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use atoll_testkit::Atoll;
use atoll_testkit::wait::{eventually, within};
use futures_util::StreamExt;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, VersionMatch};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::runtime::watcher::{Config, Event};
use kube::runtime::{WatchStreamExt, reflector, watcher};
use kube::{Api, Client, ResourceExt};
use serde_json::json;
use tokio::sync::mpsc;

async fn client(atoll: &Atoll) -> Client {
    let file = Kubeconfig::read_from(atoll.kubeconfig()).unwrap();
    let config = kube::Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await.unwrap();
    Client::try_from(config).unwrap()
}

async fn config_maps(atoll: &Atoll) -> Api<ConfigMap> {
    Api::namespaced(client(atoll).await, "default")
}

fn config_map(name: &str, value: &str) -> ConfigMap {
    serde_json::from_value(crate::support::config_map_with(name, value)).unwrap()
}

fn value(object: &ConfigMap) -> &str {
    object.data.as_ref().and_then(|data| data.get("value")).map_or("", String::as_str)
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_are_created_read_changed_and_deleted() {
    let atoll = Atoll::start();
    let api = config_maps(&atoll).await;
    let created = api.create(&PostParams::default(), &config_map("a", "1")).await.unwrap();
    assert!(created.uid().is_some() && created.creation_timestamp().is_some());
    assert_eq!(api.get("a").await.unwrap(), created);

    let again = api.create(&PostParams::default(), &config_map("a", "2")).await.unwrap_err();
    assert!(matches!(&again, kube::Error::Api(status) if status.is_already_exists()), "{again}");

    let patch = json!({ "metadata": { "labels": { "tier": "web" } }, "data": { "value": "2", "more": "x" } });
    let patched = api.patch("a", &PatchParams::default(), &Patch::Merge(&patch)).await.unwrap();
    assert_eq!((value(&patched), patched.labels()["tier"].as_str()), ("2", "web"));
    assert_ne!(patched.resource_version(), created.resource_version());

    let operations = serde_json::from_value(json!([{ "op": "remove", "path": "/data/more" }])).unwrap();
    let patched = api.patch("a", &PatchParams::default(), &Patch::Json::<()>(operations)).await.unwrap();
    assert_eq!(patched.data, Some(BTreeMap::from([("value".into(), "2".into())])));

    let mut stale = created.clone();
    stale.data = Some(BTreeMap::new());
    let refused = api.replace("a", &PostParams::default(), &stale).await.unwrap_err();
    assert!(matches!(&refused, kube::Error::Api(status) if status.is_conflict()), "{refused}");

    api.create(&PostParams::default(), &config_map("b", "1")).await.unwrap();
    let web = api.list(&ListParams::default().labels("tier=web")).await.unwrap();
    assert_eq!(web.items.iter().map(ResourceExt::name_any).collect::<Vec<_>>(), ["a"]);

    let deleted = api.delete("a", &DeleteParams::default()).await.unwrap();
    assert!(deleted.is_right(), "ConfigMaps must be deleted immediately: {deleted:?}");
    assert!(api.get_opt("a").await.unwrap().is_none());
    let missing = api.get("a").await.unwrap_err();
    assert!(matches!(&missing, kube::Error::Api(status) if status.is_not_found()), "{missing}");
}

#[tokio::test(flavor = "multi_thread")]
async fn list_watcher_survives_a_restart_without_missing_events() {
    watch_across_restart(Config::default()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn streaming_watcher_survives_a_restart_without_missing_events() {
    watch_across_restart(Config::default().streaming_lists()).await;
}

async fn watch_across_restart(config: Config) {
    let mut atoll = Atoll::start_bare();
    let api = config_maps(&atoll).await;
    api.create(&PostParams::default(), &config_map("before", "0")).await.unwrap();

    let (sender, mut receiver) = mpsc::unbounded_channel();
    let watched = api.clone();
    let watching = tokio::spawn(async move {
        let mut stream = watcher(watched, config).default_backoff().boxed();
        while let Some(event) = stream.next().await {
            // Errors mean that the server is down. The watcher retries by itself.
            if let Ok(event) = event
                && sender.send(event).is_err()
            {
                return;
            }
        }
    });
    let mut next = async || match within("the watcher has an event", receiver.recv()).await {
        Some(Event::Init) => "init".to_string(),
        Some(Event::InitApply(object)) => format!("initially {}", object.name_any()),
        Some(Event::InitDone) => "that was all".to_string(),
        Some(Event::Apply(object)) => format!("{} is {}", object.name_any(), value(&object)),
        Some(Event::Delete(object)) => format!("{} is gone", object.name_any()),
        None => panic!("the watcher has ended"),
    };
    for expected in ["init", "initially before", "that was all"] {
        assert_eq!(next().await, expected);
    }

    for round in 0..3 {
        let name = format!("round-{round}");
        let mut expected = Vec::new();
        api.create(&PostParams::default(), &config_map(&name, "0")).await.unwrap();
        expected.push(format!("{name} is 0"));
        for change in 1..5 {
            let patch = Patch::Merge(json!({ "data": { "value": change.to_string() } }));
            api.patch(&name, &PatchParams::default(), &patch).await.unwrap();
            expected.push(format!("{name} is {change}"));
        }
        // Most of these changes have not reached the watcher when the server is killed.
        atoll.kill();
        atoll.restart();
        // The client's pooled connections are closed, which it notices when it uses them.
        eventually("the client has found the server again", async || {
            api.delete(&name, &DeleteParams::default()).await.is_ok()
                || api.get(&name).await.is_err_and(is_not_found)
        })
        .await;
        expected.push(format!("{name} is gone"));
        // A new list would show as "init" between the events.
        for expected in expected {
            assert_eq!(next().await, expected);
        }
    }
    watching.abort();
}

fn is_not_found(error: kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.is_not_found())
}

#[tokio::test(flavor = "multi_thread")]
async fn reflector_has_the_objects_of_the_server_after_restarts() {
    let mut atoll = Atoll::start_bare();
    let api = config_maps(&atoll).await;
    let (store, writer) = reflector::store();
    let stream = reflector(writer, watcher(api.clone(), Config::default()).default_backoff());
    let reflecting = tokio::spawn(stream.for_each(|_| async {}));
    let mut expected = BTreeMap::new();
    for round in 0..3 {
        for number in 0..20 {
            let name = format!("object-{number}");
            let text = format!("{round}-{number}");
            match (round + number) % 3 {
                0 if expected.remove(&name).is_some() => {
                    api.delete(&name, &DeleteParams::default()).await.unwrap();
                }
                _ if expected.insert(name.clone(), text.clone()).is_some() => {
                    let patch = Patch::Merge(json!({ "data": { "value": text } }));
                    api.patch(&name, &PatchParams::default(), &patch).await.unwrap();
                }
                _ => {
                    api.create(&PostParams::default(), &config_map(&name, &text)).await.unwrap();
                }
            }
        }
        eventually("the reflector has the written object", async || {
            let shown = store.state();
            let shown: BTreeMap<_, _> =
                shown.iter().map(|object| (object.name_any(), value(object).to_string())).collect();
            shown == expected
        })
        .await;
        atoll.kill();
        atoll.restart();
        eventually("the client has found the server again", async || {
            api.list(&ListParams::default().limit(1)).await.is_ok()
        })
        .await;
    }
    reflecting.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_of_a_list_are_consistent_under_concurrent_writes() {
    const COUNT: usize = 1200;
    let atoll = Atoll::start_bare();
    let api = config_maps(&atoll).await;
    let creating = futures_util::stream::iter(0..COUNT).map(|number| {
        let api = api.clone();
        async move {
            api.create(&PostParams::default(), &config_map(&format!("object-{number:04}"), "old"))
                .await
                .unwrap()
        }
    });
    creating.buffer_unordered(32).for_each(|_| async {}).await;

    let first = api.list(&ListParams::default().limit(500)).await.unwrap();
    assert_eq!((first.items.len(), first.metadata.remaining_item_count), (500, Some(700)));

    // Other clients change, delete and add objects on all pages that are still to come, and never stop.
    let stop = Arc::new(AtomicBool::new(false));
    let writing = tokio::spawn({
        let (api, stop) = (api.clone(), stop.clone());
        async move {
            let patch = Patch::Merge(json!({ "data": { "value": "new" } }));
            let mut written = 0;
            for number in (500..COUNT).cycle() {
                if stop.load(Ordering::Relaxed) {
                    return written;
                }
                let name = format!("object-{number:04}");
                match number % 3 {
                    0 => drop(api.delete(&name, &DeleteParams::default()).await),
                    1 => drop(api.patch(&name, &PatchParams::default(), &patch).await),
                    _ => {
                        let name = format!("{name}-{written}");
                        drop(api.create(&PostParams::default(), &config_map(&name, "new")).await);
                    }
                }
                written += 1;
            }
            written
        }
    });
    eventually("other clients have written", async || api.get_opt("object-0501").await.unwrap().is_none())
        .await;

    let mut seen = first.items;
    let mut token = first.metadata.continue_;
    while let Some(next) = token.filter(|token| !token.is_empty()) {
        let page = api.list(&ListParams::default().limit(500).continue_token(&next)).await.unwrap();
        assert_eq!(page.metadata.resource_version, first.metadata.resource_version);
        seen.extend(page.items);
        token = page.metadata.continue_;
    }
    stop.store(true, Ordering::Relaxed);
    assert!(writing.await.unwrap() > 0);
    let names: Vec<String> = seen.iter().map(ResourceExt::name_any).collect();
    assert_eq!(names, (0..COUNT).map(|number| format!("object-{number:04}")).collect::<Vec<_>>());
    assert!(seen.iter().all(|object| value(object) == "old"), "a page has an object newer than the list");

    // The same revision requested explicitly, and any newer revision.
    let then = first.metadata.resource_version.unwrap();
    let exact = ListParams::default().at(&then).matching(VersionMatch::Exact);
    let exact = api.list(&exact).await.unwrap();
    assert_eq!((exact.items.len(), exact.metadata.resource_version.as_deref()), (COUNT, Some(then.as_str())));
    assert!(exact.items.iter().all(|object| value(object) == "old"));
    let newer = ListParams::default().at(&then).matching(VersionMatch::NotOlderThan);
    let newer = api.list(&newer).await.unwrap();
    let changed: BTreeSet<&str> = newer.items.iter().map(value).collect();
    assert_eq!(changed, BTreeSet::from(["new", "old"]));
}

#[tokio::test(flavor = "multi_thread")]
async fn only_one_candidate_acquires_a_lease() {
    let atoll = Atoll::start();
    let api: Api<Lease> = Api::namespaced(client(&atoll).await, "default");
    let lease: Lease = serde_json::from_value(json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": { "name": "leader" },
        "spec": { "holderIdentity": "nobody", "leaseDurationSeconds": 15, "leaseTransitions": 0 },
    }))
    .unwrap();
    let lease = api.create(&PostParams::default(), &lease).await.unwrap();
    // All candidates have read the same lease and try to acquire it: the resource version lets exactly one of
    // them succeed.
    let candidates = futures_util::stream::iter(0..16).map(|number| {
        let (api, mut lease) = (api.clone(), lease.clone());
        async move {
            let spec = lease.spec.as_mut().unwrap();
            spec.holder_identity = Some(format!("candidate-{number}"));
            spec.renew_time = Some(MicroTime(k8s_openapi::jiff::Timestamp::now()));
            spec.lease_transitions = Some(1);
            api.replace("leader", &PostParams::default(), &lease).await
        }
    });
    let outcomes: Vec<_> = candidates.buffer_unordered(16).collect().await;
    let (held, refused): (Vec<_>, Vec<_>) = outcomes.into_iter().partition(Result::is_ok);
    assert_eq!((held.len(), refused.len()), (1, 15));
    for refusal in refused {
        let error = refusal.unwrap_err();
        assert!(matches!(&error, kube::Error::Api(status) if status.is_conflict()), "{error}");
    }
    let holder = held.into_iter().next().unwrap().unwrap();
    assert_eq!(api.get("leader").await.unwrap(), holder);
    // Microseconds are kept: without them a renewal within the same second would change nothing.
    let renewed = serde_json::to_value(&holder).unwrap()["spec"]["renewTime"].as_str().unwrap().to_string();
    let (_, fraction) = renewed.trim_end_matches('Z').split_once('.').unwrap();
    assert_eq!(fraction.len(), 6, "{renewed}");
}

use serde_json::json;

use super::*;

const NOW: Duration = Duration::from_secs(1000);

fn node(name: &str, cpu: &str) -> Value {
    json!({"metadata": {"name": name}, "status": {"allocatable": {"cpu": cpu, "memory": "4Gi", "pods": "10"}}})
}

fn pod(name: &str, cpu: &str) -> Value {
    json!({
        "metadata": {"namespace": "default", "name": name, "uid": format!("uid of {name}")},
        "spec": {"schedulerName": "default-scheduler", "containers": [{"resources": {"requests": {"cpu": cpu}}}]},
    })
}

fn on(node: &str, mut pod: Value) -> Value {
    pod["spec"]["nodeName"] = node.into();
    pod
}

fn scheduler() -> Scheduler {
    Scheduler::new("default-scheduler".into())
}

/// Returns the next decision as text.
fn next(scheduler: &mut Scheduler, now: Duration) -> String {
    match scheduler.next(now, &mut || 0) {
        None => "nothing".to_owned(),
        Some(Decision::Bind { pod, node, .. }) => format!("{} to {node}", pod.name),
        Some(Decision::Refuse { pod, preemption: Some(preemption), .. }) => {
            format!("{} to {} for {} victims", pod.name, preemption.node, preemption.victims.len())
        }
        Some(Decision::Refuse { pod, .. }) => format!("{} to nowhere", pod.name),
    }
}

fn decided(scheduler: &mut Scheduler, wanted: &[&str]) {
    for wanted in wanted {
        assert_eq!(next(scheduler, NOW), *wanted);
    }
    assert_eq!(next(scheduler, NOW), "nothing");
}

#[test]
fn decisions_are_assumed_at_once() {
    let mut scheduler = scheduler();
    scheduler.set_node(&node("a", "1"), NOW);
    for name in ["p", "q"] {
        scheduler.set_pod(&pod(name, "1"), NOW);
    }
    decided(&mut scheduler, &["p to a", "q to nowhere"]);
    // Updates of an assumed Pod change nothing.
    scheduler.set_pod(&pod("p", "1"), NOW);
    decided(&mut scheduler, &[]);
}

#[test]
fn failed_binding_is_retried_after_backoff() {
    let mut scheduler = scheduler();
    scheduler.set_node(&node("a", "1"), NOW);
    scheduler.set_pod(&pod("p", "1"), NOW);
    let Some(Decision::Bind { pod, .. }) = scheduler.next(NOW, &mut || 0) else { panic!("no decision") };
    scheduler.unbound(&pod, NOW);
    decided(&mut scheduler, &[]);
    assert_eq!(scheduler.next_flush(NOW), Some(NOW + Duration::from_secs(1)));
    assert_eq!(next(&mut scheduler, NOW + Duration::from_secs(1)), "p to a");
}

#[test]
fn bound_gated_and_foreign_pods_are_ignored() {
    let mut scheduler = scheduler();
    scheduler.set_node(&node("a", "1"), NOW);
    scheduler.set_pod(&on("a", pod("p", "500m")), NOW);
    let mut others = pod("q", "1");
    others["spec"]["schedulerName"] = "another".into();
    scheduler.set_pod(&others, NOW);
    let mut gated = pod("r", "1");
    gated["spec"]["schedulingGates"] = json!([{"name": "g"}]);
    scheduler.set_pod(&gated, NOW);
    let mut leaving = pod("s", "1");
    leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    scheduler.set_pod(&leaving, NOW);
    decided(&mut scheduler, &[]);
    // Without its gates, the Pod is scheduled.
    scheduler.set_pod(&pod("r", "500m"), NOW);
    decided(&mut scheduler, &["r to a"]);
}

#[test]
fn helpful_events_requeue_pods() {
    let later = NOW + Duration::from_secs(60);
    let placed = on("a", pod("first", "1"));
    let mut finished = placed.clone();
    finished["status"]["phase"] = "Succeeded".into();
    let key: PodKey = ("default".into(), "first".into());
    type Change = fn(&mut Scheduler, &Value, &PodKey, Duration);
    let table: [(&str, Change, &str); 6] = [
        ("an unchanged node", |scheduler, _, _, now| scheduler.set_node(&node("a", "1"), now), "nothing"),
        ("a larger node", |scheduler, _, _, now| scheduler.set_node(&node("a", "2"), now), "p to a"),
        ("another node", |scheduler, _, _, now| scheduler.set_node(&node("b", "1"), now), "p to b"),
        ("a Pod is deleted", |scheduler, _, key, now| scheduler.remove_pod(key, now), "p to a"),
        ("a Pod is finished", |scheduler, finished, _, now| scheduler.set_pod(finished, now), "p to a"),
        ("the Pod needs less", |scheduler, _, _, now| scheduler.set_pod(&pod("p", "0"), now), "p to a"),
    ];
    for (what, change, wanted) in table {
        let mut scheduler = scheduler();
        scheduler.set_node(&node("a", "1"), NOW);
        scheduler.set_pod(&placed, NOW);
        scheduler.set_pod(&pod("p", "1"), NOW);
        decided(&mut scheduler, &["p to nowhere"]);
        change(&mut scheduler, &finished, &key, later);
        assert_eq!(next(&mut scheduler, later), wanted, "{what}");
    }
}

#[test]
fn recreated_pod_is_another_pod() {
    let mut scheduler = scheduler();
    scheduler.set_node(&node("a", "1"), NOW);
    scheduler.set_pod(&on("a", pod("p", "1")), NOW);
    let mut repeated = pod("p", "1");
    repeated["metadata"]["uid"] = "another".into();
    scheduler.set_pod(&repeated, NOW);
    decided(&mut scheduler, &["p to a"]);
}

#[test]
fn nominated_node_is_kept_for_the_preemptor() {
    let mut scheduler = scheduler();
    scheduler.set_node(&node("a", "1"), NOW);
    scheduler.set_pod(&on("a", pod("victim", "1")), NOW);
    let mut important = pod("important", "1");
    important["spec"]["priority"] = 10.into();
    scheduler.set_pod(&important, NOW);
    decided(&mut scheduler, &["important to a for 1 victims"]);
    // Until then, no further Pod is evicted.
    scheduler.set_node(&node("b", "500m"), NOW);
    decided(&mut scheduler, &["important to nowhere"]);
    scheduler.remove_pod(&("default".into(), "victim".into()), NOW);
    let mut quick = pod("quick", "1");
    quick["spec"]["priority"] = 5.into();
    scheduler.set_pod(&quick, NOW);
    decided(&mut scheduler, &["quick to nowhere", "important to a"]);
}

#[test]
fn empty_scheduler_is_idle() {
    let mut scheduler = scheduler();
    assert!(scheduler.is_idle());
    scheduler.set_node(&node("a", "1"), NOW);
    scheduler.set_pod(&pod("p", "1"), NOW);
    assert!(!scheduler.is_idle());
    decided(&mut scheduler, &["p to a"]);
    scheduler.remove_pod(&("default".into(), "p".into()), NOW);
    scheduler.remove_node("a", NOW);
    assert!(scheduler.is_idle());
}

#[test]
fn pod_events_requeue_concerned_pods() {
    let later = NOW + Duration::from_secs(60);
    let labelled = |name: &str, app: &str, spec: Value| {
        let mut pod = pod(name, "0");
        pod["metadata"]["labels"] = json!({"app": app});
        for (field, value) in spec.as_object().into_iter().flatten() {
            pod["spec"][field] = value.clone();
        }
        pod
    };
    let term =
        json!([{"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "db"}}}]);
    let near = json!({"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": term}}});
    let apart =
        json!({"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": term}}});
    let port = json!({"containers": [{"ports": [{"hostPort": 80}]}]});
    // Existing Pods, the Pod, the Pod that is added or else removed, and the decision.
    let db = || on("a", labelled("db", "db", json!({})));
    let web = || on("a", labelled("web", "web", json!({})));
    let taken = || on("a", labelled("taken", "web", port.clone()));
    let table = [
        (vec![], &near, Some(web()), "nothing"),
        (vec![], &near, Some(db()), "p to a"),
        (vec![db(), web()], &apart, None, "nothing"),
        (vec![web(), db()], &apart, None, "p to a"),
        (vec![taken(), web()], &port, None, "nothing"),
        (vec![web(), taken()], &port, None, "p to a"),
    ];
    for (placed, spec, comes, wanted) in table {
        let mut scheduler = scheduler();
        let mut node = node("a", "1");
        node["metadata"]["labels"] = json!({"kubernetes.io/hostname": "a"});
        scheduler.set_node(&node, NOW);
        for pod in &placed {
            scheduler.set_pod(pod, NOW);
        }
        scheduler.set_pod(&labelled("p", "new", spec.clone()), NOW);
        decided(&mut scheduler, &["p to nowhere"]);
        match &comes {
            Some(pod) => scheduler.set_pod(pod, later),
            None => {
                let last = placed.last().map(object::name).unwrap_or_default();
                scheduler.remove_pod(&("default".into(), last.into()), later);
            }
        }
        assert_eq!(next(&mut scheduler, later), wanted, "{placed:?} {spec} {comes:?}");
    }
}

#[test]
fn pod_with_affinity_is_requeued_when_its_target_is_assigned() {
    let mut scheduler = scheduler();
    let mut node = node("a", "1");
    node["metadata"]["labels"] = json!({"kubernetes.io/hostname": "a"});
    let mut follower = pod("follower", "0");
    let term =
        json!({"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "db"}}});
    follower["spec"]["affinity"] =
        json!({"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}});
    scheduler.set_node(&node, NOW);
    scheduler.set_pod(&follower, NOW);
    decided(&mut scheduler, &["follower to nowhere"]);
    let mut leader = pod("leader", "0");
    leader["metadata"]["labels"] = json!({"app": "db"});
    scheduler.set_pod(&leader, NOW);
    decided(&mut scheduler, &["leader to a"]);
    scheduler.set_pod(&on("a", leader), NOW);
    decided(&mut scheduler, &["follower to a"]);
}

use serde_json::json;

use super::*;

const START: i64 = 1_700_000_000;

fn at(millis: u64) -> SimTime {
    SimTime { millis, seconds: START + (millis / 1000).cast_signed() }
}

/// A pod on a node, as in the API, with its simulated state.
struct Stage {
    object: Value,
    pod: Pod,
    crashing: bool,
    refuses: Option<(&'static str, &'static str)>,
}

impl Stage {
    fn new(spec: Value) -> Stage {
        let object = json!({
            "metadata": {"name": "p", "uid": "u", "generation": 1, "annotations": {}},
            "spec": spec,
        });
        let pod = Pod::new(&object, at(0));
        Stage { object, pod, crashing: false, refuses: None }
    }

    fn step(&mut self, millis: u64) -> PodStep {
        let crashing = self.crashing;
        let environment = NodeEnvironment {
            start_delay: 100,
            address: "10.1.0.1",
            host: "127.0.0.1",
            refuses: self.refuses,
            crashes: &|_| crashing,
        };
        let step = self.pod.step(&self.object, at(millis), &environment);
        if let Some(status) = &step.status {
            self.object["status"] = status.clone();
        }
        step
    }

    /// Runs the pod's steps until there are no more, or `until`. Returns the phases with their times.
    fn run(&mut self, from: u64, until: u64) -> Vec<(u64, String)> {
        let (mut now, mut phases): (u64, Vec<(u64, String)>) = (from, Vec::new());
        for _ in 0..1000 {
            let step = self.step(now);
            let phase = self.object["status"]["phase"].as_str().unwrap_or_default().to_string();
            if phases.last().is_none_or(|(_, last)| *last != phase) {
                phases.push((now, phase));
            }
            match step.again {
                Some(again) if now + again <= until && !step.remove => now += again,
                _ => return phases,
            }
        }
        panic!("there is no end to it: {phases:?}");
    }

    fn condition(&self, r#type: &str) -> &str {
        let all = self.object["status"]["conditions"].as_array().unwrap();
        let found = all.iter().find(|condition| condition["type"] == r#type);
        found.map_or("", |condition| condition["status"].as_str().unwrap())
    }

    fn container(&self) -> &Value {
        &self.object["status"]["containerStatuses"][0]
    }
}

fn container(command: &[&str]) -> Value {
    json!({"name": "c", "image": "busybox:1", "command": command})
}

#[test]
fn a_server_starts_after_the_delay_and_is_ready() {
    let mut stage = Stage::new(json!({"containers": [container(&[])]}));
    let step = stage.step(0);
    assert_eq!(step.again, Some(100));
    assert_eq!(stage.object["status"]["phase"], "Pending");
    assert_eq!(stage.container()["state"], json!({"waiting": {"reason": "ContainerCreating"}}));
    assert_eq!(stage.condition("Ready"), "False");
    let step = stage.step(100);
    assert_eq!((step.again, step.remove), (None, false));
    assert_eq!(stage.object["status"]["phase"], "Running");
    assert_eq!(stage.object["status"]["podIP"], "10.1.0.1");
    for r#type in ["PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"] {
        assert_eq!(stage.condition(r#type), "True", "{type}");
    }
    assert!(stage.step(5000).status.is_none(), "an unchanged status is not written");
}

#[test]
fn programs_end_and_policies_decide_what_follows() {
    for (command, policy, phases, restarts) in [
        ("exit 0", "Never", &["Pending", "Succeeded"][..], 0),
        ("sleep 2; exit 3", "Never", &["Pending", "Running", "Failed"], 0),
        ("exit 0", "OnFailure", &["Pending", "Succeeded"], 0),
        ("exit 1", "OnFailure", &["Pending", "Running"], 3),
        ("exit 0", "Always", &["Pending", "Running"], 3),
    ] {
        let mut stage =
            Stage::new(json!({"restartPolicy": policy, "containers": [container(&["sh", "-c", command])]}));
        // Backoff: 10, 20 and 40 seconds.
        let observed_phases = stage.run(0, 75_000);
        let observed_phases: Vec<&str> = observed_phases.iter().map(|(_, phase)| phase.as_str()).collect();
        assert_eq!(observed_phases, phases, "{command} {policy}");
        assert_eq!(stage.container()["restartCount"], restarts, "{command} {policy}");
    }
}

#[test]
fn crashes_back_off_and_end_when_the_fault_does() {
    let mut stage = Stage::new(json!({"containers": [container(&[])]}));
    stage.crashing = true;
    stage.run(0, 25_000);
    assert_eq!(stage.container()["state"]["waiting"]["reason"], "CrashLoopBackOff");
    assert_eq!(stage.container()["lastState"]["terminated"]["exitCode"], 1);
    assert_eq!(stage.condition("Ready"), "False");
    stage.crashing = false;
    stage.run(25_000, 200_000);
    assert!(stage.container()["state"].get("running").is_some());
    assert_eq!(stage.condition("Ready"), "True");
}

#[test]
fn init_containers_come_first_one_after_the_other() {
    let init =
        |name: &str, script: &str| json!({"name": name, "image": "i", "command": ["sh", "-c", script]});
    let mut stage = Stage::new(json!({
        "initContainers": [init("one", "sleep 1"), init("two", "sleep 2")],
        "containers": [container(&[])],
    }));
    stage.step(100);
    assert_eq!(stage.condition("Initialized"), "False");
    assert_eq!(stage.container()["state"]["waiting"]["reason"], "PodInitializing");
    assert_eq!(
        stage.object["status"]["initContainerStatuses"][1]["state"]["waiting"]["reason"],
        "PodInitializing"
    );
    let phases = stage.run(100, 60_000);
    assert_eq!(phases, [(100, "Pending".to_string()), (3100, "Running".to_string())]);
    assert_eq!(stage.condition("Initialized"), "True");
    let mut failing = Stage::new(json!({
        "restartPolicy": "Never", "initContainers": [init("one", "exit 1")], "containers": [container(&[])],
    }));
    assert_eq!(failing.run(0, 60_000).last().unwrap().1, "Failed");
}

#[test]
fn sidecars_run_beside_and_end_with_the_others() {
    let mut stage = Stage::new(json!({
        "restartPolicy": "Never",
        "initContainers": [{"name": "proxy", "image": "i", "restartPolicy": "Always"}],
        "containers": [container(&["sleep", "5"])],
    }));
    let phases = stage.run(0, 60_000);
    let last = (5100, "Succeeded".to_string());
    assert_eq!(phases.last(), Some(&last));
    assert!(stage.object["status"]["initContainerStatuses"][0]["state"].get("terminated").is_some());
}

#[test]
fn probes_decide_over_readiness_and_life() {
    let mut stage = Stage::new(json!({"containers": [{
        "name": "c", "image": "i",
        "startupProbe": {"periodSeconds": 1},
        "readinessProbe": {"initialDelaySeconds": 5, "periodSeconds": 1},
        "livenessProbe": {"periodSeconds": 1, "failureThreshold": 2},
    }]}));
    stage.step(100);
    assert_eq!((stage.container()["started"].as_bool(), stage.condition("Ready")), (Some(true), "False"));
    stage.run(100, 6000);
    assert_eq!(stage.condition("Ready"), "True");
    object::set_annotation(&mut stage.object, PROBES[1], "fail");
    stage.run(6000, 20_000);
    assert_eq!(stage.condition("Ready"), "False");
    assert_eq!(stage.container()["restartCount"], 0);
    object::remove_annotation(&mut stage.object, PROBES[1]);
    object::set_annotation(&mut stage.object, PROBES[2], "fail");
    stage.run(20_000, 40_000);
    assert!(stage.container()["restartCount"].as_i64().unwrap() >= 1);
}

#[test]
fn deletion_waits_for_containers_within_the_grace_period() {
    for (stop_after, grace, gone_at) in [("0s", 30, 5000), ("3s", 30, 8000), ("60s", 2, 7000)] {
        let mut stage = Stage::new(json!({"containers": [container(&[])]}));
        stage.run(0, 1000);
        object::set_annotation(&mut stage.object, STOP_AFTER, stop_after);
        object::set_deletion_timestamp(&mut stage.object, "2026-01-01T00:00:00Z");
        object::set_deletion_grace_period_seconds(&mut stage.object, Some(grace));
        let mut now = 5000;
        loop {
            let step = stage.step(now);
            if step.remove {
                break;
            }
            now += step.again.expect("a next step");
        }
        assert_eq!(now, gone_at, "{stop_after} {grace}");
    }
}

#[test]
fn pods_with_finalizers_get_their_final_status() {
    let mut stage = Stage::new(json!({"containers": [container(&[])], "restartPolicy": "Never"}));
    stage.run(0, 1000);
    object::set_finalizers(&mut stage.object, &["batch.kubernetes.io/job-tracking"]);
    object::set_deletion_timestamp(&mut stage.object, "2026-01-01T00:00:00Z");
    let step = stage.step(2000);
    assert!(step.remove);
    assert_eq!(step.status.unwrap()["phase"], "Succeeded");
}

#[test]
fn full_nodes_refuse_pods_and_deadlines_end_them() {
    let mut stage = Stage::new(json!({"containers": [container(&[])]}));
    stage.refuses = Some(("Evicted", "no room"));
    stage.step(0);
    assert_eq!(
        (&stage.object["status"]["phase"], &stage.object["status"]["reason"]),
        (&json!("Failed"), &json!("Evicted"))
    );
    let mut running = Stage::new(json!({"containers": [container(&[])], "activeDeadlineSeconds": 9}));
    running.step(100);
    running.refuses = Some(("Evicted", "no room"));
    let phases = running.run(200, 60_000);
    assert_eq!(phases, [(200, "Running".to_string()), (9000, "Failed".to_string())]);
    assert_eq!(running.object["status"]["reason"], "DeadlineExceeded");
}

#[test]
fn pods_resume_after_a_restart_and_after_power_loss() {
    let mut stage = Stage::new(json!({"containers": [container(&[])]}));
    stage.run(0, 1000);
    let started_at = stage.container()["state"]["running"]["startedAt"].clone();
    stage.pod = Pod::new(&stage.object, at(50_000));
    assert!(stage.step(50_000).status.is_none());
    assert_eq!(stage.container()["state"]["running"]["startedAt"], started_at);
    stage.pod.stop_all(at(60_000));
    stage.run(60_000, 90_000);
    assert_eq!(stage.container()["restartCount"], 1);
    assert_eq!(stage.container()["lastState"]["terminated"]["exitCode"], 255);
}

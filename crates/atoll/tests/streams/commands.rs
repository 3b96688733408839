//! kubectl exec and attach, over WebSocket and SPDY, to kubelets that speak both or only SPDY.

use atoll_testkit::wait::within;

use crate::harness::{CommandResult, TestCluster, run, with_spdy};

#[tokio::test(flavor = "multi_thread")]
async fn commands_run_over_every_protocol() {
    let cluster = TestCluster::new().await;
    let Some(kubectl) = cluster.kubectl() else { return };
    for kubectl in [kubectl.clone(), with_spdy(&kubectl)] {
        for pod in ["old", "new"] {
            let result = run(&kubectl, &format!("exec -i {pod} -- cat"), "to and fro\n").await;
            assert_eq!(result, CommandResult { out: "to and fro\n".into(), error: String::new(), code: 0 });
            let result = run(&kubectl, &format!("exec {pod} -c main -- both a&b=c +% é"), "").await;
            let expected = CommandResult {
                out: "out a&b=c|+%|é\n".into(),
                error: "err\ncommand terminated with exit code 3\n".into(),
                code: 3,
            };
            assert_eq!(result, expected);
            let result = run(&kubectl, &format!("exec {pod} -- big 3000000"), "").await;
            assert_eq!((result.out.len(), result.code), (3_000_000, 0), "{}", result.error);
            let result = run(&kubectl, &format!("exec {pod} -- nonsense"), "").await;
            let complaint = "error executing command in container: no [\"nonsense\"]";
            assert!(result.error.contains(complaint) && result.code == 1, "{result:?}");
            let result = run(&kubectl, &format!("attach -i {pod}"), "hello\n").await;
            assert_eq!(
                (result.out.as_str(), result.code),
                ("attached to main\nhello\n", 0),
                "{}",
                result.error
            );
        }
    }
    let seen = cluster.kubelet.received();
    assert!(seen.iter().all(|seen| {
        seen.user.starts_with("kube-apiserver-kubelet-client") && !seen.user.contains("system:masters")
    }));
    // Only kubelets with WebSocket support get WebSocket requests.
    let upgrades = |pod: &str| {
        let of_pod = seen.iter().filter(|seen| seen.target.contains(pod));
        let mut kinds: Vec<_> = of_pod.map(|seen| seen.headers["upgrade"].to_str().unwrap()).collect();
        kinds.sort_unstable();
        kinds.dedup();
        kinds
    };
    assert_eq!(upgrades("/old/"), ["SPDY/3.1"]);
    assert_eq!(upgrades("/new/"), ["SPDY/3.1", "websocket"]);
    assert!(seen.iter().all(|seen| !seen.headers.contains_key("authorization")));
}

#[tokio::test(flavor = "multi_thread")]
async fn disconnected_client_ends_its_command() {
    let cluster = TestCluster::new().await;
    let Some(kubectl) = cluster.kubectl() else { return };
    let mut running = cluster.kubelet.running();
    for kubectl in [kubectl.clone(), with_spdy(&kubectl)] {
        for pod in ["old", "new"] {
            let mut command = kubectl.command(&format!("exec {pod} -- wait"));
            let mut child = command.stdout(std::process::Stdio::piped()).spawn().unwrap();
            within("the command runs", running.wait_for(|running| *running == 1)).await.unwrap();
            child.kill().unwrap();
            child.wait().unwrap();
            within("the command ends", running.wait_for(|running| *running == 0)).await.unwrap();
        }
    }
}

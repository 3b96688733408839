//! kubectl exec and attach, over WebSocket and SPDY, to kubelets that speak both or only SPDY.

use crate::support::within;
use crate::world::{Ran, World};

#[tokio::test(flavor = "multi_thread")]
async fn commands_run_whatever_is_spoken() {
    let world = World::new().await;
    let Some(kubectl) = world.kubectl() else { return };
    for kubectl in [kubectl.clone(), kubectl.with_spdy()] {
        for pod in ["old", "new"] {
            let ran = kubectl.run(&format!("exec -i {pod} -- cat"), "to and fro\n").await;
            assert_eq!(ran, Ran { out: "to and fro\n".into(), error: String::new(), code: 0 });
            let ran = kubectl.run(&format!("exec {pod} -c main -- both a&b=c +% é"), "").await;
            let expected = Ran {
                out: "out a&b=c|+%|é\n".into(),
                error: "err\ncommand terminated with exit code 3\n".into(),
                code: 3,
            };
            assert_eq!(ran, expected);
            let ran = kubectl.run(&format!("exec {pod} -- big 3000000"), "").await;
            assert_eq!((ran.out.len(), ran.code), (3_000_000, 0), "{}", ran.error);
            let ran = kubectl.run(&format!("exec {pod} -- nonsense"), "").await;
            let complaint = "error executing command in container: no [\"nonsense\"]";
            assert!(ran.error.contains(complaint) && ran.code == 1, "{ran:?}");
            let ran = kubectl.run(&format!("attach -i {pod}"), "hello\n").await;
            assert_eq!((ran.out.as_str(), ran.code), ("attached to main\nhello\n", 0), "{}", ran.error);
        }
    }
    let seen = world.kubelet.seen();
    assert!(seen.iter().all(|seen| {
        seen.user.starts_with("kube-apiserver-kubelet-client") && !seen.user.contains("system:masters")
    }));
    // Only whoever understands WebSockets gets them.
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
async fn a_client_that_goes_away_takes_its_command_with_it() {
    let world = World::new().await;
    let Some(kubectl) = world.kubectl() else { return };
    let mut running = world.kubelet.running();
    for kubectl in [kubectl.clone(), kubectl.with_spdy()] {
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

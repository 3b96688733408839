//! kubectl logs, completed and followed.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use atoll_testkit::wait::within;

use crate::harness::{PODS, TestCluster, run};

#[tokio::test(flavor = "multi_thread")]
async fn logs_are_passed_through_from_the_kubelet() {
    let cluster = TestCluster::new().await;
    let answer = cluster.admin.get(&format!("{PODS}/old/log?tailLines=3&previous=true&pretty=1")).await;
    assert_eq!((answer.status, answer.text().as_str()), (200, "log of main: previous=true&tailLines=3\n"));
    assert_eq!(answer.header("content-type"), Some("text/plain"));
    let seen = cluster.kubelet.last("/containerLogs/");
    assert_eq!(
        (seen.method.as_str(), seen.target.as_str()),
        ("GET", "/containerLogs/default/old/main?previous=true&tailLines=3")
    );
    let Some(kubectl) = cluster.kubectl() else { return };
    for (line, expected) in [
        ("logs old", ""),
        ("logs old --tail 5 --timestamps", "tailLines=5&timestamps=true"),
        ("logs old --previous --since 10s", "previous=true&sinceSeconds=10"),
        ("logs old -c main --limit-bytes 7", "limitBytes=7"),
    ] {
        let result = run(&kubectl, line, "").await;
        assert_eq!(
            (result.out, result.code),
            (format!("log of main: {expected}\n"), 0),
            "{line}: {}",
            result.error
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn logs_are_followed_until_the_client_disconnects() {
    let cluster = TestCluster::new().await;
    let Some(kubectl) = cluster.kubectl() else { return };
    let mut followed = cluster.kubelet.followed();
    let mut child = kubectl.command("logs -f old").stdout(Stdio::piped()).spawn().unwrap();
    let stdout = child.stdout.take().unwrap();
    let line = tokio::task::spawn_blocking(move || BufReader::new(stdout).lines().next().unwrap().unwrap());
    assert_eq!(within("a line is printed", line).await.unwrap(), "log of main: follow=true");
    assert_eq!(*followed.borrow_and_update(), 1);
    child.kill().unwrap();
    child.wait().unwrap();
    within("the kubelet's log stream has ended", followed.wait_for(|followed| *followed == 0)).await.unwrap();
}

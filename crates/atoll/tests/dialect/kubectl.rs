//! kcp's manifests applied with kubectl, as in kcp's demos. Without Go the test prints so and passes.

use atoll_testkit::{Atoll, Kubectl};

use crate::kubeconfig;

fn run(kubectl: &Kubectl, line: &str, input: &str) -> String {
    let output = kubectl.run_with_input(line, input);
    assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Returns a manifest as in kcp's `contrib/demo/clusters`.
fn manifest(kind: &str, name: &str, kubeconfig: &str) -> String {
    let indented: String = kubeconfig.lines().map(|line| format!("    {line}\n")).collect();
    format!(
        "apiVersion: workload.kcp.dev/v1alpha1\nkind: {kind}\nmetadata:\n  name: {name}\nspec:\n  kubeconfig: |\n{indented}"
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn kcp_manifests_can_be_applied() {
    let server = Atoll::start_bare();
    let Some(kubectl) = Kubectl::new(&server.kubeconfig()) else { return };
    let run = |line: &str, input: &str| run(&kubectl, line, input);
    server.run("dialect enable kcp");
    for (kind, plural) in [("Cluster", "clusters"), ("WorkloadCluster", "workloadclusters")] {
        let resource = format!("{plural}.workload.kcp.dev");
        let name = format!("{}.workload.kcp.dev/us-east1", kind.to_lowercase());
        let text = manifest(kind, "us-east1", &kubeconfig("s3cr3t-one"));
        let planned = run("apply --dry-run=server -f - -o yaml", &text);
        assert!(!planned.contains("s3cr3t"), "{planned}");
        assert_eq!(run("apply -f -", &text), format!("{name} created\n"));
        let version =
            |shown: &str| shown.lines().find(|line| line.contains("resourceVersion")).unwrap().to_string();
        let first = run(&format!("get {resource} us-east1 -o yaml"), "");
        assert!(!first.contains("s3cr3t"), "{first}");
        // Applying again writes nothing.
        run("apply -f -", &text);
        assert_eq!(version(&run(&format!("get {resource} us-east1 -o yaml"), "")), version(&first));
        // `kubectl diff` shows no difference.
        assert_eq!(run("diff -f -", &text), "");
        let other = manifest(kind, "us-east1", &kubeconfig("s3cr3t-two"));
        assert_eq!(run("apply -f -", &other), format!("{name} configured\n"));
        let second = run(&format!("get {resource} us-east1 -o yaml"), "");
        assert!(!second.contains("s3cr3t") && version(&second) != version(&first), "{second}");
        run("apply --server-side --force-conflicts -f -", &other);
        let wide = run(&format!("get {resource} -o wide"), "");
        let header = wide.lines().next().unwrap().split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(header, "NAME LOCATION READY SYNCED API RESOURCES");
        let explained = run(&format!("explain {plural}.spec --api-version=workload.kcp.dev/v1alpha1"), "");
        assert!(explained.contains("kubeconfig"), "{explained}");
        assert!(run("get kcp -o name", "").contains(&name));
        run(&format!("delete {resource} us-east1"), "");
    }
}

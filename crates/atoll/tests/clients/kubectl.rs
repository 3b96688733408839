//! kubectl 1.36 as `upstream/build` builds it. Without Go these tests print so and pass.

mod atoll_kinds;
mod comparison;
mod openapi_commands;
mod plugin;

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;

use atoll_testkit::wait::WAIT_TIMEOUT;
use atoll_testkit::{Atoll, Kubectl, Programs, Setup, atoll, succeed};
use serde_json::{Value, json};

/// Returns whether a word is an age in seconds or minutes, which differs from run to run.
pub fn is_recent(word: &str) -> bool {
    let is_count = |number: &str| number.parse::<u16>().is_ok();
    let (minutes, seconds) =
        word.split_once('m').map_or((None, word), |(minutes, rest)| (Some(minutes), rest));
    minutes.is_none_or(is_count)
        && (minutes.is_some() && seconds.is_empty() || seconds.strip_suffix('s').is_some_and(is_count))
}

/// Excludes the ConfigMap that exists in every namespace.
const EXCEPT_ROOT_CA: &str = "--field-selector metadata.name!=kube-root-ca.crt";

/// Returns one object of every kind that this suite covers, and a field of it that can change.
fn kinds() -> Vec<(&'static str, Value, &'static str)> {
    let object = |version: &str, kind: &str, rest: Value| {
        let mut object = json!({ "apiVersion": version, "kind": kind, "metadata": { "name": "one", "labels": { "a": "1" } } });
        object.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
        object
    };
    let involved = json!({ "kind": "ConfigMap", "name": "one", "namespace": "default" });
    let event = json!({ "involvedObject": involved, "reason": "Tested", "message": "old", "type": "Normal" });
    vec![
        ("namespace", object("v1", "Namespace", json!({})), "/metadata/annotations"),
        ("configmap", object("v1", "ConfigMap", json!({ "data": { "key": "old" } })), "/data/key"),
        ("secret", object("v1", "Secret", json!({ "data": { "key": "b2xk" } })), "/data/key"),
        ("event", object("v1", "Event", event), "/message"),
        (
            "lease.coordination.k8s.io",
            object("coordination.k8s.io/v1", "Lease", json!({ "spec": { "holderIdentity": "old" } })),
            "/spec/holderIdentity",
        ),
    ]
}

#[test]
fn objects_of_every_kind_are_created_changed_and_deleted() {
    let atoll = Atoll::start();
    let Some(kubectl) = Kubectl::new(&atoll.kubeconfig()) else { return };
    for (kind, mut object, field) in kinds() {
        assert_eq!(kubectl.run_with_file("create", &object), format!("{kind}/one created\n"));
        let created = kubectl.json(&format!("get {kind} one"));
        assert_eq!(created["kind"], object["kind"]);
        assert_eq!(created["metadata"]["labels"]["a"], "1");

        // Labels and annotations, and selection by label.
        let line = kubectl.run(&format!("label {kind} one a=2 b=3 --overwrite"));
        assert_eq!(line, format!("{kind}/one labeled\n"));
        let line = kubectl.run(&format!("annotate {kind} one note=x"));
        assert_eq!(line, format!("{kind}/one annotated\n"));
        assert_eq!(kubectl.run(&format!("get {kind} -l a=2,b -o name")), format!("{kind}/one\n"));
        assert_eq!(kubectl.run(&format!("get {kind} -l a!=2,b -o name")), "");
        let selected = kubectl.run(&format!("get {kind} --field-selector metadata.name=one -o name"));
        assert_eq!(selected, format!("{kind}/one\n"));

        // Both types of patches.
        let patch = json!([{ "op": "replace", "path": "/metadata/labels/b", "value": "4" }]);
        kubectl.run(&format!("patch {kind} one --type json -p {patch}"));
        let patch = json!({ "metadata": { "labels": { "c": "5" }, "annotations": null } });
        let line = kubectl.run(&format!("patch {kind} one --type merge -p {patch}"));
        assert_eq!(line, format!("{kind}/one patched\n"));
        let line = kubectl.run(&format!("patch {kind} one --type merge -p {patch}"));
        assert_eq!(line, format!("{kind}/one patched (no change)\n"));
        let patched = kubectl.json(&format!("get {kind} one"));
        let labels = patched["metadata"]["labels"].as_object().unwrap();
        let labels: Vec<String> = ["a", "b", "c"].map(|name| labels[name].to_string()).to_vec();
        assert_eq!(labels.join(""), "\"2\"\"4\"\"5\"");
        assert!(patched["metadata"]["annotations"].is_null(), "{patched}");

        // Replaced with a changed copy of the object that was read.
        object = patched.clone();
        match field {
            "/metadata/annotations" => object["metadata"]["annotations"] = json!({ "new": "bmV3" }),
            field => *object.pointer_mut(field).unwrap() = "bmV3".into(),
        }
        assert_eq!(kubectl.run_with_file("replace", &object), format!("{kind}/one replaced\n"));
        let replaced = kubectl.json(&format!("get {kind} one"));
        assert_eq!(replaced.pointer(field), object.pointer(field));
        assert_eq!(replaced["metadata"]["uid"], created["metadata"]["uid"]);

        // YAML and JSON output are equal.
        let yaml = kubectl.run(&format!("get {kind} one -o yaml"));
        let yaml: Value = serde_saphyr::from_str(&yaml).unwrap();
        assert_eq!(yaml, replaced);

        // kubectl returns when the object is deleted.
        let line = kubectl.run(&format!("delete {kind} one"));
        assert!(line.starts_with(kind) && line.contains("\"one\" deleted"), "{line}");
        let refused = kubectl.run_failing(&format!("get {kind} one"));
        assert!(refused.contains("(NotFound)") && refused.contains("\"one\" not found"), "{refused}");
    }
}

#[test]
fn get_with_watch_prints_events() {
    let atoll = Atoll::start();
    let Some(kubectl) = Kubectl::new(&atoll.kubeconfig()) else { return };
    kubectl.run("create configmap first");
    let lines =
        OutputLines::of(kubectl.command(&format!(
            "get configmaps -w --output-watch-events -o json -l app!=other {EXCEPT_ROOT_CA}"
        )));
    assert_eq!(lines.event(), "ADDED first");
    kubectl.run("create configmap second");
    assert_eq!(lines.event(), "ADDED second");
    kubectl.run("label configmap first x=y");
    assert_eq!(lines.event(), "MODIFIED first");
    // Out of the selection and back.
    kubectl.run("label configmap second app=other");
    assert_eq!(lines.event(), "DELETED second");
    kubectl.run("label configmap second app=this --overwrite");
    assert_eq!(lines.event(), "ADDED second");
    kubectl.run("delete configmap first");
    assert_eq!(lines.event(), "DELETED first");
}

/// Lines that a running kubectl prints.
struct OutputLines {
    child: Child,
    receiver: mpsc::Receiver<String>,
}

impl OutputLines {
    fn of(mut command: Command) -> OutputLines {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let output = child.stdout.take().unwrap();
        let (sender, receiver) = mpsc::channel();
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        OutputLines { child, receiver }
    }

    fn line(&self) -> String {
        self.receiver.recv_timeout(WAIT_TIMEOUT).expect("kubectl must print another line")
    }

    /// The next watch event.
    fn event(&self) -> String {
        let event: Value = serde_json::from_str(&self.line()).unwrap();
        let name = &event["object"]["metadata"]["name"];
        format!("{} {}", event["type"].as_str().unwrap(), name.as_str().unwrap())
    }
}

impl Drop for OutputLines {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn wait_returns_when_the_condition_is_met() {
    let atoll = Atoll::start();
    let Some(kubectl) = Kubectl::new(&atoll.kubeconfig()) else { return };
    kubectl.run("create configmap slow --from-literal=state=begun");
    let refused = kubectl.run_failing("wait configmap/slow --for=jsonpath={.data.state}=done --timeout=3s");
    assert!(refused.contains("timed out waiting for the condition"), "{refused}");

    let waiting = OutputLines::of(
        kubectl.command("wait configmap/slow --for=jsonpath={.data.state}=done --timeout=180s"),
    );
    kubectl.run(r#"patch configmap slow --type merge -p {"data":{"state":"done"}}"#);
    assert_eq!(waiting.line(), "configmap/slow condition met");

    // kubectl looks before or after the deletion by chance. It may print a line or not.
    let mut waiting = OutputLines::of(kubectl.command("wait configmap/slow --for=delete --timeout=180s"));
    kubectl.run("delete configmap slow");
    assert!(waiting.child.wait().unwrap().success());
}

#[test]
fn raw_paths_and_discovery_answer() {
    let atoll = Atoll::start();
    let Some(kubectl) = Kubectl::new(&atoll.kubeconfig()) else { return };
    assert_eq!(kubectl.run("get --raw /readyz"), "ok");
    assert!(kubectl.run("get --raw /readyz?verbose").ends_with("readyz check passed\n"));
    let version: Value = serde_json::from_str(&kubectl.run("get --raw /version")).unwrap();
    assert_eq!((&version["major"], &version["minor"]), (&"1".into(), &"36".into()));
    let list: Value =
        serde_json::from_str(&kubectl.run("get --raw /api/v1/namespaces/default/configmaps?limit=1"))
            .unwrap();
    assert_eq!(list["kind"], "ConfigMapList");
    assert!(kubectl.run_failing("get --raw /no/such/path").contains("NotFound"));

    let versions = kubectl.run("api-versions");
    for expected in ["v1", "apps/v1", "coordination.k8s.io/v1", "atoll.dev/v1alpha1"] {
        assert!(versions.lines().any(|line| line == expected), "{versions}");
    }
    let resources = kubectl.run("api-resources --no-headers");
    let shown =
        |line: &[&str]| resources.lines().any(|found| found.split_whitespace().eq(line.iter().copied()));
    assert!(shown(&["configmaps", "cm", "v1", "true", "ConfigMap"]), "{resources}");
    assert!(shown(&["namespaces", "ns", "v1", "false", "Namespace"]), "{resources}");
    assert!(shown(&["leases", "coordination.k8s.io/v1", "true", "Lease"]), "{resources}");
    assert!(shown(&["workspaces", "ws", "atoll.dev/v1alpha1", "false", "Workspace"]), "{resources}");
    let names = kubectl.run("api-resources -o name --namespaced=false --verbs=watch");
    assert!(names.lines().any(|line| line == "namespaces") && !names.contains("configmaps"), "{names}");
}

#[test]
fn printed_kubectl_command_works() {
    // A path that needs quoting in a shell.
    let directory = tempfile::tempdir().unwrap();
    let atoll = Setup::new().directory(&directory.path().join("it's my data")).start();
    let Some(programs) = Programs::build(&["kubectl"]) else { return };
    let announcement = atoll.announcement();
    let (_, command) = announcement.split_once("Try: ").unwrap();
    assert!(command.starts_with("kubectl "), "{command}");
    let path = std::env::join_paths(
        std::iter::once(programs.directory().to_path_buf())
            .chain(std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default())),
    );
    let mut shell = Command::new("sh");
    shell.arg("-c").arg(command).env("PATH", path.unwrap()).env("HOME", directory.path());
    let output = succeed(shell.env_remove("KUBECONFIG"));
    let names: Vec<&str> = output.lines().skip(1).filter_map(|line| line.split_whitespace().next()).collect();
    assert_eq!(names, ["default", "kube-node-lease", "kube-public", "kube-system"]);
}

#[test]
fn kubectl_uses_the_current_workspace() {
    let server = Atoll::start();
    let Some(kubectl) = Kubectl::new(&server.kubeconfig()) else { return };
    let enter = |path: &str| {
        succeed(atoll(&["workspace", "use", path]).env("KUBECONFIG", server.kubeconfig()));
    };
    kubectl.run("create configmap in-root");
    succeed(atoll(&["workspace", "create", "team", "--use"]).env("KUBECONFIG", server.kubeconfig()));
    assert_eq!(kubectl.run(&format!("get configmaps -o name {EXCEPT_ROOT_CA}")), "");
    let namespaces = kubectl.run("get namespaces -o name");
    assert_eq!(namespaces.lines().count(), 4, "{namespaces}");
    kubectl.run("create configmap in-team");
    assert_eq!(kubectl.run(&format!("get configmaps -o name {EXCEPT_ROOT_CA}")), "configmap/in-team\n");
    enter("..");
    assert_eq!(kubectl.run(&format!("get configmaps -o name {EXCEPT_ROOT_CA}")), "configmap/in-root\n");
    assert_eq!(kubectl.run("get workspaces -o name"), "workspace.atoll.dev/team\n");
    enter("root:team");
    assert_eq!(kubectl.run(&format!("get configmaps -o name {EXCEPT_ROOT_CA}")), "configmap/in-team\n");
}

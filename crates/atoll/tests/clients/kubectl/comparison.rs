//! The same commands on Atoll and on kube-apiserver: kubectl prints the same on both, and prints what is
//! expected.

use atoll_testkit::{Atoll, Kubectl, Setup, TOKEN, TOKENS, Upstream};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};

use super::is_recent;

/// Both servers, and a directory of files that replaces `DIR` in commands.
struct BothServers {
    on_atoll: Kubectl,
    on_upstream: Kubectl,
    files: tempfile::TempDir,
    namespace: &'static str,
    _atoll: Atoll,
}

impl BothServers {
    /// Starts both servers. Returns `None`, with a printed reason, where Go is absent.
    fn start(namespace: &'static str) -> Option<BothServers> {
        let upstream = Upstream::shared()?;
        // As on kube-apiserver, the tests set conditions and taints of nodes.
        let controllers = "*,-nodelifecycle,-taint-eviction-controller";
        let atoll = Setup::new().flag("--controllers", controllers).tokens(TOKENS).start();
        // The same user as on kube-apiserver, with a token.
        let files = tempfile::tempdir().unwrap();
        let kubeconfig = files.path().join("token.kubeconfig");
        std::fs::write(&kubeconfig, atoll.admin().token(TOKEN).kubeconfig()).unwrap();
        let (on_atoll, on_upstream) = (Kubectl::new(&kubeconfig)?, Kubectl::new(&upstream.kubeconfig())?);
        for kubectl in [&on_atoll, &on_upstream] {
            kubectl.run(&format!("create namespace {namespace}"));
        }
        // Atoll creates the account asynchronously. kube-apiserver runs without controllers.
        on_atoll.run(&format!("wait serviceaccount/default --for=create --timeout=180s -n {namespace}"));
        on_upstream.run(&format!("create serviceaccount default -n {namespace}"));
        Some(BothServers { on_atoll, on_upstream, files, namespace, _atoll: atoll })
    }

    fn file(&self, name: &str, object: &Value) {
        std::fs::write(self.files.path().join(name), object.to_string()).unwrap();
    }

    /// Runs each line on both servers. The exit codes must be as given, and the output of both must contain
    /// each part.
    #[track_caller]
    fn check_lines(&self, lines: &[(&str, i32, &[&str])]) {
        for (line, code, parts) in lines {
            let on_atoll = self.normalized_output(&self.on_atoll, line);
            let on_upstream = self.normalized_output(&self.on_upstream, line);
            assert_eq!(on_atoll, on_upstream, "{line}: Atoll is first");
            assert_eq!(on_atoll.0, Some(*code), "{line}: {}", on_atoll.1);
            for part in *parts {
                assert!(on_atoll.1.contains(part), "{line}: {part:?} is not in\n{}", on_atoll.1);
            }
        }
    }

    /// Returns the exit code of kubectl and its output without parts that differ from run to run.
    fn normalized_output(&self, kubectl: &Kubectl, line: &str) -> (Option<i32>, String) {
        let line = line.replace("DIR", &self.files.path().display().to_string());
        let output = kubectl.command(&line).args(["-n", self.namespace]).output().unwrap();
        let text = [output.stdout, output.stderr].concat();
        let text = String::from_utf8(text).unwrap();
        let mut lines: Vec<String> =
            text.lines().filter(|line| !is_run_specific(line)).map(normalized).collect();
        sort_managers(&mut lines);
        (output.status.code(), lines.join("\n"))
    }
}

/// Sorts managers, which are ordered by time in seconds, because two writes may or may not fall into the same
/// second.
fn sort_managers(lines: &mut Vec<String>) {
    for line in lines.iter_mut().filter(|line| line.ends_with(";") && line.contains(":Apply;")) {
        let mut managers: Vec<&str> = line.split_terminator(';').collect();
        managers.sort_unstable();
        *line = managers.join(";");
    }
    let Some(first) = lines.iter().position(|line| line == "managedFields:").map(|line| line + 1) else {
        return;
    };
    let Some(length) = lines[first..].iter().position(|line| line.starts_with("name:")) else { return };
    let fields: Vec<String> = lines.drain(first..first + length).collect();
    let mut managers: Vec<&[String]> =
        fields.chunk_by(|_, next| !next.starts_with("- apiVersion:")).collect();
    managers.sort_unstable();
    let sorted = managers.concat();
    lines.splice(first..first, sorted);
}

/// Returns whether a line differs from run to run: resource versions, uids, creation times, names and times
/// of temporary files, and lines of kubectl's log.
fn is_run_specific(line: &str) -> bool {
    if line.contains(" diff.go:") {
        return true;
    }
    let line = line.trim_start_matches([' ', '+', '-']);
    ["resourceVersion: ", "uid: ", "CreationTimestamp: ", "/tmp/", "diff -u"]
        .iter()
        .any(|start| line.starts_with(start))
}

/// Normalizes whitespace, and replaces current times and ages in seconds or minutes.
fn normalized(line: &str) -> String {
    let year = time::OffsetDateTime::now_utc().year().to_string();
    let words = line.split_whitespace().map(|word| {
        let is_time = word.contains(&year) && word.contains('T') && word.contains('Z');
        if is_time || is_recent(word) { "TIME" } else { word }
    });
    words.collect::<Vec<_>>().join(" ")
}

fn deployment(image: &str) -> Value {
    json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": { "name": "web", "labels": { "tier": "front" } },
        "spec": {
            "replicas": 2,
            "selector": { "matchLabels": { "app": "web" } },
            "template": {
                "metadata": { "labels": { "app": "web" } },
                "spec": { "containers": [{ "name": "web", "image": image }] },
            },
        },
    })
}

#[test]
fn server_side_apply_reports_conflicts_and_takes_over() {
    let Some(servers) = BothServers::start("applied") else { return };
    for revision in ["1", "2", "3"] {
        servers.file(&format!("{revision}.json"), &deployment(&format!("web:{revision}")));
    }
    let managers =
        "get deployment web -o jsonpath={range.metadata.managedFields[*]}{.manager}:{.operation};{end}";
    let whole = "get deployment web -o yaml --show-managed-fields";
    servers.check_lines(&[
        ("apply -f DIR/1.json", 0, &["deployment.apps/web created"]),
        ("diff --server-side -f DIR/2.json", 1, &["- - image: web:1", "+ - image: web:2"]),
        // Fields of client-side apply move to the manager of server-side apply and do not stay with the old
        // one.
        ("apply --server-side -f DIR/2.json", 0, &["deployment.apps/web serverside-applied"]),
        (managers, 0, &["kubectl:Apply"]),
        (whole, 0, &["image: web:2", "f:image"]),
        ("diff --server-side -f DIR/2.json", 0, &[]),
        (
            "apply --server-side --field-manager=other -f DIR/3.json",
            1,
            &[
                "conflict with \"kubectl\"",
                ".spec.template.spec.containers[name=\"web\"].image",
                "--force-conflicts",
            ],
        ),
        ("diff --server-side --field-manager=other -f DIR/3.json", 2, &["conflict with \"kubectl\""]),
        (
            "apply --server-side --field-manager=other --force-conflicts -f DIR/3.json",
            0,
            &["deployment.apps/web serverside-applied"],
        ),
        (managers, 0, &["kubectl:Apply", "other:Apply"]),
        ("apply --server-side -f DIR/2.json", 1, &["conflict with \"other\""]),
        ("apply --server-side -f DIR/3.json", 0, &["serverside-applied"]),
        // Other commands write fields as well.
        ("scale deployment web --replicas=7", 0, &["deployment.apps/web scaled"]),
        (
            "apply --server-side -f DIR/3.json",
            1,
            &["conflict with \"kubectl\" with subresource \"scale\"", ".spec.replicas"],
        ),
        (whole, 0, &["replicas: 7", "subresource: scale"]),
        ("apply --server-side --force-conflicts -f DIR/3.json", 0, &["serverside-applied"]),
        ("apply --server-side --dry-run=server -f DIR/3.json", 0, &["(server dry run)"]),
        (whole, 0, &["replicas: 2"]),
        ("apply view-last-applied deployment/web", 0, &["image: web:3"]),
    ]);
}

#[test]
fn whoami_can_i_and_tokens() {
    let Some(servers) = BothServers::start("asked") else { return };
    servers.check_lines(&[
        ("auth whoami", 0, &["Username admin", "Groups [system:masters system:authenticated]"]),
        ("auth can-i create deployments.apps", 0, &["yes"]),
        ("auth can-i get pods/log", 0, &["yes"]),
        ("auth can-i get /healthz", 0, &["yes"]),
        ("auth can-i eat bananas", 0, &["yes", "the server doesn't have a resource type 'bananas'"]),
        ("create serviceaccount robot", 0, &["serviceaccount/robot created"]),
        ("create token nobody", 1, &["serviceaccounts \"nobody\" not found"]),
        ("create token robot --duration=1s", 1, &["may not specify a duration less than 10 minutes"]),
    ]);
    for kubectl in [&servers.on_atoll, &servers.on_upstream] {
        let token = kubectl.run("create token robot -n asked --duration=20m --audience=them");
        let claims = token.trim().split('.').nth(1).unwrap();
        let claims: Value = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(claims).unwrap()).unwrap();
        assert_eq!(claims["sub"], "system:serviceaccount:asked:robot", "{claims}");
        assert_eq!(claims["aud"], json!(["them"]), "{claims}");
        assert_eq!(claims["exp"].as_i64().unwrap() - claims["iat"].as_i64().unwrap(), 1200, "{claims}");
        assert_eq!(claims["kubernetes.io"]["serviceaccount"]["name"], "robot", "{claims}");
    }
}

#[test]
fn nodes_can_be_cordoned_tainted_and_drained() {
    let Some(servers) = BothServers::start("drained") else { return };
    servers.file("node.json", &json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": "worn" } }));
    let pod = |name: &str| {
        json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": { "name": name, "labels": { "app": name } },
            "spec": {
                "nodeName": "worn",
                "terminationGracePeriodSeconds": 0,
                "containers": [{ "name": "c", "image": "i" }],
            },
        })
    };
    servers.file("free.json", &pod("free"));
    servers.file("kept.json", &pod("kept"));
    // The status says that the budget was counted. Otherwise kubectl would repeat an eviction ten times,
    // every ten seconds.
    let counted = r#"--subresource=status --type=merge -p {"status":{"observedGeneration":1,"desiredHealthy":1,"expectedPods":1,"currentHealthy":0,"disruptionsAllowed":0}}"#;
    let running = r#"--subresource=status --type=merge -p {"status":{"phase":"Running"}}"#;
    servers.check_lines(&[
        ("create -f DIR/node.json", 0, &["node/worn created"]),
        ("cordon worn", 0, &["node/worn cordoned"]),
        ("cordon worn", 0, &["node/worn already cordoned"]),
        ("get node worn", 0, &["worn Unknown,SchedulingDisabled <none>"]),
        ("uncordon worn", 0, &["node/worn uncordoned"]),
        ("taint node worn use=db:NoSchedule", 0, &["node/worn tainted"]),
        ("taint node worn use=db:NoSchedule", 1, &["already has use taint(s)"]),
        ("taint node worn use=web:NoSchedule --overwrite", 0, &["node/worn modified"]),
        ("taint node worn use=x:Sometimes", 1, &["invalid taint effect: Sometimes"]),
        (
            "get node worn -o jsonpath={.spec.taints}",
            0,
            &[r#"{"effect":"NoSchedule","key":"use","value":"web"}"#],
        ),
        ("taint node worn use-", 0, &["node/worn untainted"]),
        ("create -f DIR/free.json", 0, &["pod/free created"]),
        ("drain worn", 1, &["cannot delete Pods that declare no controller"]),
        (
            "drain worn --force --timeout=120s",
            0,
            &["evicting pod drained/free", "pod/free evicted", "node/worn drained"],
        ),
        ("get pod free", 1, &["pods \"free\" not found"]),
        // A pod protected by a budget is not evicted, and can still be deleted.
        ("create -f DIR/kept.json", 0, &["pod/kept created"]),
        (&format!("patch pod kept {running}"), 0, &["pod/kept patched"]),
        ("create pdb keep --selector=app=kept --min-available=1", 0, &["keep created"]),
        (&format!("patch pdb keep {counted}"), 0, &["keep patched"]),
        // kubectl tries once within that timeout, and again only after five seconds.
        (
            "drain worn --force --timeout=4s",
            1,
            &[
                "Cannot evict pod as it would violate the pod's disruption budget.",
                "global timeout reached: TIME",
            ],
        ),
        ("get pod kept", 0, &["kept 0/1 Running 0"]),
        (
            "drain worn --force --disable-eviction --timeout=120s",
            0,
            &["pod/kept deleted", "node/worn drained"],
        ),
        ("delete node worn", 0, &["node \"worn\" deleted"]),
    ]);
}

#[test]
fn wait_for_conditions_and_get_events() {
    let Some(servers) = BothServers::start("awaited") else { return };
    servers.file("1.json", &deployment("web:1"));
    const THEN: &str = "2001-02-03T04:05:06Z";
    servers.file(
        "event.json",
        &json!({
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": { "name": "web.1" },
            "involvedObject": {
                "apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "namespace": "awaited", "fieldPath": "spec",
            },
            "type": "Warning",
            "reason": "Stuck",
            "message": "no room",
            "count": 3,
            "firstTimestamp": THEN,
            "lastTimestamp": THEN,
            "source": { "component": "tester", "host": "here" },
        }),
    );
    let available = r#"{"status":{"conditions":[{"type":"Available","status":"True"}]}}"#;
    servers.check_lines(&[
        ("wait deployment/web --for=create --timeout=3s", 1, &["timed out waiting for the condition"]),
        ("create -f DIR/1.json", 0, &["deployment.apps/web created"]),
        ("wait deployment/web --for=create --timeout=120s", 0, &["deployment.apps/web condition met"]),
        (
            "wait deployment/web --for=condition=Available --timeout=3s",
            1,
            &["timed out waiting for the condition"],
        ),
        (
            &format!("patch deployment web --subresource=status --type=merge -p {available}"),
            0,
            &["deployment.apps/web patched"],
        ),
        (
            "wait deployment/web --for=condition=Available --timeout=120s",
            0,
            &["deployment.apps/web condition met"],
        ),
        (
            "wait deployment -l tier=front --for=jsonpath={.spec.replicas}=2 --timeout=120s",
            0,
            &["condition met"],
        ),
        ("create -f DIR/event.json", 0, &["event/web.1 created"]),
        ("get events -o wide", 0, &["Warning Stuck deployment/web spec tester, here no room", "3 web.1"]),
        ("events --for=deployment/web", 0, &["Warning Stuck Deployment/web no room"]),
        (
            "get events --field-selector involvedObject.kind=Pod",
            0,
            &["No resources found in awaited namespace."],
        ),
        ("get events --field-selector type=Warning,reason=Stuck -o name", 0, &["event/web.1"]),
        ("describe deployment web", 0, &["Available True", "2 desired"]),
    ]);
}

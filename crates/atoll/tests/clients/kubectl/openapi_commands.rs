//! kubectl commands that use OpenAPI: explain, validation, and commands that build objects.

use std::fs;

use atoll_testkit::{Atoll, Kubectl};
use serde_json::{Value, json};

#[test]
fn explain_shows_kinds_and_fields() {
    let atoll = Atoll::start();
    let Some(kubectl) = Kubectl::new(&atoll.kubeconfig()) else { return };
    // Command lines, and parts of the expected output.
    let cases: [(&str, &[&str]); 9] = [
        (
            "explain pod.spec.containers",
            &["KIND:       Pod", "FIELD: containers <[]Container>", "  image\t<string>"],
        ),
        ("explain pod.spec.containers.imagePullPolicy", &["ENUM:\n    Always\n    IfNotPresent\n    Never"]),
        ("explain deployments", &["GROUP:      apps", "Deployment enables declarative updates"]),
        ("explain deploy.spec.strategy --recursive", &["rollingUpdate", "maxSurge\t<IntOrString>"]),
        (
            "explain hpa.spec --api-version=autoscaling/v2",
            &["VERSION:    v2", "maxReplicas\t<integer> -required-"],
        ),
        (
            "explain pods --output=plaintext-openapiv2",
            &["KIND:     Pod", "VERSION:  v1", "   spec\t<Object>"],
        ),
        ("explain ws --output=plaintext-openapiv2", &["VERSION:  atoll.dev/v1alpha1", "   status\t<Object>"]),
        ("explain workspace", &["KIND:       Workspace", "Workspace is a logical cluster"]),
        ("explain workspace.status.phase", &["ENUM:\n    Deleting\n    Ready"]),
    ];
    for (line, expected) in cases {
        let shown = kubectl.run(line);
        for part in expected {
            assert!(shown.contains(part), "{line}: {part:?} is not in\n{shown}");
        }
    }
    let refused = kubectl.run_failing("explain pod.spec.nothing");
    assert!(refused.contains("field \"nothing\" does not exist"), "{refused}");
}

#[test]
fn explain_works_in_other_workspaces() {
    let atoll = Atoll::start();
    let Some(kubectl) = Kubectl::new(&atoll.kubeconfig()) else { return };
    kubectl.run_with_file(
        "create",
        &json!({ "apiVersion": "atoll.dev/v1alpha1", "kind": "Workspace", "metadata": { "name": "team" } }),
    );
    let server = kubectl.run("config view -o jsonpath={.clusters[0].cluster.server}");
    let context_flags = format!("--server={server}/clusters/root:team");
    let shown = kubectl.run(&format!("{context_flags} explain configmap.data"));
    assert!(shown.contains("FIELD: data <map[string]string>"), "{shown}");
    let index = kubectl.run(&format!("{context_flags} get --raw /openapi/v3"));
    assert!(index.contains("\"/clusters/root:team/openapi/v3/api/v1?hash="), "{index}");
}

#[test]
fn create_validates_files() {
    let atoll = Atoll::start();
    let Some(kubectl) = Kubectl::new(&atoll.kubeconfig()) else { return };
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = directory.path().join(name);
        fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let good =
        "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec:\n  containers:\n  - {name: c, image: i}\n";
    let unknown = file("unknown.yaml", &good.replace("image: i", "image: i, imagee: j"));
    let good = file("good.yaml", good);

    let refused = kubectl.run_failing(&format!("create --validate=strict -f {unknown}"));
    let expected = "strict decoding error: unknown field \"spec.containers[0].imagee\"";
    assert!(refused.contains("(BadRequest)") && refused.contains(expected), "{refused}");
    let warned = kubectl.command(&format!("create --validate=warn -f {unknown}")).output().unwrap();
    let words = String::from_utf8_lossy(&warned.stderr).into_owned();
    assert!(
        warned.status.success() && words.contains("unknown field \"spec.containers[0].imagee\""),
        "{words}"
    );
    kubectl.run("delete pod p --now");
    assert_eq!(kubectl.run(&format!("create --validate=ignore -f {unknown}")), "pod/p created\n");
    kubectl.run("delete pod p --now");
    assert_eq!(kubectl.run(&format!("create --validate=strict -f {good}")), "pod/p created\n");
}

#[test]
fn create_commands_build_objects() {
    let atoll = Atoll::start();
    let Some(kubectl) = Kubectl::new(&atoll.kubeconfig()) else { return };
    let cases = [
        ("create deployment web --image=nginx --port=80", "deployment.apps/web created"),
        ("create service clusterip front --tcp=80:8080", "service/front created"),
        ("create job once --image=x", "job.batch/once created"),
        ("create cronjob often --image=x --schedule=@daily", "cronjob.batch/often created"),
        ("create secret generic s --from-literal=a=b", "secret/s created"),
        ("create role reader --verb=get --resource=pods", "role.rbac.authorization.k8s.io/reader created"),
        (
            "create rolebinding readers --role=reader --user=u",
            "rolebinding.rbac.authorization.k8s.io/readers created",
        ),
        ("create ingress i --rule=example.com/=front:80", "ingress.networking.k8s.io/i created"),
        ("create quota q --hard=pods=10", "resourcequota/q created"),
        ("create serviceaccount robot", "serviceaccount/robot created"),
        (
            "create pdb budget --selector=app=web --min-available=1",
            "poddisruptionbudget.policy/budget created",
        ),
        ("create priorityclass high --value=1000", "priorityclass.scheduling.k8s.io/high created"),
        ("run single --image=x", "pod/single created"),
        ("expose deployment web --port=80", "service/web exposed"),
        (
            "autoscale deployment web --min=1 --max=4 --cpu=50%",
            "horizontalpodautoscaler.autoscaling/web autoscaled",
        ),
        ("scale deployment web --replicas=3", "deployment.apps/web scaled"),
        ("create deployment dry --image=x --dry-run=server", "deployment.apps/dry created (server dry run)"),
    ];
    for (line, expected) in cases {
        assert_eq!(kubectl.run(line).trim_end(), expected, "{line}");
    }
    let web = kubectl.json("get deployment web");
    assert_eq!(web["spec"]["replicas"], 3);
    let service = kubectl.json("get service web");
    assert_eq!(service["spec"]["selector"]["app"], "web");
    let scaler = kubectl.json("get hpa web");
    assert_eq!(scaler["spec"]["metrics"][0]["resource"]["target"]["averageUtilization"], 50);
    let history = kubectl.run("rollout history deployment/web");
    assert!(history.starts_with("deployment.apps/web"), "{history}");
}

fn deployment(image: &str) -> Value {
    json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": { "name": "web" },
        "spec": {
            "replicas": 2,
            "selector": { "matchLabels": { "app": "web" } },
            "template": {
                "metadata": { "labels": { "app": "web" } },
                "spec": { "containers": [{ "name": "web", "image": image }, { "name": "side", "image": "side:1" }] },
            },
        },
    })
}

#[test]
fn apply_diff_and_edit() {
    let atoll = Atoll::start();
    let Some(kubectl) = Kubectl::new(&atoll.kubeconfig()) else { return };
    let images = || kubectl.run("get deployment web -o jsonpath={.spec.template.spec.containers[*].image}");
    assert_eq!(kubectl.run_with_file("apply", &deployment("web:1")), "deployment.apps/web created\n");
    assert_eq!(kubectl.run_with_file("apply", &deployment("web:1")), "deployment.apps/web unchanged\n");
    // A container of another manager stays, because kubectl knows the merge key.
    let other = r#"{"spec":{"template":{"spec":{"containers":[{"name":"other","image":"other:1"}]}}}}"#;
    kubectl.run(&format!("patch deployment web -p {other}"));
    assert_eq!(kubectl.run_with_file("apply", &deployment("web:2")), "deployment.apps/web configured\n");
    assert_eq!(images(), "other:1 web:2 side:1");

    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("web.json");
    fs::write(&path, deployment("web:3").to_string()).unwrap();
    let differs = kubectl.command(&format!("diff -f {}", path.display())).output().unwrap();
    let shown = String::from_utf8_lossy(&differs.stdout).into_owned();
    assert_eq!(differs.status.code(), Some(1), "{}", String::from_utf8_lossy(&differs.stderr));
    assert!(shown.contains("-      - image: web:2") && shown.contains("+      - image: web:3"), "{shown}");

    let editor = directory.path().join("editor");
    fs::write(&editor, "sed -i 's/replicas: 2/replicas: 5/' \"$1\"\n").unwrap();
    // Run by a shell: executing a file that was just written fails while another test forks.
    let editor = format!("sh {}", editor.display());
    let edited = atoll_testkit::succeed(kubectl.command("edit deployment web").env("EDITOR", &editor));
    assert_eq!(edited, "deployment.apps/web edited\n");
    assert_eq!(kubectl.run("get deployment web -o jsonpath={.spec.replicas}"), "5");
}

#[test]
fn set_and_rollout_commands() {
    let atoll = Atoll::start();
    let Some(kubectl) = Kubectl::new(&atoll.kubeconfig()) else { return };
    kubectl.run_with_file("create", &deployment("web:1"));
    let cases = [
        ("set image deployment/web web=web:2", "deployment.apps/web image updated"),
        ("set env deployment/web -c web A=b", "deployment.apps/web env updated"),
        (
            "set resources deployment/web -c web --limits=cpu=1",
            "deployment.apps/web resource requirements updated",
        ),
        ("set serviceaccount deployment/web robot", "deployment.apps/web serviceaccount updated"),
        ("rollout restart deployment/web", "deployment.apps/web restarted"),
        ("rollout pause deployment/web", "deployment.apps/web paused"),
        ("rollout resume deployment/web", "deployment.apps/web resumed"),
    ];
    for (line, expected) in cases {
        assert_eq!(kubectl.run(line).trim_end(), expected, "{line}");
    }
    let web = kubectl.json("get deployment web");
    let pod = &web["spec"]["template"]["spec"];
    assert_eq!(pod["containers"][0]["image"], "web:2");
    assert_eq!(pod["containers"][0]["env"][0], json!({ "name": "A", "value": "b" }));
    assert_eq!(pod["containers"][1]["image"], "side:1");
    assert_eq!(pod["serviceAccountName"], "robot");

    // Objects that a controller would have created: one ReplicaSet for each revision.
    for revision in ["1", "2"] {
        let mut replicas = deployment(&format!("web:{revision}"));
        replicas["kind"] = "ReplicaSet".into();
        let owner = json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": web["metadata"]["uid"], "controller": true,
        });
        replicas["metadata"] = json!({
            "name": format!("web-{revision}"),
            "labels": { "app": "web" },
            "annotations": { "deployment.kubernetes.io/revision": revision },
            "ownerReferences": [owner],
        });
        kubectl.run_with_file("create", &replicas);
    }
    let history = kubectl.run("rollout history deployment/web");
    assert!(history.contains("\n1         <none>\n2         <none>\n"), "{history}");
    kubectl.run("annotate deployment web deployment.kubernetes.io/revision=2");
    assert_eq!(kubectl.run("rollout undo deployment/web"), "deployment.apps/web rolled back\n");
    let image = kubectl.run("get deployment web -o jsonpath={.spec.template.spec.containers[0].image}");
    assert_eq!(image, "web:1");
}

//! Settings from flags, environment and config file, in this order of precedence, and their effects.

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;

use atoll_testkit::wait::eventually;
use atoll_testkit::{Atoll, Kubectl, Setup, StartFailure, atoll, succeed};
use serde_json::Value;

use crate::support::{CONFIG_MAPS, config_map, config_map_with};

/// Returns the address in the kubeconfig that a server writes.
fn advertised(setup: Setup) -> String {
    let atoll = setup.start();
    let announcement = atoll.announcement();
    let (_, behind) = announcement.split_once("https://").unwrap();
    behind.split_once(':').unwrap().0.to_string()
}

#[test]
fn precedence_is_flags_environment_file() {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("config.yaml");
    std::fs::write(&file, "advertise-address: 127.0.0.4\nlog-format: json\nhistory: 60\n").unwrap();
    let from_file = Setup::new().flag("--config", file.display());
    assert_eq!(advertised(Setup::new()), "127.0.0.1");
    assert_eq!(advertised(from_file.clone()), "127.0.0.4");
    let from_environment = from_file.variable("ATOLL_ADVERTISE_ADDRESS", "127.0.0.3");
    assert_eq!(advertised(from_environment.clone()), "127.0.0.3");
    assert_eq!(advertised(from_environment.flag("--advertise-address", "127.0.0.2")), "127.0.0.2");
    // The environment can name the config file.
    let named = Setup::new().variable("ATOLL_CONFIG", file.display());
    assert_eq!(advertised(named), "127.0.0.4");
}

#[tokio::test(flavor = "multi_thread")]
async fn all_settings_can_be_in_the_config_file() {
    let place = tempfile::tempdir().unwrap();
    let tokens = place.path().join("tokens.csv");
    std::fs::write(&tokens, "secret,ann,1,\"system:masters\"\n").unwrap();
    let file = place.path().join("config.yaml");
    let text = format!(
        "# what this server does\nprofile: minimal\ntoken-auth-file: {}\nrequest-timeout: 50\nlog: debug\n\
         log-format: json\nmax-requests-inflight: 10\n",
        tokens.display()
    );
    std::fs::write(&file, text).unwrap();
    let atoll = Setup::new().flag("--config", file.display()).start();
    let ann = atoll.admin().token("secret");
    ann.get(CONFIG_MAPS).await.expect(200);
    ann.get("/apis/apps/v1/deployments").await.expect_status_code(404);
    // Atoll's own controllers send many requests, but not this one.
    let line = atoll.logged(|line| line.contains(CONFIG_MAPS) && line.contains("\"list\""));
    let line: Value = serde_json::from_str(&line).unwrap_or_else(|_| panic!("not JSON: {line}"));
    assert_eq!((&line["code"], &line["verb"]), (&200.into(), &"list".into()), "{line}");
    assert!(line["request"].as_str().is_some_and(|id| !id.is_empty()), "{line}");
}

#[test]
fn invalid_settings_are_reported() {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("config.yaml");
    let refused = |setup: Setup| -> String {
        let StartFailure { status, errors } = setup.try_start().err().expect("the server must not start");
        assert!(status.code().is_some_and(|code| code == 1 || code == 2), "{status} {errors}");
        errors
    };
    let with_file = |text: &str| {
        std::fs::write(&file, text).unwrap();
        refused(Setup::new().flag("--config", file.display()))
    };
    let shown = file.display().to_string();
    assert!(with_file("no-such-flag: 1\n").contains("no-such-flag"));
    assert!(with_file("profile: tiny\n").contains("minimal"), "the error must list the valid values");
    assert!(with_file("profile: [\n").contains(&shown));
    assert!(with_file("- profile\n").contains(&shown));
    let missing = place.path().join("missing.yaml").display().to_string();
    assert!(refused(Setup::new().flag("--config", &missing)).contains(&missing));
    assert!(refused(Setup::new().flag("--token-auth-file", &missing)).contains(&missing));
    assert!(refused(Setup::new().flag("--advertise-address", "nowhere")).contains("nowhere"));
    assert!(refused(Setup::new().variable("ATOLL_PROFILE", "tiny")).contains("tiny"));
    let tokens = place.path().join("tokens.csv");
    std::fs::write(&tokens, "secret-token,ann\n").unwrap();
    let errors = refused(Setup::new().flag("--token-auth-file", tokens.display()));
    assert!(errors.contains("line 1 has 2 columns") && !errors.contains("secret-token"), "{errors}");
}

#[test]
fn version_is_printed() {
    assert!(succeed(&mut atoll(&["--version"])).starts_with("atoll "));
    let help = succeed(&mut atoll(&["start", "--help"]));
    for flag in ["--data-dir", "--listen", "--profile", "--config", "ATOLL_DATA_DIR"] {
        assert!(help.contains(flag), "{help}");
    }
}

/// Returns `group/version resource` of everything in legacy and in aggregated discovery.
async fn discovered(atoll: &Atoll) -> BTreeSet<String> {
    let admin = atoll.admin();
    let mut versions = vec![("/api/v1".to_string(), "v1".to_string())];
    for group in admin.get("/apis").await.expect(200)["groups"].as_array().unwrap() {
        for version in group["versions"].as_array().unwrap() {
            let version = version["groupVersion"].as_str().unwrap();
            versions.push((format!("/apis/{version}"), version.to_string()));
        }
    }
    let mut found = BTreeSet::new();
    for (path, version) in versions {
        for resource in admin.get(&path).await.expect(200)["resources"].as_array().unwrap() {
            found.insert(format!("{version} {}", resource["name"].as_str().unwrap()));
        }
    }
    found
}

#[tokio::test(flavor = "multi_thread")]
async fn minimal_profile_serves_its_resources_only() {
    let atoll = Setup::new().flag("--profile", "minimal").start();
    let expected = [
        "apiextensions.k8s.io/v1 customresourcedefinitions",
        "apiextensions.k8s.io/v1 customresourcedefinitions/status",
        "atoll.dev/v1alpha1 apiimports",
        "atoll.dev/v1alpha1 apiimports/status",
        "atoll.dev/v1alpha1 clusterplacementpolicies",
        "atoll.dev/v1alpha1 clusterplacementpolicies/status",
        "atoll.dev/v1alpha1 clusters",
        "atoll.dev/v1alpha1 clusters/status",
        "atoll.dev/v1alpha1 objectstatuses",
        "atoll.dev/v1alpha1 objectstatuses/status",
        "atoll.dev/v1alpha1 placementpolicies",
        "atoll.dev/v1alpha1 placementpolicies/status",
        "atoll.dev/v1alpha1 workspaces",
        "atoll.dev/v1alpha1 workspaces/status",
        "authentication.k8s.io/v1 selfsubjectreviews",
        "authentication.k8s.io/v1 tokenreviews",
        "authorization.k8s.io/v1 localsubjectaccessreviews",
        "authorization.k8s.io/v1 selfsubjectaccessreviews",
        "authorization.k8s.io/v1 selfsubjectrulesreviews",
        "authorization.k8s.io/v1 subjectaccessreviews",
        "certificates.k8s.io/v1 certificatesigningrequests",
        "certificates.k8s.io/v1 certificatesigningrequests/approval",
        "certificates.k8s.io/v1 certificatesigningrequests/status",
        "coordination.k8s.io/v1 leases",
        "rbac.authorization.k8s.io/v1 clusterrolebindings",
        "rbac.authorization.k8s.io/v1 clusterroles",
        "rbac.authorization.k8s.io/v1 rolebindings",
        "rbac.authorization.k8s.io/v1 roles",
        "v1 configmaps",
        "v1 events",
        "v1 namespaces",
        "v1 namespaces/finalize",
        "v1 namespaces/status",
        "v1 secrets",
        "v1 serviceaccounts",
        "v1 serviceaccounts/token",
    ];
    let found = discovered(&atoll).await;
    assert_eq!(found.iter().map(String::as_str).collect::<Vec<_>>(), expected);
    // Aggregated discovery has the same.
    let mut aggregated = BTreeSet::new();
    for path in ["/api", "/apis"] {
        let mut http = atoll.admin().http1().await.unwrap();
        let accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
        let list = http.get_accepting(path, accept).await.unwrap().expect(200);
        for group in list["items"].as_array().unwrap() {
            let name = group["metadata"]["name"].as_str().unwrap_or_default();
            for version in group["versions"].as_array().unwrap() {
                let version = version["version"].as_str().unwrap();
                let prefix = if name.is_empty() { version.to_string() } else { format!("{name}/{version}") };
                for resource in version_resources(&group["versions"], version) {
                    aggregated.insert(format!("{prefix} {resource}"));
                }
            }
        }
    }
    assert_eq!(aggregated, found);
}

#[tokio::test(flavor = "multi_thread")]
async fn kubectl_asks_for_permissions_under_the_minimal_profile() {
    let atoll = Setup::new().flag("--profile", "minimal").start();
    let Some(kubectl) = Kubectl::new(&atoll.kubeconfig()) else { return };
    assert_eq!(kubectl.run("auth can-i create configmaps").trim(), "yes");
    assert!(kubectl.run("auth can-i --list").contains("[*]"));
    assert!(kubectl.run("auth whoami").contains("system:masters"));
    kubectl.run_failing("auth can-i create configmaps --as eve");
}

#[tokio::test(flavor = "multi_thread")]
async fn controllers_log_no_warnings_under_the_minimal_profile() {
    let atoll = Setup::new().flag("--profile", "minimal").flag("--log", "info,atoll_informer=debug").start();
    let not_served = [
        "controllerrevisions.apps",
        "cronjobs.batch",
        "daemonsets.apps",
        "deployments.apps",
        "endpoints",
        "endpointslices.discovery.k8s.io",
        "horizontalpodautoscalers.autoscaling",
        "jobs.batch",
        "nodes",
        "persistentvolumeclaims",
        "persistentvolumes",
        "poddisruptionbudgets.policy",
        "pods",
        "replicasets.apps",
        "replicationcontrollers",
        "resourcequotas",
        "services",
        "statefulsets.apps",
        "storageclasses.storage.k8s.io",
        "volumeattributesclasses.storage.k8s.io",
    ];
    // The informer's debug log names the resources that it tried to list.
    eventually("the informer tried to list all resources", async || {
        let log = atoll.log();
        not_served.iter().all(|name| log.lines().any(|line| line.ends_with(&format!("resource={name}"))))
    })
    .await;
    // Controllers whose resources are served keep working.
    let namespace = serde_json::json!({ "metadata": { "name": "lively" } });
    atoll.admin().post("/api/v1/namespaces", namespace).await.expect(201);
    for object in ["serviceaccounts/default", "configmaps/kube-root-ca.crt"] {
        let path = format!("/api/v1/namespaces/lively/{object}");
        eventually(object, async || atoll.admin().get(&path).await.status == 200).await;
    }
    atoll.admin().delete("/api/v1/namespaces/lively").await.expect(200);
    let path = "/api/v1/namespaces/lively";
    eventually("the namespace is gone", async || atoll.admin().get(path).await.status == 404).await;
    let log = atoll.log();
    let warnings: Vec<&str> =
        log.lines().filter(|line| line.contains(" WARN ") || line.contains(" ERROR ")).collect();
    assert!(warnings.is_empty(), "{warnings:#?}");
}

/// Returns resources and subresources of one version in an aggregated group.
fn version_resources(versions: &Value, wanted: &str) -> Vec<String> {
    let version = versions.as_array().unwrap().iter().find(|version| version["version"] == wanted).unwrap();
    let mut names = Vec::new();
    for resource in version["resources"].as_array().unwrap() {
        let name = resource["resource"].as_str().unwrap();
        names.push(name.to_string());
        for subresource in resource["subresources"].as_array().into_iter().flatten() {
            names.push(format!("{name}/{}", subresource["subresource"].as_str().unwrap()));
        }
    }
    names
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_of_the_full_profile_are_kept_under_the_minimal_profile() {
    let place = tempfile::tempdir().unwrap();
    let directory = place.path().join("data");
    let full = Setup::new().directory(&directory).start();
    let service = serde_json::json!({
        "apiVersion": "v1", "kind": "LimitRange", "metadata": { "name": "kept" }, "spec": { "limits": [] },
    });
    let path = "/api/v1/namespaces/default/limitranges";
    full.admin().post(path, service).await.expect(201);
    drop(full);
    let minimal = Setup::new().directory(&directory).flag("--profile", "minimal").start();
    minimal.admin().get(path).await.expect_status_code(404);
    minimal.admin().post(CONFIG_MAPS, config_map_with("a", "1")).await.expect(201);
    drop(minimal);
    let full = Setup::new().directory(&directory).start();
    full.admin().get(&format!("{path}/kept")).await.expect(200);
    full.admin().get(&config_map("a")).await.expect(200);
}

#[tokio::test(flavor = "multi_thread")]
async fn secret_files_are_readable_by_their_owner_only() {
    let atoll = Atoll::start();
    atoll.admin().post(CONFIG_MAPS, config_map_with("a", "1")).await.expect(201);
    let mode = |name: &str| {
        // The server keeps running and may delete temporary files meanwhile.
        let metadata = std::fs::metadata(atoll.directory.join(name)).ok()?;
        Some(format!("{name} {:o}", metadata.permissions().mode() & 0o777))
    };
    assert_eq!(mode(".").as_deref(), Some(". 700"));
    for entry in std::fs::read_dir(&atoll.directory).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        // The authority's certificate is public.
        if name != "ca.crt" {
            assert!(mode(&name).is_none_or(|mode| mode == format!("{name} 600")), "{:?}", mode(&name));
        }
    }
}

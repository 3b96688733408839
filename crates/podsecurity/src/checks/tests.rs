use serde_json::{Value, json};

use super::*;

fn violations(level: Level, minor: u64, spec: &Value) -> String {
    violations_with_metadata(level, minor, &json!({}), spec)
}

fn violations_with_metadata(level: Level, minor: u64, metadata: &Value, spec: &Value) -> String {
    evaluate(LevelVersion { level, version: Version::Minor(minor) }, metadata, spec).details()
}

#[test]
fn hardened_pod_passes_all_levels() {
    let spec = json!({
        "securityContext": { "runAsNonRoot": true, "seccompProfile": { "type": "RuntimeDefault" } },
        "containers": [{
            "name": "a",
            "securityContext": { "allowPrivilegeEscalation": false, "capabilities": { "drop": ["ALL"] } },
        }],
    });
    for minor in 0..50 {
        for level in [Level::Privileged, Level::Baseline, Level::Restricted] {
            assert_eq!(violations(level, minor, &spec), "", "{level:?} v1.{minor}");
        }
    }
}

#[test]
fn violations_are_worded_as_upstream() {
    let with = |context: Value| json!({ "containers": [{ "name": "a", "securityContext": context }] });
    let cases = [
        (
            json!({ "hostNetwork": true, "hostIPC": true }),
            0,
            "host namespaces (hostNetwork=true, hostIPC=true)",
        ),
        (
            with(json!({ "privileged": true })),
            0,
            "privileged (container \"a\" must not set securityContext.privileged=true)",
        ),
        (
            with(json!({ "capabilities": { "add": ["SYS_ADMIN", "CHOWN", "BPF"] } })),
            0,
            "non-default capabilities (container \"a\" must not include \"BPF\", \"SYS_ADMIN\" in securityContext.capabilities.add)",
        ),
        (json!({ "volumes": [{ "name": "v", "hostPath": {} }] }), 0, "hostPath volumes (volume \"v\")"),
        (
            json!({ "containers": [{ "name": "a", "ports": [{ "hostPort": 80 }, { "hostPort": 443 }] }, { "name": "b", "ports": [{ "hostPort": 80 }] }] }),
            0,
            "hostPort (containers \"a\", \"b\" use hostPorts 443, 80)",
        ),
        (
            with(json!({ "procMount": "Unmasked" })),
            0,
            "procMount (container \"a\" must not set securityContext.procMount to \"Unmasked\")",
        ),
        (
            with(json!({ "seLinuxOptions": { "type": "container_engine_t", "user": "u" } })),
            0,
            "seLinuxOptions (container \"a\" set forbidden securityContext.seLinuxOptions: type \"container_engine_t\"; user may not be set)",
        ),
        (
            with(json!({ "seLinuxOptions": { "type": "container_engine_t", "role": "r" } })),
            31,
            "seLinuxOptions (container \"a\" set forbidden securityContext.seLinuxOptions: role may not be set)",
        ),
        (with(json!({ "seccompProfile": { "type": "Unconfined" } })), 0, ""),
        (
            with(json!({ "seccompProfile": { "type": "Unconfined" } })),
            19,
            "seccompProfile (container \"a\" must not set securityContext.seccompProfile.type to \"Unconfined\")",
        ),
        (
            json!({ "securityContext": { "sysctls": [{ "name": "net.ipv4.tcp_rmem" }, { "name": "kernel.shm_rmid_forced" }] } }),
            31,
            "forbidden sysctls (net.ipv4.tcp_rmem)",
        ),
        (json!({ "securityContext": { "sysctls": [{ "name": "net.ipv4.tcp_rmem" }] } }), 32, ""),
        (
            json!({ "securityContext": { "windowsOptions": { "hostProcess": true } } }),
            0,
            "hostProcess (pod must not set securityContext.windowsOptions.hostProcess=true)",
        ),
        (
            json!({ "containers": [{ "name": "a", "livenessProbe": { "httpGet": { "host": "h" } }, "lifecycle": { "preStop": { "tcpSocket": { "host": "g" } } } }] }),
            34,
            "probe or lifecycle host (container \"a\" uses probe or lifecycle hosts \"g\", \"h\")",
        ),
        (
            with(json!({ "appArmorProfile": { "type": "Unconfined" } })),
            0,
            "forbidden AppArmor profile (container \"a\" must not set AppArmor profile type to \"Unconfined\")",
        ),
    ];
    for (spec, minor, expected) in cases {
        assert_eq!(violations(Level::Baseline, minor, &spec), expected, "v1.{minor} {spec}");
    }
}

#[test]
fn restricted_level_requires_explicit_fields() {
    let bare = json!({ "containers": [{ "name": "a" }] });
    let all = "allowPrivilegeEscalation != false (container \"a\" must set securityContext.allowPrivilegeEscalation=false), \
               unrestricted capabilities (container \"a\" must set securityContext.capabilities.drop=[\"ALL\"]), runAsNonRoot != \
               true (pod or container \"a\" must set securityContext.runAsNonRoot=true), seccompProfile (pod or container \"a\" \
               must set securityContext.seccompProfile.type to \"RuntimeDefault\" or \"Localhost\")";
    assert_eq!(violations(Level::Restricted, 40, &bare), all);
    let first = "runAsNonRoot != true (pod or container \"a\" must set securityContext.runAsNonRoot=true)";
    assert_eq!(violations(Level::Restricted, 0, &bare), first);
    let users = json!({ "hostUsers": false, "os": { "name": "windows" }, "containers": [{ "name": "a", "securityContext": { "runAsUser": 0 } }] });
    assert_eq!(violations(Level::Restricted, 35, &users), "");
    assert_eq!(
        violations(Level::Restricted, 34, &users),
        format!("{first}, runAsUser=0 (container \"a\" must not set runAsUser=0)")
    );
    let volumes = json!({ "volumes": [{ "name": "v", "nfs": {} }, { "name": "w", "secret": {} }] });
    assert_eq!(
        violations(Level::Restricted, 35, &volumes),
        "restricted volume types (volume \"v\" uses restricted volume type \"nfs\")"
    );
}

#[test]
fn annotations_are_checked_in_versions_without_fields() {
    let spec = json!({ "containers": [{ "name": "a" }] });
    let seccomp = json!({ "annotations": {
        "seccomp.security.alpha.kubernetes.io/pod": "unconfined",
        "container.seccomp.security.alpha.kubernetes.io/a": "localhost/x",
        "container.seccomp.security.alpha.kubernetes.io/b": "unconfined",
    } });
    assert_eq!(
        violations_with_metadata(Level::Baseline, 18, &seccomp, &spec),
        "seccompProfile (forbidden annotation seccomp.security.alpha.kubernetes.io/pod=\"unconfined\")"
    );
    assert_eq!(violations_with_metadata(Level::Baseline, 19, &seccomp, &spec), "");
    let key = "container.apparmor.security.beta.kubernetes.io/a";
    let app_armor = json!({ "annotations": { key: "unconfined" } });
    assert_eq!(
        violations_with_metadata(Level::Baseline, 19, &app_armor, &spec),
        format!(
            "forbidden AppArmor profile (annotation must not set AppArmor profile type to \"{key}=\"unconfined\"\")"
        )
    );
}

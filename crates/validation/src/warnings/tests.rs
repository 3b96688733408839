use serde_json::{Value, json};

use super::warnings_for;

fn object_warnings(group: &str, resource: &str, new: Value, old: Option<Value>) -> Vec<String> {
    (warnings_for(group, resource).object)(&new, old.as_ref())
}

#[test]
fn pods_are_warned_about_only_on_create() {
    let pod = json!({"metadata": {"name": "a.b"}, "spec": {
        "nodeSelector": {"beta.kubernetes.io/os": "linux"},
        "containers": [{"name": "c", "env": [{"name": "A"}, {"name": "A", "value": "b"}, {"name": "A", "value": "x$(A)"}],
            "resources": {"limits": {"memory": "1500m"}}}],
        "terminationGracePeriodSeconds": -1,
    }});
    let warnings = object_warnings("", "pods", pod.clone(), None);
    assert_eq!(
        warnings,
        [
            "metadata.name: this is used in the Pod's hostname, which can result in surprising behavior; a DNS label is \
             recommended: [must not contain dots]",
            r#"spec.nodeSelector[beta.kubernetes.io/os]: deprecated since v1.14; use "kubernetes.io/os" instead"#,
            r#"spec.containers[0].resources.limits[memory]: fractional byte value "1500m" is invalid, must be an integer"#,
            r#"spec.containers[0].env[1]: hides previous definition of "A", which may be dropped when using apply"#,
            "spec.terminationGracePeriodSeconds: must be >= 0; negative values are invalid and will be treated as 1",
        ]
    );
    assert!(object_warnings("", "pods", pod.clone(), Some(pod)).is_empty());
}

#[test]
fn templates_are_warned_about_when_the_generation_changes() {
    let deployment = |generation: i64| {
        json!({"metadata": {"name": "d", "generation": generation},
               "spec": {"template": {"spec": {"volumes": [{"name": "v", "gitRepo": {}}]}}}})
    };
    let expected =
        ["spec.template.spec.volumes[0].gitRepo: deprecated in v1.11, and disabled by default in v1.33+"];
    assert_eq!(object_warnings("apps", "deployments", deployment(1), None), expected);
    assert_eq!(object_warnings("apps", "deployments", deployment(2), Some(deployment(1))), expected);
    assert!(object_warnings("apps", "deployments", deployment(1), Some(deployment(1))).is_empty());
}

#[test]
fn noncanonical_addresses_are_warned_about() {
    for (address, expected) in [
        ("1.2.3.4", None),
        ("::1", None),
        ("1.2.3.04", Some(r#"non-standard IP address "1.2.3.04" is invalid: use "1.2.3.4""#)),
        ("::ffff:1.2.3.4", Some(r#"non-standard IP address "::ffff:1.2.3.4" is invalid: use "1.2.3.4""#)),
        (
            "2001:DB8::1",
            Some(r#"IPv6 address "2001:DB8::1" should be in RFC 5952 canonical format ("2001:db8::1")"#),
        ),
        ("nothing", None),
    ] {
        let endpoints = json!({"subsets": [{"addresses": [{"ip": address}]}]});
        let expected: Vec<_> =
            expected.iter().map(|text| format!("subsets[0].addresses[0].ip: {text}")).collect();
        assert_eq!(object_warnings("", "endpoints", endpoints, None), expected, "{address}");
    }
    for (range, expected) in [
        ("10.0.0.0/8", None),
        (
            "10.1.0.0/8",
            Some(
                r#"CIDR value "10.1.0.0/8" is ambiguous in this context (should be "10.0.0.0/8" or "10.1.0.0/32"?)"#,
            ),
        ),
        ("010.0.0.0/8", Some(r#"non-standard CIDR value "010.0.0.0/8" is invalid: use "10.0.0.0/8""#)),
        (
            "2001:DB8::/32",
            Some(
                r#"IPv6 CIDR value "2001:DB8::/32" should be in RFC 5952 canonical format ("2001:db8::/32")"#,
            ),
        ),
    ] {
        let node = json!({"spec": {"podCIDRs": [range]}});
        let expected: Vec<_> = expected.iter().map(|text| format!("spec.podCIDRs[0]: {text}")).collect();
        assert_eq!(object_warnings("", "nodes", node, None), expected, "{range}");
    }
}

#[test]
fn overlapping_files_of_a_volume_are_warned_about() {
    let volumes = json!([
        {"name": "c", "configMap": {"name": "m", "items": [{"path": "a"}, {"path": "a/b"}, {"path": "ab"}]}},
        {"name": "p", "projected": {"sources": [{}, {"secret": {"name": "s", "items": [{"path": "x"}]}},
            {"serviceAccountToken": {"path": "x/"}}]}},
    ]);
    let warnings =
        object_warnings("", "pods", json!({"metadata": {"name": "p"}, "spec": {"volumes": volumes}}), None);
    assert_eq!(
        warnings,
        [
            r#"volume "c" (ConfigMap "m"): overlapping paths: "a/b" with "a""#,
            r#"volume "p" (Projected) has no sources provided"#,
            r#"volume "p" (Projected): overlapping paths: "x" (ServiceAccountToken) with "x" (Secret "s")"#,
        ]
    );
}

#[test]
fn warnings_about_pairs_are_limited() {
    let ports = vec![json!({"containerPort": 80, "protocol": "TCP"}); 3000];
    let files = vec![json!({"path": "a"}); 3000];
    let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "ports": ports}],
        "volumes": [{"name": "c", "configMap": {"name": "m", "items": files}}]}});
    let warnings = object_warnings("", "pods", pod, None);
    let of = |text: &str| warnings.iter().filter(|warning| warning.contains(text)).count();
    for kind in ["duplicate port definition", "overlapping paths"] {
        assert!((5_000..=500_000).contains(&of(kind)), "{} about {kind}", of(kind));
    }
}

#[test]
fn incomplete_tls_key_pairs_are_warned_about() {
    let certificate = "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCkFBQUEKLS0tLS1FTkQgQ0VSVElGSUNBVEUtLS0tLQo=";
    for (one, other, expected) in [
        ("", "", "tls: failed to find any PEM data in certificate input"),
        (certificate, "", "tls: failed to find any PEM data in key input"),
        (
            certificate,
            certificate,
            "tls: found a certificate rather than a key in the PEM for the private key",
        ),
    ] {
        let secret = json!({"type": "kubernetes.io/tls", "data": {"tls.crt": one, "tls.key": other}});
        assert_eq!(object_warnings("", "secrets", secret, None), [expected]);
    }
}

#[test]
fn quota_requests_above_limits_are_warned_about() {
    let quota = json!({"spec": {"hard": {"cpu": "2", "limits.cpu": "1", "requests.memory": "1Gi", "limits.memory": "2Gi"}}});
    assert_eq!(
        object_warnings("", "resourcequotas", quota.clone(), None),
        ["ResourceQuota cpu (2) should be less than limits.cpu (1)"]
    );
    assert!(object_warnings("", "resourcequotas", quota.clone(), Some(quota)).is_empty());
}

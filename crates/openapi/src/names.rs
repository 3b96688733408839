//! Names of definitions and operations.

// upstream: staging/src/k8s.io/apiserver/pkg/endpoints/openapi/openapi.go

/// Returns the definition name of a type with a key such as `core/v1.Container`.
pub fn definition(key: &str) -> String {
    let (package, name) = key.rsplit_once('.').unwrap_or(("", key));
    let module = match package {
        "meta/v1" => "apimachinery.pkg.apis.meta",
        "apiextensions/v1" => "apiextensions-apiserver.pkg.apis.apiextensions",
        "apiregistration/v1" => "kube-aggregator.pkg.apis.apiregistration",
        "runtime" => return format!("io.k8s.apimachinery.pkg.runtime.{name}"),
        "version" => return format!("io.k8s.apimachinery.pkg.version.{name}"),
        "util/intstr" => return format!("io.k8s.apimachinery.pkg.util.intstr.{name}"),
        "api/resource" => return format!("io.k8s.apimachinery.pkg.api.resource.{name}"),
        _ => {
            let (group, version) = package.rsplit_once('/').unwrap_or((package, ""));
            return format!("io.k8s.api.{}.{version}.{name}", group.replace('/', "."));
        }
    };
    format!("io.k8s.{module}.v1.{name}")
}

/// Returns the definition name of a kind that is not built in: the reversed group, then version and kind.
pub fn custom_definition(group: &str, version: &str, kind: &str) -> String {
    // Upstream's definitions of this group have the name of their Go package.
    if group == crate::metrics::GROUP {
        return format!("io.k8s.metrics.pkg.apis.metrics.{version}.{kind}");
    }
    let mut name = String::new();
    for label in group.rsplit('.') {
        name.push_str(label);
        name.push('.');
    }
    name + version + "." + kind
}

/// Returns the name of a group in operation names: `rbac.authorization.k8s.io` is `RbacAuthorization`.
pub fn group_in_operation(group: &str) -> String {
    let group = if group.is_empty() { "core" } else { group };
    let group = group.strip_suffix(".k8s.io").unwrap_or(group);
    group.split('.').map(capitalised).collect()
}

/// Returns the tag of a group version's operations: `rbacAuthorization_v1`.
pub fn tag(group: &str, version: &str) -> String {
    let mut tag = group_in_operation(group);
    if let Some(first) = tag.get_mut(..1) {
        first.make_ascii_lowercase();
    }
    if !version.is_empty() {
        tag.push('_');
        tag.push_str(version);
    }
    tag
}

pub fn capitalised(word: &str) -> String {
    let mut word = word.to_owned();
    if let Some(first) = word.get_mut(..1) {
        first.make_ascii_uppercase();
    }
    word
}

/// Returns the path of a group version: `/apis/apps/v1`.
pub fn root(group: &str, version: &str) -> String {
    match (group, version) {
        ("", "") => "/api".to_owned(),
        ("", version) => format!("/api/{version}"),
        (group, "") => format!("/apis/{group}"),
        (group, version) => format!("/apis/{group}/{version}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn definitions_have_upstreams_names() {
        for (key, expected) in [
            ("core/v1.Container", "io.k8s.api.core.v1.Container"),
            ("meta/v1.Time", "io.k8s.apimachinery.pkg.apis.meta.v1.Time"),
            ("runtime.RawExtension", "io.k8s.apimachinery.pkg.runtime.RawExtension"),
            ("util/intstr.IntOrString", "io.k8s.apimachinery.pkg.util.intstr.IntOrString"),
            (
                "apiregistration/v1.APIService",
                "io.k8s.kube-aggregator.pkg.apis.apiregistration.v1.APIService",
            ),
        ] {
            assert_eq!(definition(key), expected);
        }
        assert_eq!(custom_definition("stable.example.com", "v1", "CronTab"), "com.example.stable.v1.CronTab");
        let measured = "io.k8s.metrics.pkg.apis.metrics.v1beta1.PodMetrics";
        assert_eq!(custom_definition("metrics.k8s.io", "v1beta1", "PodMetrics"), measured);
    }

    #[test]
    fn groups_are_camel_cased() {
        for (group, operation, tagged) in [
            ("", "Core", "core_v1"),
            ("apps", "Apps", "apps_v1"),
            ("rbac.authorization.k8s.io", "RbacAuthorization", "rbacAuthorization_v1"),
            ("flowcontrol.apiserver.k8s.io", "FlowcontrolApiserver", "flowcontrolApiserver_v1"),
        ] {
            assert_eq!((group_in_operation(group).as_str(), tag(group, "v1").as_str()), (operation, tagged));
        }
    }
}

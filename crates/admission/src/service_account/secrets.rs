//! Secrets that a Pod uses.

// upstream: plugin/pkg/admission/serviceaccount/admission.go

use serde_json::Value;

use crate::resource_list::containers;

/// Whether the Pod uses any secrets.
pub fn any(pod: &Value) -> bool {
    let spec = &pod["spec"];
    let named = |value: &Value| value.as_str().is_some_and(|name| !name.is_empty());
    let all = ["containers", "initContainers", "ephemeralContainers"];
    let mut references = all.iter().flat_map(|list| containers(spec, list)).flat_map(of_container);
    containers(spec, "imagePullSecrets").any(|secret| named(&secret["name"]))
        || references.any(|(_, name)| !name.is_empty())
        || containers(spec, "volumes").any(|volume| {
            let mut projected = containers(&volume["projected"], "sources");
            let by_reference = ["cephfs", "cinder", "flexVolume", "rbd", "scaleIO", "iscsi", "storageos"];
            named(&volume["secret"]["secretName"])
                || named(&volume["azureFile"]["secretName"])
                || named(&volume["csi"]["nodePublishSecretRef"]["name"])
                || by_reference.iter().any(|kind| named(&volume[*kind]["secretRef"]["name"]))
                || projected.any(|source| named(&source["secret"]["name"]))
        })
}

/// Returns the secrets of a container's environment variables, with their use.
fn of_container(container: &Value) -> impl Iterator<Item = (String, &str)> {
    let variables = containers(container, "env").filter_map(|variable| {
        let name = variable["name"].as_str().unwrap_or_default();
        Some((format!("envVar {name}"), text(variable["valueFrom"].get("secretKeyRef")?, "name")))
    });
    let whole = containers(container, "envFrom")
        .filter_map(|source| Some(("envFrom".to_owned(), text(source.get("secretRef")?, "name"))));
    variables.chain(whole)
}

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap_or_default()
}

/// Returns an error about the first secret that the account does not list.
pub fn unlisted_secret(pod: &Value, account: &Value) -> Option<String> {
    let (spec, account_name) = (&pod["spec"], atoll_meta::object::name(account));
    let lists = |part: &str, name: &str| containers(account, part).any(|own| text(own, "name") == name);
    for volume in containers(spec, "volumes").filter(|volume| volume.get("secret").is_some()) {
        let secret = text(&volume["secret"], "secretName");
        if !lists("secrets", secret) {
            return Some(format!(
                "volume with secret.secretName=\"{secret}\" is not allowed because service account {account_name} does not \
                 reference that secret"
            ));
        }
    }
    of_containers(pod, account, "initContainers", "init container")
        .or_else(|| of_containers(pod, account, "containers", "container"))
        .or_else(|| {
            let mut pull = containers(spec, "imagePullSecrets").map(|secret| text(secret, "name")).enumerate();
            pull.find(|(_, name)| !lists("imagePullSecrets", name)).map(|(index, name)| {
                format!(
                    "imagePullSecrets[{index}].name=\"{name}\" is not allowed because service account {account_name} does \
                     not reference that imagePullSecret"
                )
            })
        })
}

/// The same for ephemeral containers.
pub fn unlisted_ephemeral_secret(pod: &Value, account: &Value) -> Option<String> {
    of_containers(pod, account, "ephemeralContainers", "ephemeral container")
}

fn of_containers(pod: &Value, account: &Value, list: &str, called: &str) -> Option<String> {
    let account_name = atoll_meta::object::name(account);
    let lists = |name: &str| containers(account, "secrets").any(|own| text(own, "name") == name);
    containers(&pod["spec"], list).find_map(|container| {
        let (how, secret) = of_container(container).find(|(_, name)| !lists(name))?;
        let container = text(container, "name");
        Some(format!(
            "{called} {container} with {how} referencing secret.secretName=\"{secret}\" is not allowed because service \
             account {account_name} does not reference that secret"
        ))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn secrets_that_the_account_does_not_list_are_named() {
        let account = json!({
            "metadata": { "name": "bot" },
            "secrets": [{ "name": "own" }],
            "imagePullSecrets": [{ "name": "pull" }],
        });
        let variable = |secret: &str| json!({ "name": "c", "env": [{ "name": "V", "valueFrom": { "secretKeyRef": { "name": secret } } }] });
        let whole = |secret: &str| json!({ "name": "c", "envFrom": [{ "secretRef": { "name": secret } }] });
        let because = "because service account bot does not reference that";
        let cases = [
            (json!({}), None),
            (
                json!({ "volumes": [{ "secret": { "secretName": "own" } }], "containers": [variable("own")] }),
                None,
            ),
            (
                json!({ "volumes": [{ "secret": { "secretName": "x" } }] }),
                Some(format!("volume with secret.secretName=\"x\" is not allowed {because} secret")),
            ),
            (
                json!({ "initContainers": [variable("x")] }),
                Some(format!(
                    "init container c with envVar V referencing secret.secretName=\"x\" is not allowed {because} secret"
                )),
            ),
            (
                json!({ "containers": [whole("x")] }),
                Some(format!(
                    "container c with envFrom referencing secret.secretName=\"x\" is not allowed {because} secret"
                )),
            ),
            (
                json!({ "imagePullSecrets": [{ "name": "pull" }, { "name": "x" }] }),
                Some(format!("imagePullSecrets[1].name=\"x\" is not allowed {because} imagePullSecret")),
            ),
        ];
        for (spec, expected) in cases {
            let uses_some = spec != json!({});
            let pod = json!({ "spec": spec });
            assert_eq!(unlisted_secret(&pod, &account), expected, "{pod}");
            assert_eq!(any(&pod), uses_some, "{pod}");
        }
    }
}

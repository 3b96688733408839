//! ServiceAccounts of Pods: sets the account, `default` if none is named, and mounts its token.

// upstream: plugin/pkg/admission/serviceaccount/admission.go

mod secrets;

use atoll_meta::{Status, id, object};
use atoll_store::Key;
use serde_json::{Value, json};

use crate::{Operation, Plugin, Request};

pub struct ServiceAccount;

const DEFAULT: &str = "default";
/// The annotation of mirror Pods of static Pods.
const MIRROR: &str = "kubernetes.io/config.mirror";
const ENFORCE_MOUNTABLE_SECRETS: &str = "kubernetes.io/enforce-mountable-secrets";
const VOLUME: &str = "kube-api-access-";
const MOUNT_PATH: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
/// Lifetime of tokens, by which upstream recognizes these tokens: a little more than an hour.
const TOKEN_SECONDS: i64 = 3607;

impl Plugin for ServiceAccount {
    fn handles(&self, request: &Request<'_>) -> bool {
        request.creates("", "pods")
            || (request.operation == Operation::Update && request.is_about("", "pods", "ephemeralcontainers"))
    }

    /// The default account of a new namespace is created by a controller.
    fn waits_for(&self, request: &Request<'_>, pod: &Value) -> Option<Key> {
        let waits = request.operation == Operation::Create && !is_mirror(pod) && account_name(pod) == DEFAULT;
        waits.then(|| Key::object("", "serviceaccounts", request.workspace, request.namespace, DEFAULT))
    }

    fn mutate(&self, request: &Request<'_>, pod: &mut Value) -> Result<(), Status> {
        if request.operation != Operation::Create {
            return Ok(());
        }
        if is_mirror(pod) {
            return check_mirror(request, pod);
        }
        if pod["spec"]["serviceAccountName"].as_str().is_none_or(str::is_empty) {
            pod["spec"]["serviceAccountName"] = DEFAULT.into();
        }
        let account = account(request, pod)?;
        let mounts = pod["spec"]["automountServiceAccountToken"].as_bool();
        if mounts.or(account["automountServiceAccountToken"].as_bool()).unwrap_or(true) {
            mount_token(pod)?;
        }
        let pull = account["imagePullSecrets"].as_array().filter(|pull| !pull.is_empty());
        if pod["spec"]["imagePullSecrets"].as_array().is_none_or(Vec::is_empty)
            && let Some(pull) = pull
        {
            let names = pull.iter().map(|secret| match secret.get("name") {
                Some(name) => json!({ "name": name }),
                None => json!({}),
            });
            pod["spec"]["imagePullSecrets"] = names.collect();
        }
        check(request, pod, &account)
    }

    fn validate(&self, request: &Request<'_>, pod: &Value) -> Result<(), Status> {
        if request.operation == Operation::Create && is_mirror(pod) {
            return check_mirror(request, pod);
        }
        if pod["spec"]["serviceAccountName"].as_str().is_none_or(str::is_empty) {
            let (namespace, name) = (request.namespace, object::name(pod));
            let message = format!("no service account specified for pod {namespace}/{name}");
            return Err(request.forbidden(pod, message));
        }
        let account = account(request, pod)?;
        check(request, pod, &account)
    }
}

fn is_mirror(pod: &Value) -> bool {
    object::annotation(pod, MIRROR).is_some()
}

fn account_name(pod: &Value) -> &str {
    let name = pod["spec"]["serviceAccountName"].as_str().unwrap_or_default();
    if name.is_empty() { DEFAULT } else { name }
}

fn account(request: &Request<'_>, pod: &Value) -> Result<Value, Status> {
    let (namespace, name) = (request.namespace, account_name(pod));
    let key = Key::object("", "serviceaccounts", request.workspace, namespace, name);
    // The account may have been created since the request started.
    match request.registry.snapshot().get(&key) {
        Some(account) => crate::StoredObject(account).parse(),
        None => {
            let message = format!(
                "error looking up service account {namespace}/{name}: serviceaccount {name:?} not found"
            );
            Err(request.forbidden(pod, message))
        }
    }
}

/// Checks that a Pod uses only secrets of the account, if the account enforces that.
fn check(request: &Request<'_>, pod: &Value, account: &Value) -> Result<(), Status> {
    let enforced = object::annotation(account, ENFORCE_MOUNTABLE_SECRETS);
    // The values that Go parses as true.
    if !matches!(enforced, Some("1" | "t" | "T" | "TRUE" | "true" | "True")) {
        return Ok(());
    }
    match request.subresource {
        "" => match secrets::unlisted_secret(pod, account) {
            Some(problem) => Err(request.forbidden(pod, problem)),
            None => Ok(()),
        },
        _ => match secrets::unlisted_ephemeral_secret(pod, account) {
            Some(problem) => Err(Status::plain_internal(problem)),
            None => Ok(()),
        },
    }
}

fn check_mirror(request: &Request<'_>, pod: &Value) -> Result<(), Status> {
    let spec = &pod["spec"];
    let volumes = spec["volumes"].as_array().into_iter().flatten();
    let mut sources = volumes.flat_map(|volume| volume["projected"]["sources"].as_array()).flatten();
    let problem = match () {
        () if spec["serviceAccountName"].as_str().is_some_and(|name| !name.is_empty()) => {
            "a mirror pod may not reference service accounts"
        }
        () if secrets::any(pod) => "a mirror pod may not reference secrets",
        () if sources.any(|source| source.get("serviceAccountToken").is_some()) => {
            "a mirror pod may not use ServiceAccountToken volume projections"
        }
        () => return Ok(()),
    };
    Err(request.forbidden(pod, problem))
}

/// Adds a volume with the token, and mounts it in every container without a mount at that path.
fn mount_token(pod: &mut Value) -> Result<(), Status> {
    let volumes = pod["spec"]["volumes"].as_array().into_iter().flatten();
    let mut names = volumes.filter_map(|volume| volume["name"].as_str());
    let existing = names.find(|name| name.starts_with(VOLUME)).map(str::to_owned);
    let name = match &existing {
        Some(name) => name.clone(),
        None => {
            let mut random = [0; 8];
            getrandom::fill(&mut random)
                .map_err(|error| Status::internal_error(format!("no random numbers: {error}")))?;
            id::generated_name(VOLUME, random)
        }
    };
    let mut needed = false;
    for list in ["initContainers", "containers"] {
        for container in pod["spec"].get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
            let mounts = &mut container["volumeMounts"];
            let mut own = mounts.as_array().into_iter().flatten();
            if own.any(|mount| mount["mountPath"] == MOUNT_PATH) {
                continue;
            }
            let mount = json!({ "name": name, "readOnly": true, "mountPath": MOUNT_PATH });
            match mounts {
                Value::Array(all) => all.push(mount),
                none => *none = json!([mount]),
            }
            needed = true;
        }
    }
    if existing.is_none() && needed {
        let volume = json!({ "name": name, "projected": token_source() });
        match &mut pod["spec"]["volumes"] {
            Value::Array(all) => all.push(volume),
            none => *none = json!([volume]),
        }
    }
    Ok(())
}

fn token_source() -> Value {
    json!({
        "defaultMode": 0o644,
        "sources": [
            { "serviceAccountToken": { "path": "token", "expirationSeconds": TOKEN_SECONDS } },
            { "configMap": { "name": "kube-root-ca.crt", "items": [{ "key": "ca.crt", "path": "ca.crt" }] } },
            { "downwardAPI": { "items": [{
                "path": "namespace",
                "fieldRef": { "apiVersion": "v1", "fieldPath": "metadata.namespace" },
            }] } },
        ],
    })
}

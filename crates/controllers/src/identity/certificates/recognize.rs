//! Validates requests for each signer.

// upstream: pkg/controller/certificates/approver/sarapprove.go
// upstream: pkg/controller/certificates/signer/signer.go
// upstream: pkg/apis/certificates/helpers.go

use std::collections::BTreeSet;

use atoll_authn::request::CertificateRequest;
use serde_json::Value;

const CLIENT: &str = "kubernetes.io/kube-apiserver-client";
const KUBELET_CLIENT: &str = "kubernetes.io/kube-apiserver-client-kubelet";
const KUBELET_SERVING: &str = "kubernetes.io/kubelet-serving";
const LEGACY: &str = "kubernetes.io/legacy-unknown";

const SELF: (&str, &str) =
    ("selfnodeclient", "Auto approving self kubelet client certificate after SubjectAccessReview.");
const OTHER: (&str, &str) =
    ("nodeclient", "Auto approving kubelet client certificate after SubjectAccessReview.");

pub fn usages(spec: &Value) -> impl Iterator<Item = &str> {
    spec["usages"].as_array().into_iter().flatten().filter_map(Value::as_str)
}

/// Returns the permissions under which a request is approved automatically, each with the message of the
/// condition.
pub fn approvable(spec: &Value, csr: &CertificateRequest) -> &'static [(&'static str, &'static str)] {
    let usages: BTreeSet<&str> = usages(spec).collect();
    if spec["signerName"] != KUBELET_CLIENT || kubelet_client(csr, &usages).is_err() {
        return &[];
    }
    match spec["username"] == csr.common_name.as_str() {
        true => &[SELF, OTHER],
        false => &[OTHER],
    }
}

/// Validates a request for one of the known signers; `None` if the signer is not handled here.
pub fn signable(spec: &Value, csr: &CertificateRequest) -> Option<Result<(), String>> {
    let set: BTreeSet<&str> = usages(spec).collect();
    match spec["signerName"].as_str().unwrap_or_default() {
        CLIENT => Some(client(usages(spec))),
        KUBELET_CLIENT => Some(kubelet_client(csr, &set)),
        KUBELET_SERVING => Some(kubelet_serving(csr, &set)),
        LEGACY => Some(Ok(())),
        _ => None,
    }
}

/// Whether the request is for a kubelet's serving certificate.
pub fn is_kubelet_serving(spec: &Value) -> bool {
    spec["signerName"] == KUBELET_SERVING
}

fn client<'a>(usages: impl Iterator<Item = &'a str>) -> Result<(), String> {
    let mut is_for_clients = false;
    for usage in usages {
        match usage {
            "digital signature" | "key encipherment" => {}
            "client auth" => is_for_clients = true,
            other => return Err(format!("invalid usage for client certificate: {other}")),
        }
    }
    match is_for_clients {
        true => Ok(()),
        false => Err("missing required usage for client certificate: client auth".into()),
    }
}

fn kubelet_client(csr: &CertificateRequest, usages: &BTreeSet<&str>) -> Result<(), String> {
    let forbidden = [
        (!csr.dns_names.is_empty(), "DNS subjectAltNames are not allowed"),
        (!csr.emails.is_empty(), "Email subjectAltNames are not allowed"),
        (!csr.addresses.is_empty(), "IP subjectAltNames are not allowed"),
        (!csr.uris.is_empty(), "URI subjectAltNames are not allowed"),
    ];
    check_group(csr)?;
    for (is_there, problem) in forbidden {
        if is_there {
            return Err(problem.into());
        }
    }
    check_name(csr)?;
    check_usages(usages, "client auth")
}

fn kubelet_serving(csr: &CertificateRequest, usages: &BTreeSet<&str>) -> Result<(), String> {
    check_group(csr)?;
    if csr.dns_names.is_empty() && csr.addresses.is_empty() {
        return Err("DNS or IP subjectAltName is required".into());
    }
    if !csr.emails.is_empty() {
        return Err("Email subjectAltNames are not allowed".into());
    }
    if !csr.uris.is_empty() {
        return Err("URI subjectAltNames are not allowed".into());
    }
    check_usages(usages, "server auth")?;
    check_name(csr)
}

fn check_group(csr: &CertificateRequest) -> Result<(), String> {
    match csr.organizations == ["system:nodes"] {
        true => Ok(()),
        false => Err("subject organization is not system:nodes".into()),
    }
}

fn check_name(csr: &CertificateRequest) -> Result<(), String> {
    match csr.common_name.starts_with("system:node:") {
        true => Ok(()),
        false => Err("subject common name does not begin with system:node:".into()),
    }
}

/// Key encipherment is optional, because ECDSA keys do not need it.
fn check_usages(usages: &BTreeSet<&str>, purpose: &str) -> Result<(), String> {
    let without = BTreeSet::from(["digital signature", purpose]);
    let mut with = without.clone();
    with.insert("key encipherment");
    match *usages == with || *usages == without {
        true => Ok(()),
        false => {
            let all: Vec<&str> = with.into_iter().collect();
            Err(format!("usages did not match [{}]", all.join(" ")))
        }
    }
}

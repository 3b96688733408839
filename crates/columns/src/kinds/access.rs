//! RBAC, certificate signing requests, webhooks and admission policies.

// upstream: pkg/printers/internalversion/printers.go

use atoll_meta::time::{Timestamp, human_duration};
use serde_json::Value;

use super::{AGE, NAME, PLAIN};
use crate::fields::{at, list, text};
use crate::format::selector_struct;
use crate::{Cell, Column, Printer};

pub fn printer(kind: &str) -> &'static Printer {
    match kind {
        "RoleBinding" | "ClusterRoleBinding" => &BINDING,
        "CertificateSigningRequest" => &SIGNING_REQUEST,
        "MutatingWebhookConfiguration" | "ValidatingWebhookConfiguration" => &WEBHOOKS,
        "ValidatingAdmissionPolicy" => &VALIDATING_POLICY,
        "MutatingAdmissionPolicy" => &MUTATING_POLICY,
        "ValidatingAdmissionPolicyBinding" | "MutatingAdmissionPolicyBinding" => &POLICY_BINDING,
        _ => &PLAIN,
    }
}

static BINDING: Printer = Printer::new(&[
    NAME,
    Column::new("Role", Cell::Special(role), "The role that is bound."),
    AGE,
    Column::new("Users", Cell::Special(|binding, _| subjects(binding, "User")), "Users in the roleBinding.")
        .wide(),
    Column::new(
        "Groups",
        Cell::Special(|binding, _| subjects(binding, "Group")),
        "Groups in the roleBinding.",
    )
    .wide(),
    Column::new(
        "ServiceAccounts",
        Cell::Special(|binding, _| subjects(binding, "ServiceAccount")),
        "ServiceAccounts in the roleBinding.",
    )
    .wide(),
]);

fn role(binding: &Value, _: Timestamp) -> Value {
    format!("{}/{}", text(binding, "roleRef.kind"), text(binding, "roleRef.name")).into()
}

fn subjects(binding: &Value, kind: &str) -> Value {
    let subjects = list(binding, "subjects").iter().filter(|subject| text(subject, "kind") == kind);
    let named = subjects.map(|subject| match kind {
        "ServiceAccount" => format!("{}/{}", text(subject, "namespace"), text(subject, "name")),
        _ => text(subject, "name").to_owned(),
    });
    named.collect::<Vec<_>>().join(", ").into()
}

static SIGNING_REQUEST: Printer = Printer::new(&[
    NAME,
    AGE,
    Column::new("SignerName", Cell::TextOr("spec.signerName", "<none>"), "Signer of the certificate."),
    Column::new("Requestor", Cell::Text("spec.username"), "User that created the request."),
    Column::new("RequestedDuration", Cell::Special(requested), "Requested validity of the certificate."),
    Column::new("Condition", Cell::Special(decision), "Approval state of the request."),
]);

fn requested(request: &Value, _: Timestamp) -> Value {
    let seconds = at(request, "spec.expirationSeconds").and_then(Value::as_i64);
    seconds.map_or_else(|| "<none>".to_owned(), human_duration).into()
}

fn decision(request: &Value, _: Timestamp) -> Value {
    let has = |kind: &str| {
        list(request, "status.conditions").iter().any(|condition| text(condition, "type") == kind)
    };
    let mut decision = match (has("Denied"), has("Approved")) {
        (true, _) => "Denied",
        (false, true) => "Approved",
        (false, false) => "Pending",
    }
    .to_owned();
    if has("Failed") {
        decision.push_str(",Failed");
    }
    if !text(request, "status.certificate").is_empty() {
        decision.push_str(",Issued");
    }
    decision.into()
}

static WEBHOOKS: Printer = Printer::new(&[
    NAME,
    Column::new("Webhooks", Cell::Length("webhooks"), "Number of webhooks.").integer(),
    AGE,
]);

const PARAMETER_KIND: Column =
    Column::new("ParamKind", Cell::Special(parameter_kind), "Kind of its parameters.");

static VALIDATING_POLICY: Printer = Printer::new(&[
    NAME,
    Column::new("Validations", Cell::Length("spec.validations"), "Number of validations.").integer(),
    PARAMETER_KIND,
    AGE,
]);

static MUTATING_POLICY: Printer = Printer::new(&[
    NAME,
    Column::new("Mutations", Cell::Length("spec.mutations"), "Number of mutations.").integer(),
    PARAMETER_KIND,
    AGE,
]);

fn parameter_kind(policy: &Value, _: Timestamp) -> Value {
    match at(policy, "spec.paramKind") {
        Some(kind) => format!("{}/{}", text(kind, "apiVersion"), text(kind, "kind")).into(),
        None => "<unset>".into(),
    }
}

static POLICY_BINDING: Printer = Printer::new(&[
    NAME,
    Column::new("PolicyName", Cell::Text("spec.policyName"), "Name of the bound policy."),
    Column::new("ParamRef", Cell::Special(parameters), "Parameters of the policy."),
    AGE,
]);

fn parameters(binding: &Value, _: Timestamp) -> Value {
    let Some(reference) = at(binding, "spec.paramRef") else { return "<unset>".into() };
    match (text(reference, "name"), text(reference, "namespace"), at(reference, "selector")) {
        ("", _, Some(selector)) => selector_struct(selector).into(),
        ("", _, None) => "<unset>".into(),
        (name, "", _) => format!("*/{name}").into(),
        (name, namespace, _) => format!("{namespace}/{name}").into(),
    }
}

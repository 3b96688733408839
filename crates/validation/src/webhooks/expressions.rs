//! Compilation of match conditions of webhooks.

// upstream: staging/src/k8s.io/apiserver/pkg/admission/plugin/cel/compile.go

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use atoll_cel::{Environment, ListKind, Object, Shape, ShapeKind, Type};

use crate::field_value::{Errors, FieldValue};

const AUTHORIZER: &str = "kubernetes.authorization.Authorizer";
const RESOURCE_CHECK: &str = "kubernetes.authorization.ResourceCheck";

/// Variables and functions of match conditions.
static ENVIRONMENT: LazyLock<Environment> = LazyLock::new(|| {
    Environment::new()
        .with("object", Type::Dyn)
        .with("oldObject", Type::Dyn)
        .with_shape("namespaceObject", &namespace())
        .with_shape("request", &request())
        .with("authorizer", Type::Object(AUTHORIZER.into(), None))
        .with("authorizer.requestResource", Type::Object(RESOURCE_CHECK.into(), None))
});

/// Checks that an expression compiles to a boolean. Empty expressions are skipped.
pub(super) fn check(errors: &mut Errors, expression: &FieldValue<'_>) {
    let text = expression.text().trim();
    if text.is_empty() {
        return;
    }
    match ENVIRONMENT.compile(text) {
        Err(issues) => errors.push(expression.invalid_as(text, format!("compilation failed: {issues}"))),
        Ok(compiled) if compiled.result_type() != &Type::Bool => {
            let detail = format!("must evaluate to bool but got {}", compiled.result_type());
            errors.push(expression.invalid_as(text, detail));
        }
        Ok(_) => {}
    }
}

fn text() -> Arc<Shape> {
    Shape::new(ShapeKind::String)
}

fn time() -> Arc<Shape> {
    Shape::new(ShapeKind::DateTime)
}

fn texts() -> Arc<Shape> {
    list(text())
}

fn list(items: Arc<Shape>) -> Arc<Shape> {
    Shape::new(ShapeKind::List(items, ListKind::Atomic))
}

fn map(values: Arc<Shape>) -> Arc<Shape> {
    Shape::new(ShapeKind::Map(values))
}

fn object<const N: usize>(name: &str, fields: [(&str, Arc<Shape>); N]) -> Arc<Shape> {
    let fields: BTreeMap<String, Arc<Shape>> =
        fields.into_iter().map(|(name, shape)| (name.to_string(), shape)).collect();
    Shape::new(ShapeKind::Object(Object::new(name, fields, true)))
}

/// Returns the shape of the variable `request`.
fn request() -> Arc<Shape> {
    let named =
        |name: &str, last: &str| object(name, [("group", text()), ("version", text()), (last, text())]);
    let kind = || named("kubernetes.GroupVersionKind", "kind");
    let resource = || named("kubernetes.GroupVersionResource", "resource");
    let user = object(
        "kubernetes.UserInfo",
        [("username", text()), ("uid", text()), ("groups", texts()), ("extra", map(texts()))],
    );
    object(
        "kubernetes.AdmissionRequest",
        [
            ("kind", kind()),
            ("resource", resource()),
            ("subResource", text()),
            ("requestKind", kind()),
            ("requestResource", resource()),
            ("requestSubResource", text()),
            ("name", text()),
            ("namespace", text()),
            ("operation", text()),
            ("userInfo", user),
            ("dryRun", Shape::new(ShapeKind::Bool)),
            ("options", Shape::new(ShapeKind::Any)),
        ],
    )
}

/// Returns the shape of the variable `namespaceObject`.
fn namespace() -> Arc<Shape> {
    let number = || Shape::new(ShapeKind::Int);
    let metadata = object(
        "kubernetes.NamespaceMetadata",
        [
            ("name", text()),
            ("generateName", text()),
            ("namespace", text()),
            ("labels", map(text())),
            ("annotations", map(text())),
            ("UID", text()),
            ("creationTimestamp", time()),
            ("deletionGracePeriodSeconds", number()),
            ("deletionTimestamp", time()),
            ("generation", number()),
            ("resourceVersion", text()),
            ("finalizers", texts()),
        ],
    );
    let condition = object(
        "kubernetes.NamespaceCondition",
        [
            ("status", text()),
            ("type", text()),
            ("lastTransitionTime", time()),
            ("message", text()),
            ("reason", text()),
        ],
    );
    let status = object("kubernetes.NamespaceStatus", [("conditions", list(condition)), ("phase", text())]);
    let spec = object("kubernetes.NamespaceSpec", [("finalizers", texts())]);
    object("kubernetes.Namespace", [("metadata", metadata), ("spec", spec), ("status", status)])
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn conditions_must_compile_to_a_truth_value() {
        for good in [
            "true",
            " object.spec.replicas > 3 ",
            "request.userInfo.groups.exists(group, group == 'a')",
            "request.kind.group == 'apps' && request.dryRun",
            "oldObject == null || has(oldObject.metadata.labels)",
            "namespaceObject.metadata.labels['a'] == 'b'",
            "authorizer.group('').resource('pods').check('get').allowed()",
            "authorizer.requestResource.check('breakglass').allowed()",
            "request.options.dryRun == ['All']",
            "",
        ] {
            let condition = json!({ "expression": good });
            let mut errors = Errors::new();
            check(&mut errors, &FieldValue::field(&condition, "expression"));
            assert!(errors.is_empty(), "{good}: {errors:?}");
        }
        for (wrong, message) in [
            ("object.", "compilation failed: ERROR: <input>:1:8: Syntax error"),
            ("nothing", "undeclared reference to 'nothing' (in container '')"),
            ("request.kinds == 'a'", "undefined field 'kinds'"),
            ("params.a", "undeclared reference to 'params' (in container '')"),
            ("'a'", "must evaluate to bool but got string"),
            ("object", "must evaluate to bool but got dyn"),
            ("'a'.matches('(')", "invalid matches argument"),
        ] {
            let condition = json!({ "expression": wrong });
            let mut errors = Errors::new();
            check(&mut errors, &FieldValue::field(&condition, "expression"));
            let messages = errors.iter().map(ToString::to_string).collect::<String>();
            assert!(messages.contains(message), "{wrong}: {messages}");
        }
    }
}

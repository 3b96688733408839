//! `kubernetes.authz`: authorization checks. Expressions are checked and their costs estimated; the variable
//! `authorizer` is never bound, so the functions are never called.

// upstream: staging/src/k8s.io/apiserver/pkg/cel/library/authz.go

use super::costs::{check, estimate_check, estimate_selector, selector};
use super::{Function, Library, Overload};
use crate::error::Error;
use crate::value::Value;

/// Declares functions with one overload each and no implementation.
macro_rules! functions {
    ($($name:literal $id:literal $signature:literal),* $(,)?) => {
        &[
            Function {
                name: "check",
                overloads: &[
                    Overload::new(
                        "pathcheck_check",
                        "kubernetes.authorization.PathCheck.(string) -> kubernetes.authorization.Decision",
                        absent,
                    )
                    .costs(check, estimate_check),
                    Overload::new(
                        "resourcecheck_check",
                        "kubernetes.authorization.ResourceCheck.(string) -> kubernetes.authorization.Decision",
                        absent,
                    )
                    .costs(check, estimate_check),
                ],
            },
            Function {
                name: "fieldSelector",
                overloads: &[Overload::new(
                    "authorizer_fieldselector",
                    "kubernetes.authorization.ResourceCheck.(string) -> kubernetes.authorization.ResourceCheck",
                    absent,
                )
                .costs(selector, estimate_selector)],
            },
            Function {
                name: "labelSelector",
                overloads: &[Overload::new(
                    "authorizer_labelselector",
                    "kubernetes.authorization.ResourceCheck.(string) -> kubernetes.authorization.ResourceCheck",
                    absent,
                )
                .costs(selector, estimate_selector)],
            },
            $(Function { name: $name, overloads: &[Overload::new($id, $signature, absent)] },)*
        ]
    };
}

pub static LIBRARY: Library = Library {
    name: "kubernetes.authz",
    functions: functions![
        "path" "authorizer_path"
            "kubernetes.authorization.Authorizer.(string) -> kubernetes.authorization.PathCheck",
        "group" "authorizer_group"
            "kubernetes.authorization.Authorizer.(string) -> kubernetes.authorization.GroupCheck",
        "serviceAccount" "authorizer_serviceaccount"
            "kubernetes.authorization.Authorizer.(string, string) -> kubernetes.authorization.Authorizer",
        "resource" "groupcheck_resource"
            "kubernetes.authorization.GroupCheck.(string) -> kubernetes.authorization.ResourceCheck",
        "subresource" "resourcecheck_subresource"
            "kubernetes.authorization.ResourceCheck.(string) -> kubernetes.authorization.ResourceCheck",
        "namespace" "resourcecheck_namespace"
            "kubernetes.authorization.ResourceCheck.(string) -> kubernetes.authorization.ResourceCheck",
        "name" "resourcecheck_name"
            "kubernetes.authorization.ResourceCheck.(string) -> kubernetes.authorization.ResourceCheck",
        "errored" "decision_errored" "kubernetes.authorization.Decision.() -> bool",
        "error" "decision_error" "kubernetes.authorization.Decision.() -> string",
        "allowed" "decision_allowed" "kubernetes.authorization.Decision.() -> bool",
        "reason" "decision_reason" "kubernetes.authorization.Decision.() -> string",
    ],
    types: &[],
};

fn absent<'a>(_: &[Value<'a>]) -> Result<Value<'a>, Error> {
    Err(Error::NoSuchOverload)
}

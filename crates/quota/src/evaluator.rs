//! Evaluators: usage of objects of one resource.

// upstream: staging/src/k8s.io/apiserver/pkg/quota/v1/generic/evaluator.go
// upstream: pkg/quota/v1/install/registry.go

use serde_json::Value;

use crate::amounts::Amounts;
use crate::scopes::Scope;
use crate::{QuotaLookup, device_claims, pods, services, volume_claims};

/// Resources that are not stored, and events, which quotas never count.
const IGNORED: [(&str, &str); 10] = [
    ("", "bindings"),
    ("", "componentstatuses"),
    ("", "events"),
    ("events.k8s.io", "events"),
    ("authentication.k8s.io", "tokenreviews"),
    ("authentication.k8s.io", "selfsubjectreviews"),
    ("authorization.k8s.io", "subjectaccessreviews"),
    ("authorization.k8s.io", "selfsubjectaccessreviews"),
    ("authorization.k8s.io", "localsubjectaccessreviews"),
    ("authorization.k8s.io", "selfsubjectrulesreviews"),
];

/// Resources with a quota name of their own besides `count/…`.
const ALIASES: [&str; 4] = ["configmaps", "resourcequotas", "replicationcontrollers", "secrets"];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QuotaOperation {
    Create,
    Update,
}

/// Evaluator of the objects of a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Evaluator {
    Pods,
    Services,
    VolumeClaims,
    DeviceClaims,
    /// Only the number of objects counts, under any of these names.
    Count {
        group: String,
        resource: String,
        names: Vec<String>,
    },
}

impl Evaluator {
    /// Returns the evaluator of a resource; `None` if quotas never count it.
    pub fn of(group: &str, resource: &str) -> Option<Evaluator> {
        match (group, resource) {
            ("", "pods") => return Some(Evaluator::Pods),
            ("", "services") => return Some(Evaluator::Services),
            ("", "persistentvolumeclaims") => return Some(Evaluator::VolumeClaims),
            ("resource.k8s.io", "resourceclaims") => return Some(Evaluator::DeviceClaims),
            ignored if IGNORED.contains(&ignored) => return None,
            _ => {}
        }
        let mut names = vec![count_name(group, resource)];
        if group.is_empty() && ALIASES.contains(&resource) {
            names.push(resource.to_string());
        }
        Some(Evaluator::Count { group: group.to_string(), resource: resource.to_string(), names })
    }

    /// Returns group and plural.
    pub fn resource(&self) -> (&str, &str) {
        match self {
            Evaluator::Pods => ("", "pods"),
            Evaluator::Services => ("", "services"),
            Evaluator::VolumeClaims => ("", "persistentvolumeclaims"),
            Evaluator::DeviceClaims => ("resource.k8s.io", "resourceclaims"),
            Evaluator::Count { group, resource, .. } => (group, resource),
        }
    }

    /// Whether such a request can change the usage.
    pub fn handles(
        &self,
        operation: QuotaOperation,
        subresource: &str,
        new: &Value,
        old: Option<&Value>,
    ) -> bool {
        let creates = operation == QuotaOperation::Create;
        match self {
            Evaluator::Pods => match subresource {
                "" => {
                    creates || old.is_some_and(|old| pods::is_terminating(old) != pods::is_terminating(new))
                }
                "resize" => !creates,
                _ => false,
            },
            // The status may contain more allocated storage than requested.
            Evaluator::VolumeClaims => matches!(subresource, "" | "status"),
            Evaluator::Services | Evaluator::DeviceClaims => subresource.is_empty(),
            Evaluator::Count { .. } => subresource.is_empty() && creates,
        }
    }

    /// Returns the quota names that apply to such objects.
    pub fn matching<'n>(
        &self,
        names: impl Iterator<Item = &'n str>,
        lookup: &dyn QuotaLookup,
    ) -> Vec<&'n str> {
        match self {
            Evaluator::Pods => names.filter(|name| pods::matches(name)).collect(),
            Evaluator::Services => names.filter(|name| services::NAMES.contains(name)).collect(),
            Evaluator::VolumeClaims => names.filter(|name| volume_claims::matches(name)).collect(),
            Evaluator::DeviceClaims => device_claims::matching(names, lookup),
            Evaluator::Count { names: own, .. } => {
                names.filter(|name| own.iter().any(|own| own == name)).collect()
            }
        }
    }

    /// Refuses objects that lack amounts which a quota requires.
    pub fn constrain(&self, required: &[&str], object: &Value) -> Result<(), String> {
        match self {
            Evaluator::Pods => pods::constrain(required, object),
            _ => Ok(()),
        }
    }

    /// Whether the object is within a scope. Resources without scopes are within none.
    pub fn is_within(&self, scope: &Scope, object: &Value) -> Result<bool, String> {
        match self {
            Evaluator::Pods => pods::is_within(scope, object),
            Evaluator::VolumeClaims => volume_claims::is_within(scope, object),
            _ => Ok(false),
        }
    }

    /// Returns the usage of the object.
    pub fn usage(&self, object: &Value, lookup: &dyn QuotaLookup) -> Amounts {
        match self {
            Evaluator::Pods => pods::usage(object, lookup.now()),
            Evaluator::Services => services::usage(object),
            Evaluator::VolumeClaims => volume_claims::usage(object),
            Evaluator::DeviceClaims => device_claims::usage(object, lookup),
            Evaluator::Count { names, .. } => {
                let mut usage = Amounts::default();
                names.iter().for_each(|name| usage.set_count(name.as_str(), 1));
                usage
            }
        }
    }
}

/// Returns the quota name of the number of objects.
pub fn count_name(group: &str, resource: &str) -> String {
    match group {
        "" => format!("count/{resource}"),
        group => format!("count/{resource}.{group}"),
    }
}

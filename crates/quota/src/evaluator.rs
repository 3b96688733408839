//! What counts against quotas for objects of one resource.

use serde_json::Value;

use crate::amounts::Amounts;
use crate::scopes::Scope;
use crate::{Surroundings, device_claims, pods, services, volume_claims};

/// Kinds that are not kept, and events, which no quota has ever counted.
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

/// Resources that have a name of their own for their number, besides `count/…`.
const ALIASES: [&str; 4] = ["configmaps", "resourcequotas", "replicationcontrollers", "secrets"];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    Create,
    Update,
}

/// How the objects of a resource are measured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Evaluator {
    Pods,
    Services,
    VolumeClaims,
    DeviceClaims,
    /// Only their number counts, under any of these names.
    Count {
        group: String,
        resource: String,
        names: Vec<String>,
    },
}

impl Evaluator {
    /// `None` for what no quota counts.
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

    /// Group and plural.
    pub fn resource(&self) -> (&str, &str) {
        match self {
            Evaluator::Pods => ("", "pods"),
            Evaluator::Services => ("", "services"),
            Evaluator::VolumeClaims => ("", "persistentvolumeclaims"),
            Evaluator::DeviceClaims => ("resource.k8s.io", "resourceclaims"),
            Evaluator::Count { group, resource, .. } => (group, resource),
        }
    }

    /// Whether such a request can change what is used at all.
    pub fn handles(&self, operation: Operation, subresource: &str, new: &Value, old: Option<&Value>) -> bool {
        let creates = operation == Operation::Create;
        match self {
            Evaluator::Pods => match subresource {
                "" => {
                    creates || old.is_some_and(|old| pods::is_terminating(old) != pods::is_terminating(new))
                }
                "resize" => !creates,
                _ => false,
            },
            // A status may say that more was allocated than asked for.
            Evaluator::VolumeClaims => matches!(subresource, "" | "status"),
            Evaluator::Services | Evaluator::DeviceClaims => subresource.is_empty(),
            Evaluator::Count { .. } => subresource.is_empty() && creates,
        }
    }

    /// The names among these that are about such objects.
    pub fn matching<'n>(
        &self,
        names: impl Iterator<Item = &'n str>,
        surroundings: &dyn Surroundings,
    ) -> Vec<&'n str> {
        match self {
            Evaluator::Pods => names.filter(|name| pods::matches(name)).collect(),
            Evaluator::Services => names.filter(|name| services::NAMES.contains(name)).collect(),
            Evaluator::VolumeClaims => names.filter(|name| volume_claims::matches(name)).collect(),
            Evaluator::DeviceClaims => device_claims::matching(names, surroundings),
            Evaluator::Count { names: own, .. } => {
                names.filter(|name| own.iter().any(|own| own == name)).collect()
            }
        }
    }

    /// Refuses objects that do not say what a quota must know.
    pub fn constrain(&self, required: &[&str], object: &Value) -> Result<(), String> {
        match self {
            Evaluator::Pods => pods::constrain(required, object),
            _ => Ok(()),
        }
    }

    /// Whether the object is within a scope. Kinds that know no scopes are within none.
    pub fn is_within(&self, scope: &Scope, object: &Value) -> Result<bool, String> {
        match self {
            Evaluator::Pods => pods::is_within(scope, object),
            Evaluator::VolumeClaims => volume_claims::is_within(scope, object),
            _ => Ok(false),
        }
    }

    /// What the object uses.
    pub fn usage(&self, object: &Value, surroundings: &dyn Surroundings) -> Amounts {
        match self {
            Evaluator::Pods => pods::usage(object, surroundings.now()),
            Evaluator::Services => services::usage(object),
            Evaluator::VolumeClaims => volume_claims::usage(object),
            Evaluator::DeviceClaims => device_claims::usage(object, surroundings),
            Evaluator::Count { names, .. } => {
                let mut usage = Amounts::default();
                names.iter().for_each(|name| usage.set_count(name.as_str(), 1));
                usage
            }
        }
    }
}

/// The name under which the number of objects counts.
pub fn count_name(group: &str, resource: &str) -> String {
    match group {
        "" => format!("count/{resource}"),
        group => format!("count/{resource}.{group}"),
    }
}

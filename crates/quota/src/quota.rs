//! A ResourceQuota.

// upstream: staging/src/k8s.io/apiserver/pkg/admission/plugin/resourcequota/controller.go

use atoll_meta::object;
use serde_json::Value;

use crate::amounts::Amounts;
use crate::scopes::Scope;

/// Limits and usage of a namespace.
#[derive(Clone, Debug)]
pub struct Quota {
    pub name: String,
    pub scopes: Vec<Scope>,
    /// The limits in the spec. They are effective once they are in `hard`.
    pub wanted: Amounts,
    /// The effective limits.
    pub hard: Amounts,
    pub used: Amounts,
}

impl Quota {
    pub fn read(quota: &Value) -> Quota {
        let (spec, status) = (&quota["spec"], &quota["status"]);
        let plain = spec["scopes"].as_array().into_iter().flatten();
        let plain = plain.filter_map(Value::as_str).map(Scope::exists);
        let selected = spec["scopeSelector"]["matchExpressions"].as_array().into_iter().flatten();
        Quota {
            name: object::name(quota).to_string(),
            scopes: plain.chain(selected.map(Scope::read)).collect(),
            wanted: Amounts::read(&spec["hard"]),
            hard: Amounts::read(&status["hard"]),
            used: Amounts::read(&status["used"]),
        }
    }
}

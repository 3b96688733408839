//! A ResourceQuota, as far as it matters here.

use atoll_meta::object;
use serde_json::Value;

use crate::amounts::Amounts;
use crate::scopes::Scope;

/// A limit on what a namespace may use, and what it uses.
#[derive(Clone, Debug)]
pub struct Quota {
    pub name: String,
    pub scopes: Vec<Scope>,
    /// What is wished for; it holds once it is also in `hard`.
    pub wanted: Amounts,
    /// The limits that hold.
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

//! A ReplicaSet of a Deployment with its planned changes.

// upstream: pkg/controller/deployment/util/deployment_util.go

use std::cmp::Ordering;
use std::sync::Arc;

use atoll_meta::object;
use serde_json::Value;

use crate::shared::views::WorkloadView;
use crate::shared::views::status::{AVAILABLE_REPLICAS, REPLICAS};

pub const REVISION: &str = "deployment.kubernetes.io/revision";
pub const REVISION_HISTORY: &str = "deployment.kubernetes.io/revision-history";
pub const DESIRED_REPLICAS: &str = "deployment.kubernetes.io/desired-replicas";
pub const MAX_REPLICAS: &str = "deployment.kubernetes.io/max-replicas";
pub const TEMPLATE_HASH: &str = "pod-template-hash";

#[derive(Clone, Debug)]
pub struct Set {
    pub current: Arc<Value>,
    /// The object to write, if changed.
    pub next: Option<Value>,
}

impl Set {
    pub fn new(current: Arc<Value>) -> Set {
        Set { current, next: None }
    }

    pub fn object(&self) -> &Value {
        self.next.as_ref().unwrap_or(&self.current)
    }

    pub fn change(&mut self) -> &mut Value {
        self.next.get_or_insert_with(|| self.current.as_ref().clone())
    }

    pub fn name(&self) -> &str {
        object::name(&self.current)
    }

    /// Returns the fields of the set, with its changes.
    pub fn view(&self) -> WorkloadView<'_> {
        WorkloadView::of(self.object())
    }

    /// Returns the fields of the set as it is stored.
    pub fn current_view(&self) -> WorkloadView<'_> {
        WorkloadView::of(&self.current)
    }

    /// Returns the number of desired pods.
    pub fn replicas(&self) -> i64 {
        self.view().replicas()
    }

    /// Returns the number of existing or desired pods, whichever is higher.
    pub fn pods(&self) -> i64 {
        self.count(REPLICAS).max(self.replicas())
    }

    pub fn is_active(&self) -> bool {
        self.replicas() > 0
    }

    pub fn count(&self, field: &str) -> i64 {
        self.current_view().status().count(field)
    }

    /// Returns the available pods, at most the desired ones.
    pub fn available(&self) -> i64 {
        self.count(AVAILABLE_REPLICAS).min(self.replicas())
    }

    pub fn annotation(&self, key: &str) -> Option<&str> {
        object::annotation(self.object(), key)
    }

    /// Returns the revision; `None` if it is no number.
    pub fn revision(&self) -> Option<i64> {
        self.annotation(REVISION).map_or(Some(0), |text| text.parse().ok())
    }

    pub fn set_annotation(&mut self, key: &str, value: &str) -> bool {
        let changes = self.annotation(key) != Some(value);
        if changes {
            object::set_annotation(self.change(), key, value);
        }
        changes
    }
}

/// Orders sets by age, then by name.
pub fn by_age(one: &Set, other: &Set) -> Ordering {
    let created = |set: &Set| object::creation_timestamp(&set.current).map(String::from);
    created(one).cmp(&created(other)).then_with(|| one.name().cmp(other.name()))
}

/// Orders sets by revision, then by age.
pub fn by_revision(one: &Set, other: &Set) -> Ordering {
    let revision = |set: &Set| set.revision().unwrap_or(0);
    revision(one).cmp(&revision(other)).then_with(|| by_age(one, other))
}

/// Whether two templates are equal except for the hash label.
pub fn is_same_template(one: &Value, other: &Value) -> bool {
    let labels = |template: &Value| -> Vec<(String, String)> {
        let labels = object::labels(template).filter(|(key, _)| *key != TEMPLATE_HASH);
        labels.map(|(key, value)| (key.to_string(), value.to_string())).collect()
    };
    let rest = |template: &Value| -> Vec<(String, Value)> {
        let fields = object::metadata(template).into_iter().flatten();
        let is_set = |value: &Value| match value {
            Value::Null => false,
            Value::Object(map) => !map.is_empty(),
            Value::Array(list) => !list.is_empty(),
            _ => true,
        };
        let kept = fields.filter(|(field, value)| *field != "labels" && is_set(value));
        kept.map(|(field, value)| (field.clone(), value.clone())).collect()
    };
    one["spec"] == other["spec"] && labels(one) == labels(other) && rest(one) == rest(other)
}

//! Workloads with a pod template: Deployments, ReplicaSets, StatefulSets, DaemonSets, CronJobs and
//! ReplicationControllers.

// upstream: pkg/registry/apps/deployment/strategy.go
// upstream: pkg/registry/apps/daemonset/strategy.go
// upstream: pkg/registry/apps/statefulset/strategy.go
// upstream: pkg/registry/apps/replicaset/strategy.go

use std::collections::BTreeMap;

use atoll_meta::object;
use serde_json::Value;

use super::{Context, Strategy, counted, disabled, spec_differs};

const TEMPLATE: &str = "spec.template";
const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";
const ROLLBACK: &str = "deprecated.deployment.rollback.to";

const GENERIC: Strategy = Strategy {
    generation: true,
    raises_generation: spec_differs,
    prepare_create: |new, _| disabled::drop_from_template(new, TEMPLATE),
    prepare_update: |new, _, _| disabled::drop_from_template(new, TEMPLATE),
    ..Strategy::GENERIC
};

pub static DEPLOYMENT: Strategy = Strategy {
    status_keeps: &["labels"],
    raises_generation: |new, old| spec_differs(new, old) || annotations_differ(new, old),
    prepare_subresource: |_, new, old, _| keep_annotation(new, old, ROLLBACK),
    prepare_bookmark: set_replicas,
    ..GENERIC
};

/// Whether annotations differ. Where an object runs is not part of what runs there.
fn annotations_differ(new: &Value, old: &Value) -> bool {
    let [new, old] = [new, old].map(|object| {
        let kept = object::annotations(object).filter(|(key, _)| *key != atoll_placement::intent::ANNOTATION);
        kept.collect::<BTreeMap<_, _>>()
    });
    new != old
}

pub static REPLICA_SET: Strategy = Strategy { prepare_bookmark: set_replicas, ..GENERIC };

pub static REPLICATION_CONTROLLER: Strategy =
    Strategy { fields: &[counted("status.replicas", "status.replicas", "0")], ..GENERIC };

pub static STATEFUL_SET: Strategy = Strategy {
    prepare_create: |new, _| {
        disabled::drop_from(new, disabled::STATEFUL_SET);
        disabled::drop_from_template(new, TEMPLATE);
    },
    prepare_update: |new, _, _| {
        disabled::drop_from(new, disabled::STATEFUL_SET);
        disabled::drop_from_template(new, TEMPLATE);
    },
    prepare_bookmark: set_replicas,
    ..GENERIC
};

pub static CRON_JOB: Strategy = Strategy {
    prepare_create: |new, _| disabled::drop_from_template(new, "spec.jobTemplate.spec.template"),
    prepare_update: |new, _, _| disabled::drop_from_template(new, "spec.jobTemplate.spec.template"),
    ..GENERIC
};

pub static POD_TEMPLATE: Strategy = Strategy {
    returns_deleted: true,
    prepare_create: |new, _| disabled::drop_from_template(new, "template"),
    prepare_update: |new, _, _| disabled::drop_from_template(new, "template"),
    ..GENERIC
};

pub static DAEMON_SET: Strategy = Strategy {
    prepare_create: |new, _| {
        disabled::drop_from_template(new, TEMPLATE);
        let generation = template_generation(new).max(1);
        annotate(new, TEMPLATE_GENERATION, generation.to_string().into());
    },
    prepare_update: update_daemon_set,
    prepare_subresource: |_, new, old, _| keep_annotation(new, old, TEMPLATE_GENERATION),
    ..GENERIC
};

/// In upstream's internal types of these kinds, replicas is always set.
fn set_replicas(empty: &mut Value) {
    empty["spec"]["replicas"] = 0.into();
}

/// Raises the template generation, which is stored in an annotation that was a field in older versions.
fn update_daemon_set(new: &mut Value, old: &Value, _: &Context<'_>) {
    disabled::drop_from_template(new, TEMPLATE);
    let changed = new["spec"]["template"] != old["spec"]["template"];
    let generation = template_generation(old).saturating_add(i64::from(changed));
    annotate(new, TEMPLATE_GENERATION, generation.to_string().into());
}

fn template_generation(daemon_set: &Value) -> i64 {
    object::annotation(daemon_set, TEMPLATE_GENERATION).and_then(|text| text.parse().ok()).unwrap_or(0)
}

/// Restores an annotation that is a field of upstream's internal types and therefore not part of the
/// metadata.
fn keep_annotation(new: &mut Value, old: &Value, name: &str) {
    match object::annotation(old, name) {
        Some(value) => annotate(new, name, value.into()),
        None => {
            let fields = object::metadata_mut(new);
            if let Some(Value::Object(annotations)) = fields.get_mut("annotations")
                && annotations.remove(name).is_some()
                && annotations.is_empty()
            {
                fields.remove("annotations");
            }
        }
    }
}

fn annotate(object: &mut Value, name: &str, value: Value) {
    let annotations = object::metadata_mut(object).entry("annotations").or_insert(Value::Null);
    if !annotations.is_object() {
        *annotations = Value::Object(serde_json::Map::new());
    }
    annotations[name] = value;
}

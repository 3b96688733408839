//! Services. Addresses and ports are allocated in `crate::services`.

// upstream: pkg/registry/core/service/strategy.go

use atoll_meta::names;

use super::effects::Effects;
use super::{Strategy, field};
use crate::services::drop_type_dependent_fields;

pub static STRATEGY: Strategy = Strategy {
    name_rule: names::name_is_dns_label,
    create_on_update: true,
    returns_deleted: true,
    fields: &[field("spec.clusterIP"), field("spec.type")],
    prepare_update: |new, old, _| drop_type_dependent_fields(new, old),
    effects: Effects {
        allocate: Some(|registry, object_ref, new, old, dry_run| {
            Box::pin(registry.allocate_for_service(object_ref, new, old, dry_run))
        }),
        after_removal: Some(|registry, object_ref, service| {
            Box::pin(registry.free_service(object_ref, service))
        }),
        ..Effects::NONE
    },
    ..Strategy::GENERIC
};

//! Services; their addresses and ports are in `crate::services`.

use atoll_meta::names;

use super::{Strategy, field};
use crate::services::drop_what_the_type_has_not;

pub static STRATEGY: Strategy = Strategy {
    name_rule: names::name_is_dns_label,
    create_on_update: true,
    returns_deleted: true,
    fields: &[field("spec.clusterIP"), field("spec.type")],
    prepare_update: |new, old, _| drop_what_the_type_has_not(new, old),
    ..Strategy::GENERIC
};

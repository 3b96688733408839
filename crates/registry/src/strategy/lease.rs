//! Leases.

// upstream: pkg/registry/coordination/lease/strategy.go

use super::{Strategy, disabled};

pub static STRATEGY: Strategy = Strategy {
    create_on_update: true,
    unconditional_update: false,
    prepare_create: |lease, _| disabled::drop_from(lease, disabled::LEASE),
    prepare_update: |new, _, _| disabled::drop_from(new, disabled::LEASE),
    finalizer_names: false,
    ..Strategy::GENERIC
};

//! ResourceSlices and ResourceClaims.

// upstream: pkg/registry/resource/resourceslice/strategy.go
// upstream: pkg/registry/resource/resourceclaim/strategy.go

use serde_json::Value;

use super::{Context, ONLY_STATUS, Strategy, disabled, raise_generation, spec_differs};

pub static SLICE: Strategy = Strategy {
    generation: true,
    raises_generation: spec_differs,
    returns_deleted: true,
    prepare_create: |slice, context| {
        set_taint_times(slice, context);
        disabled::drop_from(slice, disabled::RESOURCE_SLICE);
    },
    prepare_update: |new, old, context| {
        set_taint_times(new, context);
        // Upstream raises the generation before it drops disabled fields.
        if spec_differs(new, old) {
            raise_generation(new, old);
        }
        disabled::drop_from(new, disabled::RESOURCE_SLICE);
    },
    ..Strategy::GENERIC
};

pub static CLAIM: Strategy = Strategy {
    status_keeps: ONLY_STATUS,
    returns_deleted: true,
    prepare_subresource: |_, new, old, _| drop_released(new, old),
    ..Strategy::GENERIC
};

/// Sets the time of device taints.
fn set_taint_times(slice: &mut Value, context: &Context<'_>) {
    let devices = slice["spec"].get_mut("devices").and_then(Value::as_array_mut);
    let taints =
        devices.into_iter().flatten().filter_map(|device| device.get_mut("taints")?.as_array_mut()).flatten();
    for taint in taints.filter(|taint| taint.get("timeAdded").is_none_or(Value::is_null)) {
        taint["timeAdded"] = context.now.into();
    }
}

/// Drops the status of devices that are no longer allocated to the claim.
fn drop_released(new: &mut Value, old: &Value) {
    const IDENTITY: [&str; 4] = ["driver", "pool", "device", "shareID"];
    let same = |one: &Value, other: &Value| IDENTITY.iter().all(|name| one.get(*name) == other.get(*name));
    let allocated = |claim: &Value| {
        let results = claim["status"]["allocation"]["devices"]["results"].as_array();
        results.cloned().unwrap_or_default()
    };
    let (before, now) = (allocated(old), allocated(new));
    let is_released = |device: &Value| {
        before.iter().any(|own| same(own, device)) && !now.iter().any(|own| same(own, device))
    };
    let Some(Value::Object(status)) = new.get_mut("status") else { return };
    if let Some(Value::Array(devices)) = status.get_mut("devices") {
        devices.retain(|device| !is_released(device));
        if devices.is_empty() {
            status.remove("devices");
        }
    }
}

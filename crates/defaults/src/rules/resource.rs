//! Devices and requests for them.

// upstream: pkg/apis/resource/v1/defaults.go

use serde_json::Value;

use crate::object::{ObjectMap, child_mut, number, set, set_absent, text};

pub fn device_request(request: &mut ObjectMap) {
    if text(request, "allocationMode") == "ExactCount" && number(request, "count") == 0 {
        set(request, "count", 1);
    }
}

pub fn device(device: &mut ObjectMap) {
    let mappings =
        child_mut(device, "nodeAllocatableResourceMappings").into_iter().flat_map(|map| map.values_mut());
    for mapping in mappings.filter_map(Value::as_object_mut) {
        set_absent(mapping, "allocationMultiplier", "1");
    }
}

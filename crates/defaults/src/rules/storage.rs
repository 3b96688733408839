//! CSIDriver.

// upstream: pkg/apis/storage/v1/defaults.go

use crate::object::{ObjectMap, is_empty_list, set};

pub fn storage_driver(spec: &mut ObjectMap) {
    if is_empty_list(spec, "volumeLifecycleModes") {
        set(spec, "volumeLifecycleModes", vec!["Persistent"]);
    }
}

//! The status of a ResourceClaim: its allocation and its consumers.

// upstream: pkg/apis/resource/validation/validation.go

use std::collections::HashSet;

use atoll_meta::FieldError;
use atoll_meta::field::BadValue;
use serde_json::Value;

use super::claim::Requests;
use super::names::{self, DeviceIdentity, identity, render_identity};
use super::{IMMUTABLE, MAX_CONFIGURATIONS, MAX_REQUESTS, configuration, device, listed, unique};
use crate::field_value::{Errors, FieldValue, equal};
use crate::{addresses, conditions, go_json, node_selector};

const MAX_CONSUMERS: usize = 256;
const MAX_CONDITIONS: usize = 8;
const MAX_ADDRESSES: usize = 16;
const MAX_DATA_LENGTH: usize = 10 * 1024;
const MAX_INTERFACE_LENGTH: usize = 256;
const MAX_HARDWARE_ADDRESS_LENGTH: usize = 128;

pub(super) fn check(new: &Value, old: &Value) -> Errors {
    let mut errors = Errors::new();
    let (status, before) = (FieldValue::field(new, "status"), FieldValue::field(old, "status"));
    let consumers = status.get("reservedFor");
    if listed(&mut errors, &consumers, MAX_CONSUMERS, consumer) {
        unique(&mut errors, &consumers, |one| one.text_of("uid"), BadValue::named_text);
    }
    let (allocation, old_allocation) = (status.get("allocation"), before.get("allocation"));
    let results = allocation.get("devices").get("results");
    let allocated: HashSet<DeviceIdentity<'_>> = results.items().map(|result| identity(&result)).collect();
    let devices = status.get("devices");
    for device in devices.items() {
        device_status(&mut errors, &device, &allocated);
    }
    unique(&mut errors, &devices, identity, render_identity);
    if !consumers.is_empty() {
        reservation(&mut errors, &consumers, &allocation, new, &before.get("reservedFor"));
    }
    if allocation.is_set() && old_allocation.is_set() {
        if !equal(allocation.value, old_allocation.value) {
            let rendered = go_json::value("resource/v1.AllocationResult", allocation.value);
            errors.push(allocation.invalid_as(rendered, IMMUTABLE));
        }
    } else if allocation.is_set() {
        let requests = FieldValue::field(new, "spec").get("devices").get("requests");
        check_allocation(&mut errors, &allocation, &Requests(requests));
    }
    errors
}

fn consumer(errors: &mut Errors, consumer: &FieldValue<'_>) {
    for field in ["resource", "name", "uid"] {
        let field = consumer.get(field);
        if field.is_empty() {
            errors.push(field.required(""));
        }
    }
}

/// Checks the consumers: only an allocated claim can be reserved, and no consumer can be added while it is
/// being deleted.
fn reservation(
    errors: &mut Errors,
    consumers: &FieldValue<'_>,
    allocation: &FieldValue<'_>,
    claim: &Value,
    before: &FieldValue<'_>,
) {
    if !allocation.is_set() {
        errors.push(consumers.forbidden("may not be specified when `allocated` is not set"));
        return;
    }
    let is_leaving = FieldValue::field(claim, "metadata").has("deletionTimestamp");
    if is_leaving && consumers.list().iter().any(|consumer| !before.list().contains(consumer)) {
        let detail =
            "new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set";
        errors.push(consumers.forbidden(detail));
    }
}

fn check_allocation(errors: &mut Errors, allocation: &FieldValue<'_>, requests: &Requests<'_>) {
    let devices = allocation.get("devices");
    listed(errors, &devices.get("results"), MAX_REQUESTS, |errors, result| {
        requests.check(errors, &result.get("request"));
        names::driver(errors, &result.get("driver"));
        names::pool(errors, &result.get("pool"));
        names::label(errors, &result.get("device"));
        device::binding(errors, result);
        let share = result.get("shareID");
        if share.is_set() {
            names::share(errors, &share);
        }
    });
    // Configurations of the class and of the claim.
    listed(errors, &devices.get("config"), 2 * MAX_CONFIGURATIONS, |errors, one| {
        one.get("source").one_of(errors, &["FromClaim", "FromClass"]);
        requests.check_list(errors, &one.get("requests"));
        configuration::check(errors, one, false);
    });
    let selector = allocation.get("nodeSelector");
    if selector.is_set() {
        node_selector::check_selector(errors, &selector);
    }
}

fn device_status(errors: &mut Errors, device: &FieldValue<'_>, allocated: &HashSet<DeviceIdentity<'_>>) {
    names::driver(errors, &device.get("driver"));
    names::pool(errors, &device.get("pool"));
    names::label(errors, &device.get("device"));
    let share = device.get("shareID");
    if share.is_set() {
        names::share(errors, &share);
    }
    let own = identity(device);
    if !allocated.contains(&own) {
        errors.push(device.invalid_as(render_identity(own), "must be an allocated device in the claim"));
    }
    let list = device.get("conditions");
    if list.len() > MAX_CONDITIONS {
        errors.push(FieldError::too_many(&list.path, list.len(), MAX_CONDITIONS));
    }
    conditions::check(errors, &list);
    let data = device.get("data");
    if data.is_set() {
        configuration::raw(errors, &data, MAX_DATA_LENGTH);
    }
    network(errors, &device.get("networkData"));
}

fn network(errors: &mut Errors, network: &FieldValue<'_>) {
    for (field, longest) in
        [("interfaceName", MAX_INTERFACE_LENGTH), ("hardwareAddress", MAX_HARDWARE_ADDRESS_LENGTH)]
    {
        let field = network.get(field);
        if field.len() > longest {
            errors.push(FieldError::too_long(&field.path, longest));
        }
    }
    let list = network.get("ips");
    if listed(errors, &list, MAX_ADDRESSES, addresses::interface) {
        unique(errors, &list, FieldValue::text, BadValue::from);
    }
}

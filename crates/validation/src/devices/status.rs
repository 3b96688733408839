//! What a claim was given, and who uses it.

use std::collections::HashSet;

use atoll_meta::FieldError;
use atoll_meta::field::BadValue;
use serde_json::Value;

use super::claim::Requests;
use super::names::{self, Identity, identity, shown_identity};
use super::{IMMUTABLE, MOST_CONFIGURATIONS, MOST_REQUESTS, configuration, device, listed, unique};
use crate::at::{At, Errors, equal};
use crate::{addresses, conditions, node_selector, shown};

const MOST_CONSUMERS: usize = 256;
const MOST_CONDITIONS: usize = 8;
const MOST_ADDRESSES: usize = 16;
const LONGEST_DATA: usize = 10 * 1024;
const LONGEST_INTERFACE: usize = 256;
const LONGEST_HARDWARE_ADDRESS: usize = 128;

pub(super) fn check(new: &Value, old: &Value) -> Errors {
    let mut errors = Errors::new();
    let (status, before) = (At::field(new, "status"), At::field(old, "status"));
    let consumers = status.get("reservedFor");
    if listed(&mut errors, &consumers, MOST_CONSUMERS, consumer) {
        unique(&mut errors, &consumers, |one| one.text_of("uid"), BadValue::named_text);
    }
    let (allocation, given) = (status.get("allocation"), before.get("allocation"));
    let results = allocation.get("devices").get("results");
    let allocated: HashSet<Identity<'_>> = results.items().map(|result| identity(&result)).collect();
    let devices = status.get("devices");
    for device in devices.items() {
        device_status(&mut errors, &device, &allocated);
    }
    unique(&mut errors, &devices, identity, shown_identity);
    if !consumers.is_empty() {
        reservation(&mut errors, &consumers, &allocation, new, &before.get("reservedFor"));
    }
    if allocation.is_set() && given.is_set() {
        if !equal(allocation.value, given.value) {
            let shown = shown::value("resource/v1.AllocationResult", allocation.value);
            errors.push(allocation.invalid_as(shown, IMMUTABLE));
        }
    } else if allocation.is_set() {
        let requests = At::field(new, "spec").get("devices").get("requests");
        check_allocation(&mut errors, &allocation, &Requests(requests.list()));
    }
    errors
}

fn consumer(errors: &mut Errors, consumer: &At<'_>) {
    for field in ["resource", "name", "uid"] {
        let field = consumer.get(field);
        if field.is_empty() {
            errors.push(field.required(""));
        }
    }
}

/// Only what is allocated can be reserved, and nobody comes in while the claim goes away.
fn reservation(errors: &mut Errors, consumers: &At<'_>, allocation: &At<'_>, claim: &Value, before: &At<'_>) {
    if !allocation.is_set() {
        errors.push(consumers.forbidden("may not be specified when `allocated` is not set"));
        return;
    }
    let is_leaving = At::field(claim, "metadata").has("deletionTimestamp");
    if is_leaving && consumers.list().iter().any(|consumer| !before.list().contains(consumer)) {
        let detail =
            "new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set";
        errors.push(consumers.forbidden(detail));
    }
}

fn check_allocation(errors: &mut Errors, allocation: &At<'_>, requests: &Requests<'_>) {
    let devices = allocation.get("devices");
    listed(errors, &devices.get("results"), MOST_REQUESTS, |errors, result| {
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
    // Those of the class and those of the claim.
    listed(errors, &devices.get("config"), 2 * MOST_CONFIGURATIONS, |errors, one| {
        one.get("source").one_of(errors, &["FromClaim", "FromClass"]);
        requests.check_list(errors, &one.get("requests"));
        configuration::check(errors, one, false);
    });
    let selector = allocation.get("nodeSelector");
    if selector.is_set() {
        node_selector::check_selector(errors, selector.value, &selector.path);
    }
}

fn device_status(errors: &mut Errors, device: &At<'_>, allocated: &HashSet<Identity<'_>>) {
    names::driver(errors, &device.get("driver"));
    names::pool(errors, &device.get("pool"));
    names::label(errors, &device.get("device"));
    let share = device.get("shareID");
    if share.is_set() {
        names::share(errors, &share);
    }
    let own = identity(device);
    if !allocated.contains(&own) {
        errors.push(device.invalid_as(shown_identity(own), "must be an allocated device in the claim"));
    }
    let list = device.get("conditions");
    if list.len() > MOST_CONDITIONS {
        errors.push(FieldError::too_many(&list.path, list.len(), MOST_CONDITIONS));
    }
    conditions::check(errors, &list);
    let data = device.get("data");
    if data.is_set() {
        configuration::raw(errors, &data, LONGEST_DATA);
    }
    network(errors, &device.get("networkData"));
}

fn network(errors: &mut Errors, network: &At<'_>) {
    for (field, longest) in
        [("interfaceName", LONGEST_INTERFACE), ("hardwareAddress", LONGEST_HARDWARE_ADDRESS)]
    {
        let field = network.get(field);
        if field.len() > longest {
            errors.push(FieldError::too_long(&field.path, longest));
        }
    }
    let list = network.get("ips");
    if listed(errors, &list, MOST_ADDRESSES, addresses::interface) {
        unique(errors, &list, At::text, BadValue::from);
    }
}

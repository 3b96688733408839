//! The numbers of shares: replicas, ordinals and completions.

use atoll_fleet::Placement;
use atoll_fleet::placement::{Needed, Share};
use atoll_meta::{FieldError, FieldPath};
use atoll_registry::Row;
use serde_json::Value;

/// Reads the fields of a share other than its uid.
pub fn read(share: &Value, name: &str, path: &FieldPath, errors: &mut Vec<FieldError>) -> Share {
    let mut number = |field: &'static str| match &share[field] {
        Value::Null => None,
        count => match count.as_i64().filter(|count| (0..=i64::from(i32::MAX)).contains(count)) {
            Some(count) => Some(count),
            None => {
                let message = "must be greater than or equal to 0";
                errors.push(FieldError::invalid(&path.child(field), count.clone(), message));
                None
            }
        },
    };
    let mut read = Share {
        name: name.to_string(),
        replicas: number("replicas"),
        first_ordinal: number("firstOrdinal"),
        completions: number("completions"),
        parallelism: number("parallelism"),
        max_unavailable: number("maxUnavailable"),
        max_surge: number("maxSurge"),
        ..Share::default()
    };
    match &share["needed"] {
        Value::Null => {}
        given => match serde_json::from_value::<Needed>(given.clone()) {
            Ok(needed) => read.needed = Some(needed),
            Err(_) => {
                let message = "must be \"also\" or \"only\"";
                errors.push(FieldError::invalid(&path.child("needed"), given.clone(), message));
            }
        },
    }
    match &share["held"] {
        Value::Null => {}
        Value::Bool(held) => read.held = *held,
        other => {
            errors.push(FieldError::invalid(&path.child("held"), other.clone(), "must be true or false"));
        }
    }
    read
}

/// Refuses ordinals that another cluster still has: it must lose them in an earlier change, so that no Pod runs
/// twice. A cluster that gets its first share waits until those that leave have confirmed that.
fn taken(
    path: &FieldPath,
    share: &Share,
    current: &Placement,
    shares: &[Share],
    errors: &mut Vec<FieldError>,
) {
    let Some((first, end)) = share.ordinals().filter(|(first, end)| first < end) else { return };
    let is_new = current.share_of(&share.name, &share.uid).is_none();
    let stays = |other: &Share| shares.iter().any(|share| share.is_of(&other.name, &other.uid));
    let others = current.clusters.iter().filter(|other| !other.is_of(&share.name, &share.uid));
    let holder = others.filter(|other| stays(other) || !is_new).find(|other| {
        // A share without ordinals has all of them.
        let (other_first, other_end) = other.ordinals().unwrap_or((0, other.replicas.unwrap_or(i64::MAX)));
        first < other_end && other_first < end
    });
    if let Some(holder) = holder {
        let message =
            format!("cluster {} still has some of these ordinals: reduce its share first", holder.name);
        errors.push(FieldError::forbidden(&path.child("firstOrdinal"), message));
    }
}

/// Checks the numbers of all shares of an object together. Duplicated work is `free` to run twice.
pub fn check(
    row: &Row,
    (existing, current): (&Value, &Placement),
    shares: &[Share],
    is_free: bool,
    errors: &mut Vec<FieldError>,
) {
    let path = FieldPath::new("spec").child("clusters");
    let is_job = (row.group.as_str(), row.resource.as_str()) == ("batch", "jobs");
    let is_cron_job = (row.group.as_str(), row.resource.as_str()) == ("batch", "cronjobs");
    let is_stateful_set = (row.group.as_str(), row.resource.as_str()) == ("apps", "statefulsets");
    let mut rest = existing["spec"]["completions"].as_i64().unwrap_or(0);
    for (index, share) in shares.iter().enumerate() {
        let path = path.index(index);
        if share.first_ordinal.is_some() && !is_stateful_set {
            errors
                .push(FieldError::forbidden(&path.child("firstOrdinal"), "only StatefulSets have ordinals"));
        } else if share.first_ordinal.is_some() && share.replicas.is_none() {
            errors.push(FieldError::required(&path.child("replicas"), "must be set with firstOrdinal"));
        }
        let rolls_out = row.group == "apps" && matches!(row.resource.as_str(), "deployments" | "daemonsets");
        let budgets = [("maxUnavailable", share.max_unavailable), ("maxSurge", share.max_surge)];
        for (field, _) in budgets.iter().filter(|(_, number)| number.is_some() && !rolls_out) {
            let message = "only Deployments and DaemonSets have a budget for each cluster";
            errors.push(FieldError::forbidden(&path.child(*field), message));
        }
        if is_stateful_set && !is_free {
            taken(&path, share, current, shares, errors);
        }
        if !is_job {
            if share.completions.is_some() {
                errors.push(FieldError::forbidden(&path.child("completions"), "only Jobs have it"));
            }
            if share.parallelism.is_some() && !is_cron_job {
                errors.push(FieldError::forbidden(
                    &path.child("parallelism"),
                    "only Jobs and CronJobs have it",
                ));
            }
            continue;
        }
        let completions = path.child("completions");
        // Clusters do not accept another number once the Job exists there.
        if let Some(before) = current.share_of(&share.name, &share.uid)
            && before.completions != share.completions
        {
            errors.push(FieldError::forbidden(
                &completions,
                "may not be changed while the cluster has the Job",
            ));
        }
        let Some(count) = share.completions else { continue };
        if existing["spec"]["completionMode"] == "Indexed" || existing["spec"]["completions"].is_null() {
            let message = "Indexed Jobs and Jobs without completions cannot be divided";
            errors.push(FieldError::forbidden(&completions, message));
        } else if count > rest {
            let message = "the completions of all clusters must not exceed those of the Job";
            errors.push(FieldError::invalid(&completions, count, message));
        }
        rest = rest.saturating_sub(count);
    }
}

//! Kinds whose work is done once, and how they run on several clusters nevertheless.

use super::{Placement, Share, names_of};

/// Kinds whose work is done once: group, resource, kind, and the effect on several clusters. Unless ordinals
/// or completions are divided between clusters, each cluster of a placement does all of it.
///
/// Pods are not listed because they are not placed at all, and PersistentVolumeClaims because a claim runs
/// nothing, and a Deployment on several clusters needs the claims that it mounts on each of them.
const RUN_ONCE: [(&str, &str, &str, &str); 3] = [
    ("apps", "statefulsets", "StatefulSet", "each would run Pods with the same ordinals"),
    ("batch", "cronjobs", "CronJob", "each would start every Job of the schedule"),
    ("batch", "jobs", "Job", "each would run all of its completions"),
];

/// Returns why an object (group, resource, namespace, name) may not be placed on these clusters: its kind
/// runs once, and a cluster is added to another one without `duplicate`, although the work is not divided
/// between them. Removing clusters from a placement is always possible.
pub fn duplicates(
    (group, resource, namespace, name): (&str, &str, &str, &str),
    current: &Placement,
    clusters: &[Share],
    duplicate: bool,
) -> Option<String> {
    let row = RUN_ONCE.iter().find(|row| (row.0, row.1) == (group, resource))?;
    let is_more = clusters.iter().any(|share| current.share(&share.name).is_none());
    let has_numbers = clusters.iter().any(|share| share.first_ordinal.or(share.completions).is_some());
    if clusters.len() < 2 || duplicate || is_divided((group, resource), clusters) || !(is_more || has_numbers)
    {
        return None;
    }
    let (_, _, kind, what) = row;
    let (count, names) = (clusters.len(), names_of(clusters));
    let command = crate::placed_condition::command(kind, namespace, name, &names);
    Some(format!(
        "a {kind} must not be duplicated, and of {count} clusters {what}; name one cluster, or set spec.duplicate to true if \
         that is what you want: {command} --duplicate"
    ))
}

/// Whether each cluster does another part of the work: StatefulSets with ordinals that do not overlap, and
/// Jobs with completions of their own.
pub fn is_divided(resource: (&str, &str), clusters: &[Share]) -> bool {
    match resource {
        ("apps", "statefulsets") => {
            let segments: Option<Vec<(i64, i64)>> = clusters.iter().map(Share::ordinals).collect();
            let Some(mut segments) = segments else { return false };
            // An empty segment overlaps with nothing.
            segments.retain(|(first, end)| first < end);
            segments.sort_unstable();
            segments.windows(2).all(|pair| pair[0].1 <= pair[1].0)
        }
        ("batch", "jobs") => clusters.iter().all(|share| share.completions.is_some()),
        _ => false,
    }
}

/// Whether objects of a resource must not run on two clusters at once, not even while they move.
pub fn runs_once(group: &str, resource: &str) -> bool {
    RUN_ONCE.iter().any(|row| (row.0, row.1) == (group, resource))
}

//! Negotiates one type among the clusters that serve a workspace.

use std::borrow::Cow;
use std::time::Duration;

use atoll_meta::Deadline;
use serde_json::Value;

use crate::compare::compare;
use crate::denominator::{AllUsed, Usage, lowest_common_denominator};
use crate::difference::{Difference, Differences};
use crate::imported::{ImportedDefinition, ImportedVersion};

/// A cluster and its definition of the type, in the order in which the clusters joined.
#[derive(Clone, Copy, Debug)]
pub struct ClusterDefinition<'c> {
    pub cluster: &'c str,
    /// `None` if the cluster does not serve the type.
    pub definition: Option<&'c ImportedDefinition>,
}

/// The result for one cluster.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// The cluster gets objects of the type in one of these versions.
    Compatible { versions: Vec<String>, remarks: Differences },
    /// The cluster gets no objects of the type, because of these fields.
    Incompatible(Differences),
    /// The cluster serves only versions that are not offered.
    OtherVersion { versions: Vec<String> },
    /// The cluster does not count.
    NotServed,
}

/// The result of a negotiation.
#[derive(Clone, Debug, PartialEq)]
pub struct Negotiated {
    /// The definition that the workspace gets; `None` if no cluster serves the type.
    pub offered: Option<ImportedDefinition>,
    /// The results in the order of the clusters.
    pub verdicts: Vec<Verdict>,
}

/// Maximum number of times that incompatible clusters are considered again, because a narrower schema may
/// lack the field that contradicted.
const MOST_PASSES: usize = 8;

/// The time that the comparison with each cluster may take. The caller supplies the clock.
pub struct TimeLimit<'t> {
    /// The time since a fixed point.
    pub now: &'t dyn Fn() -> Duration,
    pub limit: Duration,
}

impl TimeLimit<'static> {
    pub fn none() -> TimeLimit<'static> {
        TimeLimit { now: &|| Duration::ZERO, limit: Duration::MAX }
    }
}

impl TimeLimit<'_> {
    /// Runs work that checks its deadline. Returns `None` if it took too long.
    fn run<T>(&self, work: impl FnOnce(&Deadline<'_>) -> T) -> Option<T> {
        let began = (self.now)();
        let is_over = || (self.now)().saturating_sub(began) > self.limit;
        let deadline = Deadline::new(&is_over);
        let done = work(&deadline);
        (!deadline.has_passed()).then_some(done)
    }
}

/// Judges clusters against a workspace's own definition, which is never changed.
pub fn negotiate_own(own: &ImportedDefinition, clusters: &[ClusterDefinition<'_>]) -> Negotiated {
    let load = |index: usize| clusters.get(index)?.definition.map(Cow::Borrowed);
    let time = TimeLimit::none();
    let mut negotiation = Negotiation::new(clusters.len(), &load, &AllUsed, &time);
    negotiation.fold(Some(own.clone()))
}

/// Negotiates a type that only clusters define. `former` is the definition that was offered so far: as long
/// as it has objects, it is replaced only by one that accepts all of them.
pub fn negotiate(
    former: Option<&ImportedDefinition>,
    clusters: &[ClusterDefinition<'_>],
    usage: &dyn Usage,
    time: &TimeLimit<'_>,
) -> Negotiated {
    let load = |index: usize| clusters.get(index)?.definition.map(Cow::Borrowed);
    negotiate_loaded(former, clusters.len(), &load, usage, time)
}

/// As [`negotiate`], with definitions that are loaded when they are compared: `load` returns that of each of the
/// clusters, or `None` if the cluster does not serve the type. One is loaded at a time.
pub fn negotiate_loaded(
    former: Option<&ImportedDefinition>,
    clusters: usize,
    load: &Load<'_>,
    usage: &dyn Usage,
    time: &TimeLimit<'_>,
) -> Negotiated {
    let mut negotiation = Negotiation::new(clusters, load, usage, time);
    let negotiated = negotiation.fold(None);
    match (former, &negotiated.offered) {
        (Some(former), Some(offered)) if !negotiation.accepts_objects_of(offered, former) => {
            negotiation.fold(Some(former.clone()))
        }
        _ => negotiated,
    }
}

/// Returns the definition of the cluster with an index.
pub type Load<'d> = dyn Fn(usize) -> Option<Cow<'d, ImportedDefinition>> + 'd;

struct Negotiation<'n, 'd> {
    load: &'n Load<'d>,
    usage: &'n dyn Usage,
    time: &'n TimeLimit<'n>,
    /// Whether the comparison with each cluster took too long. It is not repeated.
    too_slow: Vec<bool>,
}

impl<'n, 'd> Negotiation<'n, 'd> {
    fn new(clusters: usize, load: &'n Load<'d>, usage: &'n dyn Usage, time: &'n TimeLimit<'n>) -> Self {
        Negotiation { load, usage, time, too_slow: vec![false; clusters] }
    }

    /// Whether a definition accepts all objects of the former one. If it takes too long to know, it does not.
    fn accepts_objects_of(&self, offered: &ImportedDefinition, former: &ImportedDefinition) -> bool {
        let usage = self.usage;
        let mut used = former.versions.iter().filter(|version| usage.has_objects(&version.name)).peekable();
        if used.peek().is_none() {
            return true;
        }
        let accepts = |deadline: &Deadline<'_>| {
            used.all(|version| {
                let Some(other) = offered.version(&version.name) else { return false };
                if version.schema == other.schema {
                    return true;
                }
                let comparison = compare(&version.schema, &other.schema, deadline);
                let losses = &comparison.losses;
                comparison.contradictions.is_empty()
                    && (losses.is_empty()
                        || usage.used(&version.name, &comparison.merged, losses, deadline).is_empty())
            })
        };
        differences_of_names(former, offered).is_empty() && self.time.run(accepts).unwrap_or_default()
    }

    /// Considers the clusters in their order. The first one defines the type, unless there is a definition.
    fn fold(&mut self, mut offered: Option<ImportedDefinition>) -> Negotiated {
        let mut verdicts = vec![Verdict::NotServed; self.too_slow.len()];
        for pass in 0..MOST_PASSES {
            let mut is_changed = false;
            for (index, verdict) in verdicts.iter_mut().enumerate() {
                if pass > 0 && (self.too_slow[index] || !matches!(verdict, Verdict::Incompatible(_))) {
                    continue;
                }
                let definition = (self.load)(index).filter(|definition| !definition.versions.is_empty());
                let Some(definition) = definition else { continue };
                let before = std::mem::discriminant(verdict);
                let offered = offered.get_or_insert_with(|| definition.clone().into_owned());
                let considered = match self.too_slow[index] {
                    true => None,
                    false => self.time.run(|deadline| consider(offered, &definition, self.usage, deadline)),
                };
                self.too_slow[index] = considered.is_none();
                *verdict = match considered {
                    Some((verdict, schemas)) => {
                        narrow(offered, schemas);
                        verdict
                    }
                    None => Verdict::Incompatible(Difference::too_slow().into()),
                };
                is_changed |= std::mem::discriminant(verdict) != before;
            }
            if !is_changed {
                break;
            }
        }
        Negotiated { offered, verdicts }
    }
}

/// Replaces the schemas of the versions that are narrowed.
fn narrow(offered: &mut ImportedDefinition, schemas: Vec<Option<Value>>) {
    for (version, schema) in offered.versions.iter_mut().zip(schemas) {
        if let Some(schema) = schema {
            version.schema = schema;
        }
    }
}

/// Considers one cluster. Returns the narrower schemas of the offered versions, if it is compatible.
fn consider(
    offered: &ImportedDefinition,
    definition: &ImportedDefinition,
    usage: &dyn Usage,
    deadline: &Deadline<'_>,
) -> (Verdict, Vec<Option<Value>>) {
    let mut refused = differences_of_names(offered, definition);
    if !refused.is_empty() {
        return (Verdict::Incompatible(refused), Vec::new());
    }
    let mut remarks = Differences::default();
    let (mut versions, mut schemas) = (Vec::new(), Vec::new());
    for version in &offered.versions {
        let Some(other) = definition.version(&version.name) else {
            remarks.push(Difference::new(format!("version {}", version.name), "served", "not served"));
            schemas.push(None);
            continue;
        };
        compare_subresources(version, other, &mut refused, &mut remarks);
        versions.push(version.name.clone());
        match lowest_common_denominator(&version.name, &version.schema, &other.schema, usage, deadline) {
            Ok(common) => {
                remarks.extend(common.remarks);
                schemas.push((!common.lost.is_empty()).then_some(common.schema));
            }
            Err(fields) => {
                refused.extend(fields);
                schemas.push(None);
            }
        }
    }
    if versions.is_empty() {
        return (Verdict::OtherVersion { versions: definition.version_names() }, Vec::new());
    }
    if !refused.is_empty() {
        return (Verdict::Incompatible(refused), Vec::new());
    }
    (Verdict::Compatible { versions, remarks }, schemas)
}

/// The differences that concern the type as a whole.
fn differences_of_names(offered: &ImportedDefinition, definition: &ImportedDefinition) -> Differences {
    let scope = |definition: &ImportedDefinition| match definition.is_namespaced {
        true => "namespaced",
        false => "cluster-scoped",
    };
    let pairs = [
        ("kind", offered.names.kind.to_string(), definition.names.kind.to_string()),
        ("scope", scope(offered).to_owned(), scope(definition).to_owned()),
    ];
    let differing = pairs.into_iter().filter(|(_, one, other)| one != other);
    differing
        .map(|(field, one, other)| Difference::new(field, one, crate::difference::shortened(&other)))
        .collect()
}

fn compare_subresources(
    offered: &ImportedVersion,
    other: &ImportedVersion,
    refused: &mut Differences,
    remarks: &mut Differences,
) {
    const SUBRESOURCE: &str = "a subresource";
    let has_field = offered.schema.pointer("/properties/status").is_some();
    match (offered.has_status, other.has_status) {
        // Objects are sent without status, and it is read wherever it is.
        (true, false) => remarks.push(Difference::new(".status", SUBRESOURCE, "an ordinary field")),
        // The cluster would ignore the status that users write.
        (false, true) if has_field => {
            refused.push(Difference::new(".status", "an ordinary field", SUBRESOURCE));
        }
        _ => {}
    }
    match (&offered.scale, &other.scale) {
        (Some(one), Some(other)) => {
            for name in ["specReplicasPath", "statusReplicasPath", "labelSelectorPath"] {
                let path = |scale: &Value| match scale.get(name).and_then(Value::as_str) {
                    Some(path) => crate::difference::shortened(path),
                    None => "no path".to_owned(),
                };
                let difference = Difference::new(format!("scale {name}"), path(one), path(other));
                if difference.offered == difference.cluster {
                    continue;
                }
                // Replicas would be changed in one field and counted in another.
                match name {
                    "specReplicasPath" => refused.push(difference),
                    _ => remarks.push(difference),
                }
            }
        }
        (Some(_), None) => remarks.push(Difference::new("scale", SUBRESOURCE, "no subresource")),
        (None, _) => {}
    }
}

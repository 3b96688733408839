//! The lowest common denominator of two structural schemas.
//!
//! ```text
//! offered ─┐                 ┌ types      type, format, nullable, enum, embedded resources
//!          ├─ SchemaWalk ────┼ limits     bounds of numbers, lengths, patterns
//! cluster ─┘  in lockstep    ├ objects    properties, required fields, maps, unknown fields
//!                            ├ conditions allOf, anyOf, oneOf, not
//!                            └ rules      expressions; defaults are checked at the end
//! ```
//!
//! Each keyword of the offered schema stays, becomes stricter, or contradicts the cluster. A stricter keyword
//! is a loss: values that were valid are so no longer. Where two keywords cannot be compared, such as two
//! patterns, they contradict. Everything that is valid in the merged schema is therefore valid in both,
//! except for rules that only the cluster has and that do not compile without its other fields: these are
//! remarked, and found when an object is checked against the schema of the cluster.

mod conditions;
mod defaults;
mod limits;
mod objects;
mod rules;
mod types;

use atoll_meta::Deadline;
use serde_json::Value;

use crate::bounds::{self, MOST_STEPS};
use crate::difference::{Difference, Differences};
use crate::schema_path::{self, SchemaPathStep};
use crate::schema_view::{Fields, SchemaType, SchemaView};

/// The result of a comparison.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    /// The offered schema, as strict as the cluster's. Only meaningful without contradictions.
    pub merged: Value,
    /// Values that are valid in the offered schema, but not in the cluster.
    pub losses: Differences,
    /// Differences that no schema can bridge.
    pub contradictions: Differences,
    /// Differences that make no value invalid, such as another default.
    pub remarks: Differences,
}

/// Compares the schemas of complete objects, in the form of `openAPIV3Schema`. The result is invalid once the deadline
/// has passed.
pub fn compare(offered: &Value, cluster: &Value, deadline: &Deadline<'_>) -> Comparison {
    let mut walk = SchemaWalk {
        deadline,
        path: Vec::new(),
        steps: 0,
        losses: Differences::default(),
        contradictions: Differences::default(),
        remarks: Differences::default(),
    };
    if offered == cluster {
        return walk.finish(offered.clone());
    }
    let excess = |schema: &Value| bounds::check(schema).err().map(bounds::Excess::words);
    let (offered_excess, cluster_excess) = (excess(offered), excess(cluster));
    if offered_excess.is_some() || cluster_excess.is_some() {
        const FITS: &str = "a schema within the limits";
        walk.contradict(offered_excess.unwrap_or(FITS), cluster_excess.unwrap_or(FITS));
        return walk.finish(offered.clone());
    }
    let merged = walk.node(SchemaView::root(offered), SchemaView::root(cluster));
    if !walk.losses.is_empty() && walk.contradictions.is_empty() {
        walk.check_defaults(offered, &merged);
    }
    walk.finish(merged)
}

/// The state of a comparison.
struct SchemaWalk<'s> {
    deadline: &'s Deadline<'s>,
    path: Vec<SchemaPathStep<'s>>,
    steps: usize,
    losses: Differences,
    contradictions: Differences,
    remarks: Differences,
}

impl<'s> SchemaWalk<'s> {
    fn finish(self, merged: Value) -> Comparison {
        let SchemaWalk { losses, contradictions, remarks, .. } = self;
        Comparison { merged, losses, contradictions, remarks }
    }

    fn difference(&self, offered: impl Into<String>, cluster: impl Into<String>) -> Difference {
        Difference::new(schema_path::text(&self.path), offered, cluster)
    }

    /// Notes that values are lost.
    fn lose(&mut self, offered: impl Into<String>, cluster: impl Into<String>) {
        let difference = self.difference(offered, cluster);
        self.losses.push(difference);
    }

    fn contradict(&mut self, offered: impl Into<String>, cluster: impl Into<String>) {
        let difference = self.difference(offered, cluster);
        self.contradictions.push(difference);
    }

    fn remark(&mut self, offered: impl Into<String>, cluster: impl Into<String>) {
        let difference = self.difference(offered, cluster);
        self.remarks.push(difference);
    }

    /// Runs `work` one step below.
    fn below<T>(&mut self, step: SchemaPathStep<'s>, work: impl FnOnce(&mut Self) -> T) -> T {
        self.path.push(step);
        let result = work(self);
        self.path.pop();
        result
    }

    /// Counts steps. Returns whether there are too many.
    fn is_exhausted(&mut self, steps: usize) -> bool {
        let before = self.steps;
        self.steps = before.saturating_add(steps);
        if before <= MOST_STEPS && self.steps > MOST_STEPS {
            let Difference { offered, cluster, .. } = Difference::too_slow();
            self.contradict(offered, cluster);
        }
        self.steps > MOST_STEPS || self.deadline.steps(steps)
    }

    /// Compares one value. Returns the merged schema; after a contradiction that is the offered one.
    fn node(&mut self, offered: SchemaView<'s>, cluster: SchemaView<'s>) -> Value {
        let unchanged = || Value::Object(offered.fields().clone());
        if self.is_exhausted(1 + cost(offered) + cost(cluster)) || cluster.is_anything() {
            return unchanged();
        }
        if offered.is_anything() {
            self.lose(SchemaType::Any.words(), cluster.words());
            return preserved(offered, cluster);
        }
        let (losses, contradictions) = (self.losses.len(), self.contradictions.len());
        let Some(kind) = self.common_type(offered, cluster) else {
            return unchanged();
        };
        let mut merged = shell(offered);
        self.merge_type(offered, cluster, kind, &mut merged);
        self.merge_enum(offered, cluster, &mut merged);
        self.merge_limits(offered, cluster, kind, &mut merged);
        self.merge_list_types(offered, cluster, &mut merged);
        if matches!(kind, SchemaType::Array | SchemaType::Any) {
            self.merge_items(offered, cluster, &mut merged);
        } else {
            copy_parts(offered, &["items"], &mut merged);
        }
        if matches!(kind, SchemaType::Object | SchemaType::Any) {
            self.merge_object(offered, cluster, &mut merged);
        } else {
            copy_parts(offered, &["properties", "additionalProperties"], &mut merged);
        }
        self.merge_conditions(offered, cluster, losses, &mut merged);
        self.compare_defaults(offered, cluster);
        if self.contradictions.len() == contradictions {
            self.merge_rules(offered, cluster, losses, &mut merged);
        }
        Value::Object(merged)
    }

    /// Compares the items of a list, if either schema says something about them.
    fn merge_items(&mut self, offered: SchemaView<'s>, cluster: SchemaView<'s>, merged: &mut Fields) {
        let has_items = |view: SchemaView<'_>| view.fields().get("items").is_some_and(Value::is_object);
        if has_items(offered) || has_items(cluster) {
            let items = self.below(SchemaPathStep::Items, |walk| walk.node(offered.items(), cluster.items()));
            if has_items(offered) || items.as_object().is_some_and(|items| !items.is_empty()) {
                merged.insert("items".to_owned(), items);
            }
        }
    }

    /// Defaults of the offered schema apply before an object goes to a cluster; those of the cluster only to
    /// fields that are still missing.
    fn compare_defaults(&mut self, offered: SchemaView<'s>, cluster: SchemaView<'s>) {
        let words = |default: Option<&Value>| match default {
            Some(default) => format!("default {}", crate::schema_view::shown(default)),
            None => "no default".to_owned(),
        };
        if cluster.default().is_some() && offered.default() != cluster.default() {
            self.remark(words(offered.default()), words(cluster.default()));
        }
    }
}

/// The steps that the lists of a schema cost, and its keywords.
fn cost(view: SchemaView<'_>) -> usize {
    let lists = ["enum", "required", "x-kubernetes-validations", "x-kubernetes-list-map-keys"];
    let lists: usize = lists.iter().map(|name| view.list(name).len()).sum();
    view.fields().len() + view.properties().len() + lists
}

/// The offered schema without the parts that are compared on their own.
fn shell(offered: SchemaView<'_>) -> Fields {
    const PARTS: [&str; 3] = ["properties", "items", "additionalProperties"];
    let fields = offered.fields().iter();
    let others = fields.filter(|(name, value)| !PARTS.contains(&name.as_str()) || !value.is_object());
    others.map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// Copies parts that have no meaning for the type.
fn copy_parts(offered: SchemaView<'_>, names: &[&str], merged: &mut Fields) {
    for name in names {
        merged.extend(offered.fields().get(*name).map(|part| ((*name).to_owned(), part.clone())));
    }
}

/// The schema of the cluster for a value that can be anything in the offered schema. The default stays, as
/// does the documentation.
fn preserved(offered: SchemaView<'_>, cluster: SchemaView<'_>) -> Value {
    let mut merged = cluster.fields().clone();
    merged.remove("default");
    for (name, value) in offered.fields() {
        if name == "default" || crate::schema_view::is_documentation(name) {
            merged.insert(name.clone(), value.clone());
        }
    }
    Value::Object(merged)
}

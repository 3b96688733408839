//! The annotation `atoll.dev/clusters`: the clusters that a user asks for.
//!
//! | text | meaning |
//! |---|---|
//! | `none` | the object stays in the control plane |
//! | `east,west` | these clusters; the policy says how replicas are shared, without one each runs all |
//! | `east=2,west=1` | replicas are divided two to one |
//! | `east==2,west==1` | exactly these numbers of replicas, whatever `spec.replicas` says |
//! | `east==2,west` | exactly two in east, the rest in west |
//! | `east=all,west=all` | each cluster runs all replicas, even of a workload that otherwise runs once |

mod shares;

use std::fmt;

use atoll_meta::{FieldError, FieldPath, names, object};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The annotation, on an object or on its Namespace.
pub const ANNOTATION: &str = atoll_fleet::scheduled::CLUSTERS;
/// The annotation that records an override of a policy; only the server writes it.
pub const OVERRIDE: &str = "atoll.dev/override";
/// The text of an intent for no cluster.
pub const NONE: &str = "none";
/// The text of a part that is the whole.
const ALL: &str = "all";
/// Maximum number of clusters.
const MAX_CLUSTERS: usize = 1000;
/// Maximum weight, and maximum number of replicas of a pin.
const MAX_NUMBER: i64 = 1_000_000;

/// The clusters that a user asks for. None of them: the object stays in the control plane.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Intent {
    pub parts: Vec<Part>,
}

/// One cluster of an intent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    pub cluster: String,
    pub amount: Amount,
}

/// The amount of an object that a cluster is asked to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Amount {
    /// No amount: the policy decides. Beside pins, an equal part of the rest.
    Unset,
    /// This part of the replicas.
    Weight(i64),
    /// Exactly this many replicas.
    Pin(i64),
    /// All of it, on every cluster.
    All,
}

/// The source of the names of the clusters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IntentSource {
    /// The annotation of the object.
    Object,
    /// The annotation of its Namespace.
    Namespace,
    /// A label of the object, in the words of a dialect.
    Label,
}

/// The record of an intent that goes beyond a policy, with the right to do so.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Override {
    /// Uid of the policy: a later one may have its name.
    pub uid: String,
    /// The policy, see `Policy::reference`.
    pub policy: String,
    /// Name of the user.
    pub user: String,
    /// The intent.
    pub clusters: String,
    pub time: String,
}

impl Intent {
    /// The intent for these clusters, without saying how much each runs.
    pub fn naming<'a>(clusters: impl IntoIterator<Item = &'a str>) -> Intent {
        let part = |cluster: &str| Part { cluster: cluster.to_string(), amount: Amount::Unset };
        Intent { parts: clusters.into_iter().map(part).collect() }
    }
}

impl Override {
    /// Reads the record of an object.
    pub fn of(object: &Value) -> Option<Override> {
        serde_json::from_str(object::annotation(object, OVERRIDE)?).ok()
    }

    /// Returns the value of the annotation.
    pub fn text(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}

/// Why a text is not an intent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IntentError {
    Empty,
    EmptyPart,
    NoneWithOthers,
    ClusterName { name: String, why: String },
    Number { cluster: String, text: String },
    Duplicate { cluster: String },
    Mixed,
    NoWeight,
    TooMany { count: usize },
}

impl fmt::Display for IntentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            IntentError::Empty => {
                f.write_str("must name clusters, such as east,west or east=2,west=1, or be none")
            }
            IntentError::EmptyPart => f.write_str("has a comma without a cluster; write east,west"),
            IntentError::NoneWithOthers => f.write_str("none means no cluster and must stand alone"),
            IntentError::ClusterName { name, why } => write!(f, "{name:?} is not the name of a cluster: {why}"),
            IntentError::Number { cluster, text } => write!(
                f,
                "{text:?} is not a number of replicas for {cluster}: write {cluster}=2 for a weight or {cluster}==2 for exactly two \
                 replicas, up to {MAX_NUMBER}"
            ),
            IntentError::Duplicate { cluster } => write!(f, "names the cluster {cluster} twice"),
            IntentError::Mixed => f.write_str(
                "mixes forms: give all clusters a weight (east=2,west=1), or none of them (east,west), or all of them all \
                 (east=all,west=all); only exact numbers (east==2) may be combined with weights or with names",
            ),
            IntentError::NoWeight => f.write_str("must give at least one cluster a weight above 0; to place it nowhere, write none"),
            IntentError::TooMany { count } => write!(f, "names {count} clusters, but at most {MAX_CLUSTERS} are allowed"),
        }
    }
}

impl std::error::Error for IntentError {}

impl Intent {
    /// Parses the text of the annotation.
    ///
    /// # Errors
    ///
    /// Returns the first mistake.
    pub fn parse(text: &str) -> Result<Intent, IntentError> {
        let text = text.trim();
        if text.is_empty() {
            return Err(IntentError::Empty);
        }
        if text == NONE {
            return Ok(Intent::default());
        }
        let count = text.split(',').count();
        if count > MAX_CLUSTERS {
            return Err(IntentError::TooMany { count });
        }
        let mut parts: Vec<Part> = Vec::with_capacity(count);
        for part in text.split(',') {
            let part = Part::parse(part.trim())?;
            if parts.iter().any(|other| other.cluster == part.cluster) {
                return Err(IntentError::Duplicate { cluster: part.cluster });
            }
            parts.push(part);
        }
        let intent = Intent { parts };
        intent.check_forms()?;
        Ok(intent)
    }

    fn check_forms(&self) -> Result<(), IntentError> {
        let has = |is: fn(Amount) -> bool| self.parts.iter().any(|part| is(part.amount));
        let (names, weights) = (has(|one| one == Amount::Unset), has(|one| matches!(one, Amount::Weight(_))));
        let (pins, whole) = (has(|one| matches!(one, Amount::Pin(_))), has(|one| one == Amount::All));
        if (names && weights) || (whole && (names || weights || pins)) {
            return Err(IntentError::Mixed);
        }
        let is_positive = self.parts.iter().any(|part| !matches!(part.amount, Amount::Weight(0)));
        if is_positive { Ok(()) } else { Err(IntentError::NoWeight) }
    }

    /// Reads the annotation of an object; `None` without one.
    pub fn on(object: &Value) -> Option<Result<Intent, IntentError>> {
        object::annotation(object, ANNOTATION).map(Intent::parse)
    }

    /// Reads the annotation of an object or else of its Namespace. An annotation that cannot be read counts as
    /// absent: the server accepts none, so it was written before there were intents.
    pub fn of(object: &Value, namespace: Option<&Value>) -> Option<(Intent, IntentSource)> {
        let read = |object: &Value| Intent::on(object).and_then(Result::ok);
        let own = read(object).map(|intent| (intent, IntentSource::Object));
        own.or_else(|| Some((read(namespace?)?, IntentSource::Namespace)))
    }

    /// Whether the object stays in the control plane.
    pub fn is_none(&self) -> bool {
        self.parts.is_empty()
    }

    pub fn clusters(&self) -> impl Iterator<Item = &str> {
        self.parts.iter().map(|part| part.cluster.as_str())
    }

    pub fn part(&self, cluster: &str) -> Option<&Part> {
        self.parts.iter().find(|part| part.cluster == cluster)
    }

    /// Returns the clusters with an exact number of replicas.
    pub fn pins(&self) -> impl Iterator<Item = (&str, i64)> {
        self.parts.iter().filter_map(|part| match part.amount {
            Amount::Pin(replicas) => Some((part.cluster.as_str(), replicas)),
            _ => None,
        })
    }

    /// Whether every cluster has an exact number of replicas, so that `spec.replicas` has no effect.
    pub fn is_pinned(&self) -> bool {
        !self.is_none() && self.pins().count() == self.parts.len()
    }

    /// Returns the intent with pins as weights, for advice.
    #[must_use]
    pub fn as_weights(&self) -> Intent {
        let unpin = |amount| match amount {
            Amount::Pin(replicas) => Amount::Weight(replicas),
            other => other,
        };
        let parts = self.parts.iter();
        Intent { parts: parts.map(|part| Part { amount: unpin(part.amount), ..part.clone() }).collect() }
    }

    /// Whether each cluster runs all of the object.
    pub fn is_duplicate(&self) -> bool {
        self.parts.iter().any(|part| part.amount == Amount::All)
    }

    /// Returns the path of the annotation.
    pub fn path() -> FieldPath {
        FieldPath::new("metadata").child("annotations").key(ANNOTATION)
    }

    /// Returns the error about the annotation of an object, if it cannot be read.
    pub fn validate(object: &Value) -> Option<FieldError> {
        let text = object::annotation(object, ANNOTATION)?;
        let error = Intent::parse(text).err()?;
        Some(FieldError::invalid(&Intent::path(), text, error.to_string()))
    }
}

impl Part {
    fn parse(text: &str) -> Result<Part, IntentError> {
        if text.is_empty() {
            return Err(IntentError::EmptyPart);
        }
        let (name, amount) = match text.split_once('=') {
            None => (text, None),
            Some((name, amount)) => (name.trim(), Some(amount)),
        };
        if name == NONE {
            return Err(IntentError::NoneWithOthers);
        }
        if let Some(why) = names::dns1123_label(name).into_iter().next() {
            return Err(IntentError::ClusterName { name: name.to_string(), why });
        }
        let cluster = name.to_string();
        let Some(amount) = amount else { return Ok(Part { cluster, amount: Amount::Unset }) };
        let (digits, is_pin) = match amount.strip_prefix('=') {
            Some(digits) => (digits.trim(), true),
            None => (amount.trim(), false),
        };
        if digits == ALL && !is_pin {
            return Ok(Part { cluster, amount: Amount::All });
        }
        // `parse` accepts a plus sign, which no number of replicas has.
        let number = digits.parse().ok().filter(|number| (0..=MAX_NUMBER).contains(number));
        match number.filter(|_| digits.bytes().all(|byte| byte.is_ascii_digit())) {
            Some(number) if is_pin => Ok(Part { cluster, amount: Amount::Pin(number) }),
            Some(number) => Ok(Part { cluster, amount: Amount::Weight(number) }),
            None => Err(IntentError::Number { cluster, text: digits.to_string() }),
        }
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cluster = &self.cluster;
        match self.amount {
            Amount::Unset => f.write_str(cluster),
            Amount::Weight(weight) => write!(f, "{cluster}={weight}"),
            Amount::Pin(replicas) => write!(f, "{cluster}=={replicas}"),
            Amount::All => write!(f, "{cluster}={ALL}"),
        }
    }
}

impl fmt::Display for Intent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_none() {
            return f.write_str(NONE);
        }
        for (index, part) in self.parts.iter().enumerate() {
            if index > 0 {
                f.write_str(",")?;
            }
            write!(f, "{part}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;

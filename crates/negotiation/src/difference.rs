//! Differences between the offered schema and that of a cluster, in words.

use atoll_meta::text::escaped;

/// Maximum number of differences that are listed.
pub const MOST_LISTED: usize = 100;
/// Maximum length of a text that a cluster supplies, such as the name of a field.
const LONGEST_TEXT: usize = 120;

/// A difference in one field.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Difference {
    /// The path of the field: `.spec.ports[].name`. Values of a map are `[*]`, the object itself is `.`.
    pub field: String,
    /// The field in the offered schema: `integer`.
    pub offered: String,
    /// The field in the cluster.
    pub cluster: String,
}

impl Difference {
    pub(crate) fn new(
        field: impl Into<String>,
        offered: impl Into<String>,
        cluster: impl Into<String>,
    ) -> Difference {
        Difference { field: field.into(), offered: offered.into(), cluster: cluster.into() }
    }

    /// The comparison with the cluster takes too long.
    pub(crate) fn too_slow() -> Difference {
        Difference::new(".", "a schema that can be compared", "a schema that takes too long to compare")
    }

    /// The difference as a sentence: `.spec.replicas: integer in the offered schema, string in cluster east`.
    pub fn describe(&self, cluster: &str) -> String {
        format!(
            "{}: {} in the offered schema, {} in cluster {cluster}",
            self.field, self.offered, self.cluster
        )
    }
}

/// A bounded list of differences.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Differences {
    listed: Vec<Difference>,
    /// Number of differences that are not listed.
    pub omitted: usize,
}

impl Differences {
    pub(crate) fn push(&mut self, difference: Difference) {
        if self.listed.len() < MOST_LISTED {
            self.listed.push(difference);
        } else {
            self.omitted += 1;
        }
    }

    pub(crate) fn extend(&mut self, others: Differences) {
        self.omitted += others.omitted;
        others.listed.into_iter().for_each(|difference| self.push(difference));
    }

    /// The first differences.
    pub fn listed(&self) -> &[Difference] {
        &self.listed
    }

    pub fn is_empty(&self) -> bool {
        self.listed.is_empty()
    }

    /// Total number.
    pub fn len(&self) -> usize {
        self.listed.len() + self.omitted
    }

    /// The differences as sentences, with the number of those that are not listed.
    pub fn describe(&self, cluster: &str) -> Vec<String> {
        let mut sentences: Vec<String> =
            self.listed.iter().map(|difference| difference.describe(cluster)).collect();
        if self.omitted > 0 {
            sentences.push(format!("and {} more", self.omitted));
        }
        sentences
    }
}

impl From<Difference> for Differences {
    fn from(one: Difference) -> Differences {
        Differences { listed: vec![one], omitted: 0 }
    }
}

impl FromIterator<Difference> for Differences {
    fn from_iter<I: IntoIterator<Item = Difference>>(all: I) -> Differences {
        let mut differences = Differences::default();
        all.into_iter().for_each(|difference| differences.push(difference));
        differences
    }
}

/// The beginning of a text that a cluster supplies, in one line.
pub(crate) fn shortened(text: &str) -> String {
    match text.char_indices().nth(LONGEST_TEXT) {
        Some((end, _)) => format!("{}…", escaped(&text[..end])),
        None => escaped(text).into_owned(),
    }
}

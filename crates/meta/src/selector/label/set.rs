//! The labels of an object, as selectors see them.

use serde_json::{Map, Value};

/// The labels of an object. Each key occurs once.
pub trait LabelSet {
    /// Returns the value of a label.
    fn label(&self, key: &str) -> Option<&str>;

    /// Returns the number of labels.
    fn count(&self) -> usize;

    /// Returns the labels with their values, in any order.
    fn pairs(&self) -> impl Iterator<Item = (&str, &str)>;
}

/// The labels of an object in JSON, if it has any.
impl LabelSet for Option<&Map<String, Value>> {
    fn label(&self, key: &str) -> Option<&str> {
        self.as_ref()?.get(key)?.as_str()
    }

    fn count(&self) -> usize {
        self.map_or(0, Map::len)
    }

    fn pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        self.iter()
            .flat_map(|labels| labels.iter())
            .filter_map(|(key, value)| Some((key.as_str(), value.as_str()?)))
    }
}

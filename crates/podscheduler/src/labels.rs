//! Labels in a compact, sorted form.

use std::sync::Arc;

use atoll_meta::{LabelSelector, LabelSet, object};
use serde_json::Value;

/// The labels of one object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Labels(Box<[(Arc<str>, Arc<str>)]>);

impl Labels {
    /// Reads the labels of an object.
    pub fn of(object: &Value) -> Self {
        object::labels(object).map(|(key, value)| (key.into(), value.into())).collect()
    }

    pub fn get(&self, key: &str) -> Option<&Arc<str>> {
        let index = self.0.binary_search_by(|(own, _)| (**own).cmp(key)).ok()?;
        Some(&self.0[index].1)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn selected_by(&self, selector: &LabelSelector) -> bool {
        selector.matches_labels(self)
    }
}

impl LabelSet for Labels {
    fn label(&self, key: &str) -> Option<&str> {
        self.get(key).map(|value| &**value)
    }

    fn count(&self) -> usize {
        self.0.len()
    }

    fn pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(key, value)| (&**key, &**value))
    }
}

impl FromIterator<(Arc<str>, Arc<str>)> for Labels {
    fn from_iter<I: IntoIterator<Item = (Arc<str>, Arc<str>)>>(pairs: I) -> Self {
        let mut pairs: Vec<_> = pairs.into_iter().collect();
        pairs.sort();
        Labels(pairs.into())
    }
}

//! What types and fields are for: the text that `kubectl explain` shows.

use std::borrow::Cow;
use std::collections::HashMap;
use std::io::Read;

use flate2::read::DeflateDecoder;

/// Made by `build.rs`, which says what is in it.
const DATA: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptions"));
const RECORD: char = '\u{1e}';
const PART: char = '\u{1f}';

/// Its `apiVersion` and `kind` are described as those of all kinds.
const ANY_KIND: &str = "io.k8s.api.core.v1.Namespace";

/// What `k8s-openapi` has in a form of its own, as (definition, property, description).
const OTHERS: [(&str, &str, &str); 1] = [(
    "io.k8s.apimachinery.pkg.apis.meta.v1.WatchEvent",
    "object",
    "The object after its change, or before its deletion; a Status if something went wrong.",
)];

/// Descriptions by definition and, within one, by property; the definition's own has the empty name.
pub struct Descriptions {
    by_definition: HashMap<String, HashMap<String, String>>,
}

impl Descriptions {
    /// Unpacks everything: a few milliseconds and megabytes, for as long as documents are being written.
    pub fn load() -> Self {
        let mut text = String::new();
        // Data that does not read is as good as none: descriptions are for people.
        let _ = DeflateDecoder::new(DATA).read_to_string(&mut text);
        let mut by_definition: HashMap<String, HashMap<String, String>> = HashMap::with_capacity(800);
        for record in text.split_terminator(RECORD) {
            let mut parts = record.split(PART);
            let (Some(definition), Some(property), Some(description)) =
                (parts.next(), parts.next(), parts.next())
            else {
                continue;
            };
            if let Some(properties) = by_definition.get_mut(definition) {
                properties.insert(property.to_owned(), description.to_owned());
            } else {
                let first = HashMap::from([(property.to_owned(), description.to_owned())]);
                by_definition.insert(definition.to_owned(), first);
            }
        }
        Descriptions { by_definition }
    }

    pub fn of_type(&self, definition: &str) -> Option<Cow<'_, str>> {
        self.of_property(definition, "")
    }

    pub fn of_property(&self, definition: &str, property: &str) -> Option<Cow<'_, str>> {
        let known = self.known(definition, property).map(Cow::Borrowed);
        known.or_else(|| self.of_list(definition.strip_suffix("List")?, property)).or_else(|| {
            let found = OTHERS.iter().find(|(owner, name, _)| (*owner, *name) == (definition, property));
            found.map(|(_, _, description)| Cow::Borrowed(*description))
        })
    }

    fn known(&self, definition: &str, property: &str) -> Option<&str> {
        self.by_definition.get(definition)?.get(property).map(String::as_str)
    }

    /// Lists are all alike.
    fn of_list(&self, element: &str, property: &str) -> Option<Cow<'_, str>> {
        match property {
            "" => {
                let kind = element.rsplit('.').next().unwrap_or(element);
                Some(Cow::Owned(format!("{kind}List is a list of {kind} objects.")))
            }
            "apiVersion" | "kind" => self.known(ANY_KIND, property).map(Cow::Borrowed),
            "metadata" => Some(Cow::Borrowed("About the list as a whole.")),
            "items" => Some(Cow::Borrowed("The objects of the list.")),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_and_fields_are_described() {
        let descriptions = Descriptions::load();
        for (definition, property, word) in [
            ("io.k8s.api.core.v1.Container", "", "container"),
            ("io.k8s.api.core.v1.Container", "image", "image"),
            ("io.k8s.api.core.v1.PodSpec", "affinity", "scheduling"),
            ("io.k8s.apimachinery.pkg.apis.meta.v1.Time", "", "time"),
        ] {
            let found = descriptions.of_property(definition, property).unwrap_or_default();
            assert!(found.contains(word), "{definition} {property}: {found:?}");
        }
        assert!(descriptions.by_definition.len() > 500, "{}", descriptions.by_definition.len());
    }
}

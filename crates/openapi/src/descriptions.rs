//! Descriptions of types and fields, which `kubectl explain` shows.

use std::borrow::Cow;
use std::io::Read;
use std::ops::Range;

use flate2::read::DeflateDecoder;

/// Output of `build.rs`.
const DATA: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptions"));
const RECORD: char = '\u{1e}';
const PART: char = '\u{1f}';

/// A kind whose `apiVersion` and `kind` have the descriptions that all kinds share.
const ANY_KIND: &str = "io.k8s.api.core.v1.Namespace";

/// Descriptions that `k8s-openapi` does not have in this form, as (definition, property, description).
const EXTRA: [(&str, &str, &str); 2] = [
    (
        "io.k8s.apimachinery.pkg.apis.meta.v1.Duration",
        "",
        "A length of time, written as numbers with units: 1m30s, 250ms.",
    ),
    (
        "io.k8s.apimachinery.pkg.apis.meta.v1.WatchEvent",
        "object",
        "The object after its change, or before its deletion; a Status if something went wrong.",
    ),
];

/// Descriptions by definition and property; that of the definition itself has an empty property.
pub struct Descriptions {
    text: String,
    /// Positions of the parts of each record in the text, sorted by definition and property.
    records: Vec<[Range<u32>; 3]>,
}

impl Descriptions {
    /// Decompresses all descriptions: a few milliseconds and megabytes, while documents are being written.
    pub fn load() -> Self {
        let mut text = String::new();
        // Malformed data counts as absent, because descriptions are informational.
        let _ = DeflateDecoder::new(DATA).read_to_string(&mut text);
        let mut records = Vec::with_capacity(4000);
        let mut start = 0;
        for record in text.split_terminator(RECORD) {
            let mut ends = record.match_indices(PART).map(|(at, _)| start + at as u32);
            if let (Some(first), Some(second)) = (ends.next(), ends.next()) {
                // Both separators are one byte long.
                records.push([start..first, first + 1..second, second + 1..start + record.len() as u32]);
            }
            start += record.len() as u32 + 1;
        }
        let mut descriptions = Descriptions { text, records: Vec::new() };
        records.sort_unstable_by(|one, other| descriptions.name(one).cmp(&descriptions.name(other)));
        descriptions.records = records;
        descriptions
    }

    fn part(&self, part: &Range<u32>) -> &str {
        &self.text[part.start as usize..part.end as usize]
    }

    fn name(&self, [definition, property, _]: &[Range<u32>; 3]) -> (&str, &str) {
        (self.part(definition), self.part(property))
    }

    pub fn of_type(&self, definition: &str) -> Option<Cow<'_, str>> {
        self.of_property(definition, "")
    }

    pub fn of_property(&self, definition: &str, property: &str) -> Option<Cow<'_, str>> {
        let known = self.known(definition, property).map(Cow::Borrowed);
        known.or_else(|| self.of_list(definition.strip_suffix("List")?, property)).or_else(|| {
            let found = EXTRA.iter().find(|(owner, name, _)| (*owner, *name) == (definition, property));
            found.map(|(_, _, description)| Cow::Borrowed(*description))
        })
    }

    fn known(&self, definition: &str, property: &str) -> Option<&str> {
        let found = self.records.binary_search_by(|record| self.name(record).cmp(&(definition, property)));
        found.ok().map(|index| self.part(&self.records[index][2]))
    }

    /// Returns the description of a property of a list, which is the same for all lists.
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
        assert!(descriptions.records.len() > 2500, "{}", descriptions.records.len());
    }
}

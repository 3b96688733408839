//! Types, formats, enums, and the keywords that say how a value is treated.

use std::collections::HashSet;

use atoll_crd::knows_format;
use serde_json::Value;

use super::SchemaWalk;
use crate::difference::shortened;
use crate::schema_view::{Fields, OtherFields, SchemaType, SchemaView, shown};

/// Number of values of an enum that a message lists.
const LISTED_VALUES: usize = 8;

impl<'s> SchemaWalk<'s> {
    /// The type of the values that both accept; `None` after a contradiction.
    pub(super) fn common_type(
        &mut self,
        offered: SchemaView<'s>,
        cluster: SchemaView<'s>,
    ) -> Option<SchemaType> {
        use SchemaType::{Any, IntOrString, Integer, Number, String};
        let common = match (offered.kind(), cluster.kind()) {
            (one, other) if one == other => Some(one),
            (one, Any) => Some(one),
            (Any, other) => Some(other),
            (Integer, Number | IntOrString) | (Number | IntOrString, Integer) => Some(Integer),
            (Number, IntOrString) | (IntOrString, Number) => Some(Integer),
            (String, IntOrString) | (IntOrString, String) => Some(String),
            _ => None,
        };
        // A format of strings without a type refuses all values but strings and lists.
        let is_text_format = |view: SchemaView<'_>| {
            view.kind() == Any && view.text("format").is_some_and(|format| knows_format(format, ""))
        };
        let fits = |one: SchemaView<'_>, other: SchemaView<'_>| {
            !is_text_format(one) || matches!(other.kind(), String | Any)
        };
        if common.is_none() || !fits(offered, cluster) || !fits(cluster, offered) {
            self.contradict(type_words(offered), type_words(cluster));
            return None;
        }
        common
    }

    pub(super) fn merge_type(
        &mut self,
        offered: SchemaView<'s>,
        cluster: SchemaView<'s>,
        kind: SchemaType,
        merged: &mut Fields,
    ) {
        if kind != offered.kind() {
            self.lose(offered.words(), cluster.words());
            merged.remove("x-kubernetes-int-or-string");
            merged.remove("type");
            match kind {
                SchemaType::IntOrString => {
                    merged.insert("x-kubernetes-int-or-string".to_owned(), true.into());
                }
                kind => drop(merged.insert("type".to_owned(), kind.name().into())),
            }
        }
        match (offered.is_nullable(), cluster.is_nullable()) {
            (true, false) => {
                // A type that replaces any value says so already.
                if offered.flag("nullable") && offered.kind() != SchemaType::Any {
                    self.lose("nullable", "not nullable");
                }
                merged.remove("nullable");
            }
            (true, true) if kind != SchemaType::Any => {
                merged.insert("nullable".to_owned(), true.into());
            }
            _ => {}
        }
        self.merge_format(offered, cluster, kind, merged);
        self.merge_treatment(offered, cluster, kind, merged);
    }

    fn merge_format(
        &mut self,
        offered: SchemaView<'s>,
        cluster: SchemaView<'s>,
        kind: SchemaType,
        merged: &mut Fields,
    ) {
        let (one, other) = (format(offered, kind), format(cluster, kind));
        if format(offered, offered.kind()).is_some() && one.is_none() {
            // Of another type than the merged one.
            merged.remove("format");
        }
        match (one, other) {
            (_, None) => {}
            (Some(one), Some(other)) if is_same_format(one, other) => {}
            (None, Some(other)) => {
                let one = offered.text("format").map_or("no format".to_owned(), format_words);
                self.lose(one, format_words(other));
                merged.insert("format".to_owned(), other.into());
            }
            (Some(one), Some(other)) => self.contradict(format_words(one), format_words(other)),
        }
    }

    /// Merges how unknown fields and embedded resources are treated.
    fn merge_treatment(
        &mut self,
        offered: SchemaView<'s>,
        cluster: SchemaView<'s>,
        kind: SchemaType,
        merged: &mut Fields,
    ) {
        const PRESERVES: &str = "x-kubernetes-preserve-unknown-fields";
        const EMBEDS: &str = "x-kubernetes-embedded-resource";
        let has_fields = match kind {
            SchemaType::Object => !matches!(offered.other_fields(), OtherFields::Values(_)),
            SchemaType::Array | SchemaType::Any => true,
            _ => false,
        };
        if offered.flag(PRESERVES) && !cluster.is_open && has_fields {
            self.lose("unknown fields are preserved", "unknown fields are removed");
            merged.remove(PRESERVES);
        }
        match (offered.flag(EMBEDS), cluster.flag(EMBEDS)) {
            (true, false) if !cluster.is_open && !self.path.is_empty() => {
                self.contradict("an embedded resource", "not an embedded resource");
            }
            (false, true) if offered.is_open || self.path.is_empty() => {
                self.lose("not an embedded resource", "an embedded resource");
                merged.insert(EMBEDS.to_owned(), true.into());
            }
            (false, true) => self.contradict("not an embedded resource", "an embedded resource"),
            _ => {}
        }
    }

    pub(super) fn merge_enum(
        &mut self,
        offered: SchemaView<'s>,
        cluster: SchemaView<'s>,
        merged: &mut Fields,
    ) {
        let (one, other) = (offered.list("enum"), cluster.list("enum"));
        if other.is_empty() {
            return;
        }
        let texts: HashSet<String> = other.iter().map(Value::to_string).collect();
        let common: Vec<Value> = match one {
            [] => other.to_vec(),
            one => one.iter().filter(|value| texts.contains(&value.to_string())).cloned().collect(),
        };
        if common.is_empty() {
            self.contradict(enum_words(one), enum_words(other));
        } else if one.is_empty() || common.len() < one.len() {
            self.lose(enum_words(one), enum_words(other));
            merged.insert("enum".to_owned(), Value::Array(common));
        }
    }

    /// Lists and maps must be merged in the same way by server-side apply.
    pub(super) fn merge_list_types(
        &mut self,
        offered: SchemaView<'s>,
        cluster: SchemaView<'s>,
        merged: &mut Fields,
    ) {
        const KEYS: &str = "x-kubernetes-list-map-keys";
        for (name, usual, words) in [
            ("x-kubernetes-list-type", "atomic", "list type"),
            ("x-kubernetes-map-type", "granular", "map type"),
        ] {
            let (one, other) = (offered.text(name), cluster.text(name));
            // Without a type, values may be lists and maps of any kind.
            let is_any = |view: SchemaView<'_>| view.kind() == SchemaType::Any && view.text(name).is_none();
            if one.unwrap_or(usual) == other.unwrap_or(usual) || is_any(cluster) {
                continue;
            }
            let text = |found: Option<&str>| format!("{words} {}", shortened(found.unwrap_or(usual)));
            if let (true, Some(other)) = (is_any(offered), other) {
                self.lose(format!("any {words}"), text(Some(other)));
                merged.insert(name.to_owned(), other.into());
                copy_keys(cluster, KEYS, merged);
            } else {
                self.contradict(text(one), text(other));
            }
        }
        let keys = |view: SchemaView<'s>| {
            let mut keys: Vec<&str> = view.texts(KEYS).collect();
            keys.sort_unstable();
            keys
        };
        let (one, other) = (keys(offered), keys(cluster));
        let words = |keys: &[&str]| format!("list keys {}", shortened(&keys.join(", ")));
        if one != other && !one.is_empty() && !other.is_empty() {
            self.contradict(words(&one), words(&other));
        }
    }
}

fn copy_keys(cluster: SchemaView<'_>, name: &str, merged: &mut Fields) {
    merged.extend(cluster.fields().get(name).map(|keys| (name.to_owned(), keys.clone())));
}

/// The format that restricts values of a type.
fn format(view: SchemaView<'_>, kind: SchemaType) -> Option<&str> {
    let format = view.text("format")?;
    let is_known = match kind {
        // Accepted by the type itself.
        SchemaType::Integer if format == "int64" => false,
        SchemaType::Number if format == "double" => false,
        SchemaType::String if format == "password" => false,
        SchemaType::IntOrString => knows_format(format, "string"),
        kind => knows_format(format, kind.name()),
    };
    is_known.then_some(format)
}

/// Whether two names are of the same format.
fn is_same_format(one: &str, other: &str) -> bool {
    let plain = |format: &str| format.replace('-', "");
    plain(one) == plain(other)
}

fn format_words(format: &str) -> String {
    format!("format {}", shortened(format))
}

fn type_words(view: SchemaView<'_>) -> String {
    match (view.kind(), view.text("format")) {
        (SchemaType::Any, Some(format)) => format!("any value of {}", format_words(format)),
        _ => view.words().to_owned(),
    }
}

fn enum_words(values: &[Value]) -> String {
    if values.is_empty() {
        return "all values".to_owned();
    }
    let mut texts: Vec<String> = values.iter().take(LISTED_VALUES).map(shown).collect();
    if values.len() > LISTED_VALUES {
        texts.push(format!("{} more", values.len() - LISTED_VALUES));
    }
    format!("{} {}", if values.len() == 1 { "only value" } else { "only values" }, texts.join(", "))
}

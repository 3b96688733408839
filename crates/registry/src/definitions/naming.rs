//! Resolves the names of a definition: it gets those that no other definition of its group has.

// upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/controller/status/naming_controller.go

use std::collections::HashSet;

use serde_json::{Map, Value, json};

/// The names of a custom resource.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Names {
    pub plural: String,
    pub singular: String,
    pub short_names: Vec<String>,
    pub kind: String,
    pub list_kind: String,
    pub categories: Vec<String>,
}

/// The reason why not all names are accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    pub reason: &'static str,
    pub message: String,
}

impl Names {
    pub fn read(names: &Value) -> Self {
        let text = |field: &str| names[field].as_str().unwrap_or_default().to_string();
        let list = |field: &str| {
            let list = names[field].as_array().into_iter().flatten();
            list.filter_map(Value::as_str).map(str::to_string).collect()
        };
        Names {
            plural: text("plural"),
            singular: text("singular"),
            short_names: list("shortNames"),
            kind: text("kind"),
            list_kind: text("listKind"),
            categories: list("categories"),
        }
    }

    pub fn write(&self) -> Value {
        let mut names = Map::new();
        // Plural and kind are always present, as in Go's struct.
        names.insert("plural".into(), self.plural.as_str().into());
        if !self.singular.is_empty() {
            names.insert("singular".into(), self.singular.as_str().into());
        }
        if !self.short_names.is_empty() {
            names.insert("shortNames".into(), json!(self.short_names));
        }
        names.insert("kind".into(), self.kind.as_str().into());
        if !self.list_kind.is_empty() {
            names.insert("listKind".into(), self.list_kind.as_str().into());
        }
        if !self.categories.is_empty() {
            names.insert("categories".into(), json!(self.categories));
        }
        Value::Object(names)
    }

    /// Resolves the names of a definition that has `self` and requests `wanted`, while the other definitions
    /// of its group have `others`. Also returns the last conflict.
    pub fn resolve<'a>(
        &'a self,
        wanted: &Names,
        others: impl Iterator<Item = &'a Names>,
    ) -> (Names, Option<Conflict>) {
        let (mut resources, mut kinds) = (HashSet::new(), HashSet::new());
        // As in upstream, the sets include the names that this definition already has.
        for names in others.chain([self]) {
            resources.extend([names.plural.as_str(), names.singular.as_str()]);
            resources.extend(names.short_names.iter().map(String::as_str));
            kinds.extend([names.kind.as_str(), names.list_kind.as_str()]);
        }
        let mut settled = self.clone();
        let mut conflict = None;
        let mut refuse =
            |reason: &'static str, message: String| conflict = Some(Conflict { reason, message });
        let in_use = |name: &str| format!("{name:?} is already in use");
        let is_free = |wanted: &str, own: &str, used: &HashSet<&str>| wanted == own || !used.contains(wanted);
        match is_free(&wanted.plural, &self.plural, &resources) {
            true => settled.plural.clone_from(&wanted.plural),
            false => refuse("PluralConflict", in_use(&wanted.plural)),
        }
        match is_free(&wanted.singular, &self.singular, &resources) {
            true => settled.singular.clone_from(&wanted.singular),
            false => refuse("SingularConflict", in_use(&wanted.singular)),
        }
        if wanted.short_names != self.short_names {
            let taken: Vec<String> = wanted
                .short_names
                .iter()
                .filter(|name| !self.short_names.contains(name) && resources.contains(name.as_str()))
                .map(|name| in_use(name))
                .collect();
            match taken.is_empty() {
                true => settled.short_names.clone_from(&wanted.short_names),
                false => refuse("ShortNamesConflict", aggregate(taken)),
            }
        }
        match is_free(&wanted.kind, &self.kind, &kinds) {
            true => settled.kind.clone_from(&wanted.kind),
            false => refuse("KindConflict", in_use(&wanted.kind)),
        }
        match is_free(&wanted.list_kind, &self.list_kind, &kinds) {
            true => settled.list_kind.clone_from(&wanted.list_kind),
            false => refuse("ListKindConflict", in_use(&wanted.list_kind)),
        }
        settled.categories.clone_from(&wanted.categories);
        (settled, conflict)
    }
}

/// Joins errors as upstream's aggregate prints them: each once.
fn aggregate(mut messages: Vec<String>) -> String {
    let mut seen = HashSet::new();
    messages.retain(|message| seen.insert(message.clone()));
    match &messages[..] {
        [one] => one.clone(),
        several => format!("[{}]", several.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(plural: &str, singular: &str, short: &[&str], kind: &str, list_kind: &str) -> Names {
        Names {
            plural: plural.into(),
            singular: singular.into(),
            short_names: short.iter().map(ToString::to_string).collect(),
            kind: kind.into(),
            list_kind: list_kind.into(),
            categories: Vec::new(),
        }
    }

    #[test]
    fn names_of_other_definitions_are_not_accepted() {
        let other = names("bars", "bar", &["b", "br"], "Bar", "BarList");
        let nothing = Names::default();
        let wanted = |change: fn(&mut Names)| {
            let mut wanted = names("foos", "foo", &["f"], "Foo", "FooList");
            change(&mut wanted);
            wanted
        };
        let cases: [(Names, Option<(&str, &str)>); 7] = [
            (wanted(|_| {}), None),
            (
                wanted(|names| names.plural = "bar".into()),
                Some(("PluralConflict", "\"bar\" is already in use")),
            ),
            (
                wanted(|names| names.singular = "b".into()),
                Some(("SingularConflict", "\"b\" is already in use")),
            ),
            (
                wanted(|names| names.short_names = vec!["b".into(), "x".into(), "br".into()]),
                Some(("ShortNamesConflict", "[\"b\" is already in use, \"br\" is already in use]")),
            ),
            (
                wanted(|names| names.kind = "BarList".into()),
                Some(("KindConflict", "\"BarList\" is already in use")),
            ),
            (
                wanted(|names| names.list_kind = "Bar".into()),
                Some(("ListKindConflict", "\"Bar\" is already in use")),
            ),
            // The last conflict is reported.
            (
                wanted(|names| {
                    names.plural = "bars".into();
                    names.kind = "Bar".into();
                }),
                Some(("KindConflict", "\"Bar\" is already in use")),
            ),
        ];
        for (wanted, expected) in cases {
            let (settled, conflict) = nothing.resolve(&wanted, [&other].into_iter());
            let seen = conflict.as_ref().map(|conflict| (conflict.reason, conflict.message.as_str()));
            assert_eq!(seen, expected, "{wanted:?}");
            assert_eq!(settled == wanted, expected.is_none());
        }
        // Accepted names are kept, and released names are free again.
        let own = names("foos", "foo", &["f"], "Foo", "FooList");
        assert_eq!(own.resolve(&own, [&other].into_iter()), (own.clone(), None));
    }
}

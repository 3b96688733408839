//! A rule of a role.

// upstream: pkg/apis/rbac/v1/evaluation_helpers.go

use std::sync::LazyLock;

use serde_json::{Map, Value, json};

use crate::Target;

/// The wildcard for verbs, groups and resources.
const ALL: &str = "*";

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rule {
    pub verbs: Texts,
    pub groups: Texts,
    pub resources: Texts,
    pub names: Texts,
    pub paths: Texts,
}

pub type Texts = Box<[Box<str>]>;

impl Rule {
    /// Parses the rules of a stored role.
    pub fn all_of(role: &Value) -> Vec<Rule> {
        role["rules"].as_array().into_iter().flatten().map(Rule::parse).collect()
    }

    fn parse(rule: &Value) -> Rule {
        let texts = |field: &str| -> Texts {
            rule[field].as_array().into_iter().flatten().filter_map(Value::as_str).map(Box::from).collect()
        };
        Rule {
            verbs: texts("verbs"),
            groups: texts("apiGroups"),
            resources: texts("resources"),
            names: texts("resourceNames"),
            paths: texts("nonResourceURLs"),
        }
    }

    /// Returns rules that allow everything, like cluster-admin.
    pub fn everything() -> &'static [Rule] {
        static EVERYTHING: LazyLock<[Rule; 2]> = LazyLock::new(|| {
            let all = || -> Texts { [ALL.into()].into() };
            let resources = Rule { verbs: all(), groups: all(), resources: all(), ..Rule::default() };
            [resources, Rule { verbs: all(), paths: all(), ..Rule::default() }]
        });
        &*EVERYTHING
    }

    /// Returns the maximum number of comparisons that an evaluation of the rule needs.
    pub(crate) fn evaluation_cost(&self) -> usize {
        let Rule { verbs, groups, resources, names, paths } = self;
        1 + [verbs, groups, resources, names, paths].into_iter().map(|texts| texts.len()).sum::<usize>()
    }

    /// Returns the number of bytes of the rule's texts.
    pub fn size(&self) -> usize {
        let Rule { verbs, groups, resources, names, paths } = self;
        let texts = [verbs, groups, resources, names, paths].into_iter().flatten();
        texts.map(|text| text.len() + size_of::<Box<str>>()).sum()
    }

    pub fn allows(&self, verb: &str, target: &Target<'_>) -> bool {
        if !has_or_all(&self.verbs, verb) {
            return false;
        }
        match *target {
            Target::Path(path) => self.paths.iter().any(|own| path_covers(own, path)),
            Target::Resource { group, resource, subresource, name, .. } => {
                has_or_all(&self.groups, group)
                    && self.resources.iter().any(|own| resource_matches(own, resource, subresource))
                    && (self.names.is_empty() || has(&self.names, name))
            }
        }
    }

    /// Returns the number of single permissions in the rule.
    pub(crate) fn permissions(&self) -> usize {
        let names = self.names.len().max(1);
        let resources = [self.resources.len(), self.verbs.len(), names];
        let resources = resources.into_iter().fold(self.groups.len(), usize::saturating_mul);
        resources.saturating_add(self.paths.len().saturating_mul(self.verbs.len()))
    }

    /// Returns the part about resources, as in a rules review.
    pub fn resource_rule(&self) -> Option<Value> {
        let fields = [
            ("verbs", &self.verbs),
            ("apiGroups", &self.groups),
            ("resources", &self.resources),
            ("resourceNames", &self.names),
        ];
        (!self.resources.is_empty()).then(|| to_json(&fields))
    }

    /// Returns the part about paths, as in a rules review.
    pub fn path_rule(&self) -> Option<Value> {
        (!self.paths.is_empty()).then(|| to_json(&[("verbs", &self.verbs), ("nonResourceURLs", &self.paths)]))
    }
}

fn to_json(fields: &[(&str, &Texts)]) -> Value {
    let named = fields.iter().filter(|(name, texts)| !texts.is_empty() || *name == "verbs");
    let fields = named.map(|(name, texts)| ((*name).to_string(), json!(texts)));
    Value::Object(fields.collect::<Map<_, _>>())
}

pub(crate) fn has(texts: &[Box<str>], wanted: &str) -> bool {
    texts.iter().any(|own| **own == *wanted)
}

pub(crate) fn has_or_all(texts: &[Box<str>], wanted: &str) -> bool {
    texts.iter().any(|own| **own == *wanted || **own == *ALL)
}

/// Matches `pods`, `pods/log`, `*/scale` or `*`.
fn resource_matches(own: &str, resource: &str, subresource: &str) -> bool {
    if own == ALL {
        return true;
    }
    if subresource.is_empty() {
        return own == resource;
    }
    let holder = own.strip_suffix(subresource).and_then(|rest| rest.strip_suffix('/'));
    holder.is_some_and(|holder| holder == resource || holder == ALL)
}

/// A path that ends with a star matches all paths with that prefix.
pub(crate) fn path_covers(own: &str, path: &str) -> bool {
    own == path || (own.ends_with('*') && path.starts_with(own.trim_end_matches('*')))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(value: Value) -> Rule {
        Rule::parse(&value)
    }

    #[test]
    fn resources_match_as_upstream() {
        // groups, resources, names | verb, group, resource, subresource, name
        let cases = [
            (json!({ "verbs": ["get"], "apiGroups": [""], "resources": ["pods"] }), "get||pods||x", true),
            (json!({ "verbs": ["get"], "apiGroups": [""], "resources": ["pods"] }), "get||pods|log|x", false),
            (
                json!({ "verbs": ["get"], "apiGroups": [""], "resources": ["pods/log"] }),
                "get||pods|log|",
                true,
            ),
            (json!({ "verbs": ["get"], "apiGroups": [""], "resources": ["*/log"] }), "get||pods|log|", true),
            (
                json!({ "verbs": ["get"], "apiGroups": [""], "resources": ["*/log"] }),
                "get||pods|dialog|",
                false,
            ),
            (json!({ "verbs": ["get"], "apiGroups": [""], "resources": ["*/log"] }), "get||pods||", false),
            (json!({ "verbs": ["get"], "apiGroups": [""], "resources": ["*"] }), "get||pods|log|", true),
            (
                json!({ "verbs": ["get"], "apiGroups": [""], "resources": ["pods/*"] }),
                "get||pods|log|",
                false,
            ),
            (json!({ "verbs": ["*"], "apiGroups": ["apps"], "resources": ["*"] }), "x||pods||", false),
            (json!({ "verbs": ["*"], "apiGroups": ["*"], "resources": ["pods"] }), "x|apps|pods||", true),
            (json!({ "verbs": ["get"], "resources": ["pods"] }), "get||pods||", false),
            (
                json!({ "verbs": ["get"], "apiGroups": [""], "resources": ["pods"], "resourceNames": ["a"] }),
                "get||pods||a",
                true,
            ),
            (
                json!({ "verbs": ["list"], "apiGroups": [""], "resources": ["pods"], "resourceNames": ["a"] }),
                "list||pods||",
                false,
            ),
        ];
        for (own, asked, allowed) in cases {
            let parts: Vec<&str> = asked.split('|').collect();
            let [verb, group, resource, subresource, name] = parts[..] else { panic!("{asked}") };
            let target = Target::Resource { group, resource, subresource, namespace: "", name };
            assert_eq!(rule(own.clone()).allows(verb, &target), allowed, "{own} {asked}");
        }
    }

    #[test]
    fn paths_match_as_upstream() {
        let cases = [
            ("*", "/anything", true),
            ("/healthz", "/healthz", true),
            ("/healthz", "/healthz/", false),
            ("/api/*", "/api/v1", true),
            ("/api/*", "/api", false),
            ("/api**", "/apis", true),
            ("/a*b", "/axb", false),
        ];
        for (own, path, allowed) in cases {
            let rule = rule(json!({ "verbs": ["get"], "nonResourceURLs": [own] }));
            assert_eq!(rule.allows("get", &Target::Path(path)), allowed, "{own} {path}");
            assert!(!rule.allows("post", &Target::Path(path)));
        }
    }
}

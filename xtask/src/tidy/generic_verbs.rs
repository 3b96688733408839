//! Checks that the generic verbs name no resource: what is special about a kind belongs into its strategy.

use std::collections::BTreeSet;

use super::Finding;
use super::source::{code, line, literals, test_blocks, words};

/// The resources of Kubernetes, with their kinds, groups and subresources.
const RESOURCES: &str = "crates/schema/data/resources.txt";

/// Atoll's own group, resources and kinds, and the constant that contains the group.
const OWN: [&str; 13] = [
    "atoll.dev",
    "apiimports",
    "ApiImport",
    "clusterplacementpolicies",
    "clusters",
    "objectstatuses",
    "placementpolicies",
    "workspaces",
    "Cluster",
    "ClusterPlacementPolicy",
    "ObjectStatus",
    "PlacementPolicy",
    "Workspace",
];
const OWN_GROUP: &str = "ATOLL";

/// Subresources that belong to no kind in particular. After a proxy, the path of a request continues.
const SHARED_SUBRESOURCES: [&str; 3] = ["proxy", "scale", "status"];

/// The files of the generic verbs.
const FILES: [&str; 24] = [
    "crates/registry/src/allocation.rs",
    "crates/registry/src/blocking.rs",
    "crates/registry/src/create.rs",
    "crates/registry/src/delete.rs",
    "crates/registry/src/lib.rs",
    "crates/registry/src/modify.rs",
    "crates/registry/src/read.rs",
    "crates/registry/src/status_writes.rs",
    "crates/registry/src/update.rs",
    "crates/registry/src/validation.rs",
    "crates/server/src/verbs.rs",
    "crates/server/src/verbs/admission.rs",
    "crates/server/src/verbs/create.rs",
    "crates/server/src/verbs/delete.rs",
    "crates/server/src/verbs/delete_collection.rs",
    "crates/server/src/verbs/escalation.rs",
    "crates/server/src/verbs/get.rs",
    "crates/server/src/verbs/list.rs",
    "crates/server/src/verbs/patch.rs",
    "crates/server/src/verbs/patch/apply.rs",
    "crates/server/src/verbs/patch/strategic.rs",
    "crates/server/src/verbs/update.rs",
    "crates/server/src/verbs/watch.rs",
    "crates/server/src/verbs/watch/frames.rs",
];

/// Returns all findings about the generic verbs among the files with their texts.
pub fn check(texts: &[(String, String)]) -> Vec<Finding> {
    let find = |path: &str| texts.iter().find(|(file, _)| file == path).map(|(_, text)| text.as_str());
    let Some(resources) = find(RESOURCES) else {
        return vec![Finding::error(RESOURCES, "this list of resources is missing")];
    };
    let names = names(resources);
    let findings = FILES.iter().flat_map(|file| match find(file) {
        Some(text) => named(file, text, &names),
        None => vec![Finding::error(
            *file,
            "this file of a generic verb is missing: correct the list in xtask/src/tidy/generic_verbs.rs",
        )],
    });
    findings.collect()
}

/// Returns the groups, resources, kinds and subresources that generic verbs must not name.
fn names(resources: &str) -> BTreeSet<&str> {
    let mut names = BTreeSet::from(OWN);
    for line in resources.lines() {
        let mut words = line.split_whitespace();
        let (Some(first), second, third) = (words.next(), words.next(), words.next()) else { continue };
        match (first, line.starts_with(' ')) {
            ("kubernetes", _) => {}
            // Groups without a dot, such as batch, are common words.
            ("version", false) => names.extend(second.filter(|group| group.contains('.'))),
            (subresource, true) => drop(names.insert(subresource)),
            (resource, false) => {
                names.insert(resource);
                names.extend(third);
            }
        }
    }
    names.retain(|name| !SHARED_SUBRESOURCES.contains(name));
    names
}

/// Returns a finding for every name in the code of a file, tests aside.
fn named(path: &str, text: &str, names: &BTreeSet<&str>) -> Vec<Finding> {
    let code = code(text);
    let tests = test_blocks(&code);
    let found = literals(text).into_iter().filter(|(_, literal)| names.contains(literal.as_str()));
    let constants = words(&code, OWN_GROUP).map(|position| (position, OWN_GROUP.to_owned()));
    let mut found: Vec<(usize, String)> = found.chain(constants).collect();
    found.retain(|(position, _)| !tests.iter().any(|block| block.contains(position)));
    found.sort();
    let finding = |(position, name): (usize, String)| {
        let message = format!(
            "a generic verb names \"{name}\": make it a field of Strategy with a default that does nothing"
        );
        Finding::error(format!("{path}:{}", line(&code, position)), message)
    };
    found.into_iter().map(finding).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &str = "kubernetes v1.36.4\nversion core v1\npods pod Pod namespaced verbs=get short=po\n \
        status Pod verbs=get\n resize Pod verbs=patch\nversion batch v1\nversion policy.example.com v1\n\
        limits limit Limit cluster verbs=get\n";

    #[test]
    fn groups_resources_kinds_and_subresources_are_names() {
        let mut expected = BTreeSet::from(OWN);
        expected.extend(["Limit", "Pod", "limits", "pods", "policy.example.com", "resize"]);
        assert_eq!(names(LIST), expected);
    }

    #[test]
    fn names_in_code_are_found() {
        let text = "//! For \"pods\".\n\
            fn f(row: &Row) -> bool {\n    row.group == ATOLL && row.resource == \"workspaces\"\n}\n\
            fn g() { a(\"pods are late\", \"status\", \"resize\") }\n\
            #[cfg(test)]\nmod tests { const KIND: &str = \"Pod\"; }\n";
        let findings = named("a.rs", text, &names(LIST));
        let shown: Vec<(&str, bool)> = findings
            .iter()
            .map(|finding| (finding.location.as_str(), finding.message.contains("field of Strategy")))
            .collect();
        assert_eq!(shown, [("a.rs:3", true), ("a.rs:3", true), ("a.rs:5", true)]);
        assert!(findings[0].message.contains("\"ATOLL\"") && findings[2].message.contains("\"resize\""));
    }

    #[test]
    fn missing_files_are_reported() {
        let list = (RESOURCES.to_owned(), LIST.to_owned());
        let file = |path: &&str| ((*path).to_owned(), String::new());
        let all: Vec<(String, String)> = FILES.iter().map(file).chain([list]).collect();
        assert_eq!(check(&all), []);
        assert_eq!(check(&all[1..]).len(), 1, "a file of a verb");
        assert_eq!(check(&all[..FILES.len()]).len(), 1, "the list of resources");
    }
}

//! The resource rows of a default Kubernetes API server, in the order of its discovery.

// upstream: staging/src/k8s.io/apiserver/pkg/endpoints/installer.go

use std::sync::OnceLock;

use crate::types::{TypeId, Types};

const DATA: &str = include_str!("../data/resources.txt");

/// One resource of one group version.
#[derive(Debug)]
pub struct Resource {
    /// Empty for the core group.
    pub group: &'static str,
    pub version: &'static str,
    /// Plural name, as in the URL.
    pub resource: &'static str,
    pub singular: &'static str,
    pub kind: &'static str,
    pub namespaced: bool,
    pub verbs: Vec<&'static str>,
    pub short_names: Vec<&'static str>,
    pub categories: Vec<&'static str>,
    pub subresources: Vec<Subresource>,
    /// Present for stored resources only.
    pub storage_version_hash: Option<&'static str>,
    pub type_id: Option<TypeId>,
}

/// One subresource. Its kind may be of another group version than its resource.
#[derive(Debug)]
pub struct Subresource {
    pub name: &'static str,
    pub kind: &'static str,
    /// Group of the kind, if discovery specifies it, that is if it differs from the resource's.
    pub group: Option<&'static str>,
    /// Version of the kind, if discovery specifies it.
    pub version: Option<&'static str>,
    pub verbs: Vec<&'static str>,
    pub type_id: Option<TypeId>,
}

impl Resource {
    pub fn subresource(&self, name: &str) -> Option<&Subresource> {
        self.subresources.iter().find(|subresource| subresource.name == name)
    }
}

/// Returns all rows: the core group first, then the others as `/apis` lists them, each with its preferred
/// version first.
pub fn resources() -> &'static [Resource] {
    static ROWS: OnceLock<Vec<Resource>> = OnceLock::new();
    ROWS.get_or_init(|| parse(DATA, Types::get()))
}

/// Returns the Kubernetes version of the data, such as `v1.36.4`.
pub fn kubernetes_version() -> &'static str {
    DATA.lines().next().and_then(|line| line.strip_prefix("kubernetes ")).unwrap_or_default()
}

fn parse(data: &'static str, types: &Types) -> Vec<Resource> {
    let mut rows: Vec<Resource> = Vec::with_capacity(80);
    let (mut group, mut version) = ("", "");
    for line in data.lines().skip(1) {
        if let Some(names) = line.strip_prefix("version ") {
            (group, version) = names.split_once(' ').unwrap_or((names, ""));
            if group == "core" {
                group = "";
            }
        } else if let Some(line) = line.strip_prefix(' ') {
            let mut words = line.split(' ');
            let (name, kind) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
            let facts = Facts::parse(words);
            let kind_group = facts.group.unwrap_or(group);
            let kind_version = facts.version.unwrap_or(version);
            if let Some(row) = rows.last_mut() {
                row.subresources.push(Subresource {
                    name,
                    kind,
                    group: facts.group,
                    version: facts.version,
                    verbs: facts.verbs,
                    type_id: types.by_kind(kind_group, kind_version, kind),
                });
            }
        } else {
            let mut words = line.split(' ');
            let mut word = || words.next().unwrap_or_default();
            let (resource, singular, kind, scope) = (word(), word(), word(), word());
            let facts = Facts::parse(words);
            rows.push(Resource {
                group,
                version,
                resource,
                singular,
                kind,
                namespaced: scope == "namespaced",
                verbs: facts.verbs,
                short_names: facts.short_names,
                categories: facts.categories,
                subresources: Vec::new(),
                storage_version_hash: facts.hash,
                type_id: types.by_kind(group, version, kind),
            });
        }
    }
    rows
}

#[derive(Default)]
struct Facts {
    verbs: Vec<&'static str>,
    short_names: Vec<&'static str>,
    categories: Vec<&'static str>,
    hash: Option<&'static str>,
    group: Option<&'static str>,
    version: Option<&'static str>,
}

impl Facts {
    fn parse(words: impl Iterator<Item = &'static str>) -> Facts {
        let mut facts = Facts::default();
        for (name, value) in words.filter_map(|word| word.split_once('=')) {
            match name {
                "verbs" => facts.verbs = value.split(',').collect(),
                "short" => facts.short_names = value.split(',').collect(),
                "categories" => facts.categories = value.split(',').collect(),
                "hash" => facts.hash = Some(value),
                "group" => facts.group = Some(value),
                "version" => facts.version = Some(value),
                _ => {}
            }
        }
        facts
    }
}

//! The catalog of served resources: the built-in ones of a profile, and Atoll's own.

use std::collections::HashMap;
use std::sync::Arc;

use atoll_merge::apply::Kind;
use atoll_schema::Resource;
use atoll_validation::warnings;

use crate::atoll_kinds;
use crate::definitions::{Definition, Interned, Text};
use crate::dialect::{DialectKinds, SharedDialect};
use crate::row::{Row, SharedRow, Subresource};
use crate::strategy;
use crate::views;

/// Group of Atoll's own kinds.
pub const ATOLL: &str = "atoll.dev";
/// Group of the resource metrics of nodes and Pods.
pub const METRICS: &str = "metrics.k8s.io";

#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Profile {
    /// Everything that Kubernetes serves by default.
    #[default]
    Full,
    /// Namespaces, ConfigMaps, Secrets, ServiceAccounts, Events, Leases, RBAC, CRDs, reviews of access and
    /// tokens, CertificateSigningRequests, and the resources that Atoll itself needs.
    Minimal,
}

/// The served rows, in the order in which discovery lists them.
pub struct Catalog {
    rows: Vec<SharedRow>,
    by_path: HashMap<(String, String, String), SharedRow>,
    /// The compiled CustomResourceDefinitions of all workspaces.
    pub definitions: Interned<Definition>,
    /// Long texts in CustomResourceDefinitions, shared by equal ones.
    pub texts: Interned<Text>,
    /// The dialects that workspaces can enable.
    pub(crate) dialects: Vec<DialectKinds>,
}

/// Resources of the minimal profile, as (group, resource), besides those of `MINIMAL_GROUPS`.
const MINIMAL: [(&str, &str); 8] = [
    ("", "namespaces"),
    ("", "configmaps"),
    ("", "secrets"),
    ("", "serviceaccounts"),
    ("", "events"),
    ("coordination.k8s.io", "leases"),
    ("apiextensions.k8s.io", "customresourcedefinitions"),
    ("certificates.k8s.io", "certificatesigningrequests"),
];
/// Groups that are in the minimal profile with all their resources.
const MINIMAL_GROUPS: [&str; 3] =
    ["authentication.k8s.io", "authorization.k8s.io", "rbac.authorization.k8s.io"];

/// Resources that are not stored but computed or executed on request.
const COMPUTED: [(&str, &str); 8] = [
    ("", "bindings"),
    ("", "componentstatuses"),
    ("authentication.k8s.io", "selfsubjectreviews"),
    ("authentication.k8s.io", "tokenreviews"),
    ("authorization.k8s.io", "localsubjectaccessreviews"),
    ("authorization.k8s.io", "selfsubjectaccessreviews"),
    ("authorization.k8s.io", "selfsubjectrulesreviews"),
    ("authorization.k8s.io", "subjectaccessreviews"),
];

impl Catalog {
    /// A catalog without dialects.
    pub fn new(profile: Profile) -> Self {
        Catalog::with_dialects(profile, Vec::new())
    }

    pub fn with_dialects(profile: Profile, dialects: Vec<SharedDialect>) -> Self {
        let builtin =
            atoll_schema::resources().iter().filter(|resource| is_served(resource, profile)).map(builtin);
        let rows: Vec<SharedRow> = builtin.chain(atoll_kinds::rows()).map(Arc::new).collect();
        let path = |row: &SharedRow| (row.group.clone(), row.version.clone(), row.resource.clone());
        let by_path = rows.iter().map(|row| (path(row), row.clone())).collect();
        let (definitions, texts) = (Interned::default(), Interned::default());
        let dialects = dialects.into_iter().map(DialectKinds::new).collect();
        Catalog { rows, by_path, definitions, texts, dialects }
    }

    /// The definition of a dialect's resource, wherever the dialect is enabled.
    pub fn dialect_definition(&self, group: &str, resource: &str) -> Option<&Arc<Definition>> {
        self.dialects.iter().find_map(|kinds| kinds.find(self, group, resource))
    }

    /// The dialects that workspaces can enable.
    pub fn dialects(&self) -> impl Iterator<Item = &SharedDialect> {
        self.dialects.iter().map(|kinds| &kinds.dialect)
    }

    pub fn rows(&self) -> &[SharedRow] {
        &self.rows
    }

    pub fn find(&self, group: &str, version: &str, resource: &str) -> Option<&SharedRow> {
        self.by_path.get(&(group.to_string(), version.to_string(), resource.to_string()))
    }

    /// The row of a stored resource.
    pub fn stored(&self, group: &str, resource: &str) -> Option<&SharedRow> {
        self.rows.iter().find(|row| row.group == group && row.resource == resource && row.view.is_none())
    }

    pub fn has_group_version(&self, group: &str, version: &str) -> bool {
        self.rows.iter().any(|row| row.group == group && row.version == version)
    }
}

fn is_served(resource: &Resource, profile: Profile) -> bool {
    let stored = ["get", "list", "watch"].iter().all(|verb| resource.verbs.contains(verb));
    let computed = COMPUTED.contains(&(resource.group, resource.resource));
    let in_profile = match profile {
        Profile::Full => true,
        Profile::Minimal => {
            MINIMAL_GROUPS.contains(&resource.group) || MINIMAL.contains(&(resource.group, resource.resource))
        }
    };
    (stored || computed) && in_profile
}

fn builtin(resource: &Resource) -> Row {
    let api_version = match resource.group {
        "" => resource.version.to_string(),
        group => format!("{group}/{}", resource.version),
    };
    let owned = |texts: &[&'static str]| texts.iter().map(ToString::to_string).collect();
    let view = views::of(resource.group, resource.version, resource.resource);
    Row {
        group: resource.group.to_string(),
        version: resource.version.to_string(),
        resource: resource.resource.to_string(),
        singular: resource.singular.to_string(),
        kind: resource.kind.to_string(),
        namespaced: resource.namespaced,
        verbs: owned(&resource.verbs),
        short_names: owned(&resource.short_names),
        categories: owned(&resource.categories),
        storage_version_hash: resource.storage_version_hash.unwrap_or_default().to_string(),
        subresources: resource
            .subresources
            .iter()
            .map(|sub| Subresource {
                name: sub.name.to_string(),
                kind: sub.kind.to_string(),
                group: sub.group.unwrap_or_default().to_string(),
                version: sub.version.unwrap_or_default().to_string(),
                verbs: owned(&sub.verbs),
            })
            .collect(),
        type_id: resource.type_id,
        schema: None,
        view,
        strategy: strategy::builtin(resource.group, resource.resource),
        defaults: atoll_defaults::defaults_for(resource.group, resource.version, resource.kind),
        checks: atoll_validation::checks_for(resource.group, resource.resource),
        warnings: warnings::warnings_for(view.map_or(resource.group, |view| view.group), resource.resource),
        managed: Kind::new(api_version, resource.kind, resource.type_id),
        custom: None,
    }
}

/// The rows `nodes` and `pods` of the metrics group, which are not stored.
pub fn metrics_rows() -> [Row; 2] {
    let row = |resource: &str, kind: &str, namespaced: bool| Row {
        group: METRICS.into(),
        version: "v1beta1".into(),
        resource: resource.into(),
        singular: String::new(),
        kind: kind.into(),
        namespaced,
        verbs: vec!["get".into(), "list".into()],
        short_names: Vec::new(),
        categories: Vec::new(),
        storage_version_hash: String::new(),
        subresources: Vec::new(),
        type_id: None,
        schema: None,
        view: None,
        strategy: strategy::builtin(METRICS, resource),
        defaults: atoll_defaults::defaults_for(METRICS, "v1beta1", kind),
        checks: atoll_validation::checks_for(METRICS, resource),
        warnings: warnings::warnings_for(METRICS, resource),
        managed: Kind::new(format!("{METRICS}/v1beta1"), kind, None),
        custom: None,
    };
    [row("nodes", "NodeMetrics", false), row("pods", "PodMetrics", true)]
}

//! Path and query parameters.

// upstream: staging/src/k8s.io/apiserver/pkg/endpoints/installer.go
// upstream: k8s.io/kube-openapi/pkg/builder/parameters.go

use std::borrow::Cow;

use atoll_schema::{TypeRef, Types};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameter {
    pub name: &'static str,
    /// `path` or `query`.
    pub location: &'static str,
    /// `string`, `boolean` or `integer`.
    pub kind: &'static str,
    pub description: Cow<'static, str>,
}

/// The options of each verb.
pub const LIST: OptionsType = OptionsType("meta/v1.ListOptions", &[]);
pub const DELETE: OptionsType = OptionsType("meta/v1.DeleteOptions", &[]);
pub const DELETE_COLLECTION: OptionsType =
    OptionsType("meta/v1.ListOptions", &["watch", "allowWatchBookmarks"]);
pub const CREATE: OptionsType = OptionsType("meta/v1.CreateOptions", &[]);
pub const UPDATE: OptionsType = OptionsType("meta/v1.UpdateOptions", &[]);
pub const PATCH: OptionsType = OptionsType("meta/v1.PatchOptions", &[]);

/// The options of a verb: the key of their type, and the fields that the verb does not support.
#[derive(Clone, Copy, Debug)]
pub struct OptionsType<'a>(pub &'a str, pub &'static [&'static str]);

/// Descriptions of parameters by name.
const DESCRIPTIONS: &[(&str, &str)] = &[
    (
        "allowWatchBookmarks",
        "Whether a watch may receive bookmark events, which contain the current resource version only.",
    ),
    ("command", "Command to run, one parameter per argument. It is not run in a shell."),
    ("container", "Name of the container. Required if the pod has more than one."),
    ("continue", "Continue token of the previous page of a list."),
    ("dryRun", "With \"All\", the request is processed completely but not stored."),
    ("fieldManager", "Name of the field manager of this request, at most 128 printable characters."),
    (
        "fieldValidation",
        "How to handle unknown and duplicate fields: \"Ignore\" drops them, \"Warn\" drops them with a warning, \"Strict\" rejects the request.",
    ),
    ("fieldSelector", "Restricts the objects by their fields, for example metadata.name=a."),
    ("follow", "Whether to continue with new lines as they are written."),
    ("force", "Whether an apply request takes over fields that other managers own."),
    ("gracePeriodSeconds", "Grace period of the deletion in seconds; 0 deletes the object immediately."),
    (
        "ignoreStoreReadErrorWithClusterBreakingPotential",
        "Whether to delete the object even if it can no longer be read from the store, ignoring finalizers.",
    ),
    (
        "insecureSkipTLSVerifyBackend",
        "Whether to read the log without verifying the certificate of the kubelet.",
    ),
    ("labelSelector", "Restricts the objects by their labels, for example app=web,tier!=cache."),
    ("limit", "Maximum number of objects in a page."),
    ("limitBytes", "Maximum number of bytes."),
    (
        "orphanDependents",
        "Deprecated: use propagationPolicy. Whether to orphan the dependents of this object.",
    ),
    ("path", "Path of the forwarded request."),
    ("ports", "Ports to forward."),
    ("pretty", "With \"true\", the response is indented."),
    ("previous", "Whether to return the log of the previous instance of the container."),
    (
        "propagationPolicy",
        "How to handle dependents: \"Orphan\" keeps them, \"Background\" deletes them after this object, \"Foreground\" before.",
    ),
    (
        "resourceVersion",
        "Resource version that the response must have reached, or after which a watch starts.",
    ),
    ("resourceVersionMatch", "Whether resourceVersion is exact (\"Exact\") or a minimum (\"NotOlderThan\")."),
    ("sendInitialEvents", "Whether a watch starts with the existing objects, followed by a bookmark."),
    ("shardSelector", "Restricts the objects to a range of hashes."),
    ("sinceSeconds", "Maximum age of lines in seconds."),
    ("stderr", "Whether to forward standard error."),
    ("stdin", "Whether to forward standard input."),
    ("stdout", "Whether to forward standard output."),
    ("stream", "Output to return: \"All\", \"Stdout\" or \"Stderr\"."),
    ("tailLines", "Number of lines from the end of the log."),
    ("timeoutSeconds", "Timeout of the list or watch in seconds."),
    ("timestamps", "Whether each line starts with its timestamp."),
    ("tty", "Whether to allocate a terminal for the command."),
    ("watch", "Whether to watch for changes instead of listing."),
];

fn description(name: &str) -> &'static str {
    DESCRIPTIONS.iter().find(|(known, _)| *known == name).map_or("", |(_, description)| description)
}

pub fn query(name: &'static str, kind: &'static str) -> Parameter {
    Parameter { name, location: "query", kind, description: Cow::Borrowed(description(name)) }
}

pub fn path(name: &'static str, description: impl Into<Cow<'static, str>>) -> Parameter {
    Parameter { name, location: "path", kind: "string", description: description.into() }
}

impl OptionsType<'_> {
    /// Returns the fields that a query can contain: scalars, and lists of scalars by repetition.
    pub fn parameters(&self, types: &Types) -> Vec<Parameter> {
        let Some(id) = types.by_key(self.0) else { return Vec::new() };
        let slots = types[id]
            .slots
            .iter()
            .filter(|slot| !matches!(slot.name, "apiVersion" | "kind") && !self.1.contains(&slot.name));
        slots.filter_map(|slot| Some(query(slot.name, scalar(slot.kind)?))).collect()
    }
}

fn scalar(kind: TypeRef) -> Option<&'static str> {
    match kind {
        TypeRef::String | TypeRef::Named(_) => Some("string"),
        TypeRef::Bool => Some("boolean"),
        TypeRef::Int32 | TypeRef::Int64 => Some("integer"),
        TypeRef::List(list) => scalar(list.element),
        _ => None,
    }
}

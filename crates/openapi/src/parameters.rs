//! What may stand in a request's path and query.

use std::borrow::Cow;

use atoll_schema::{TypeRef, Types};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameter {
    pub name: &'static str,
    /// `path` or `query`.
    pub place: &'static str,
    /// `string`, `boolean` or `integer`.
    pub kind: &'static str,
    pub description: Cow<'static, str>,
}

/// Queries of which only some fields make sense, as (type of the options, fields that do not).
pub const LIST: Options = Options("meta/v1.ListOptions", &[]);
pub const DELETE: Options = Options("meta/v1.DeleteOptions", &[]);
pub const DELETE_COLLECTION: Options = Options("meta/v1.ListOptions", &["watch", "allowWatchBookmarks"]);
pub const CREATE: Options = Options("meta/v1.CreateOptions", &[]);
pub const UPDATE: Options = Options("meta/v1.UpdateOptions", &[]);
pub const PATCH: Options = Options("meta/v1.PatchOptions", &[]);

/// The options of a verb: the key of their type, and what of it the verb leaves out.
#[derive(Clone, Copy, Debug)]
pub struct Options<'a>(pub &'a str, pub &'static [&'static str]);

/// What the parameters mean, by name; those of pods' streams are named for what they do.
const MEANINGS: &[(&str, &str)] = &[
    ("allowWatchBookmarks", "Whether a watch may receive bookmarks, which tell how far it has got."),
    ("command", "The command to run, one parameter for each of its words; no shell is involved."),
    ("container", "The container meant, needed where the pod has more than one."),
    ("continue", "Where the next page of a list begins, as the page before said."),
    ("dryRun", "With \"All\", everything is done but for keeping the result."),
    (
        "fieldManager",
        "Under which name the fields that this request sets are owned; at most 128 printable characters.",
    ),
    (
        "fieldValidation",
        "What becomes of unknown and duplicate fields: \"Ignore\" drops them, \"Warn\" drops them with a warning, \"Strict\" refuses the request.",
    ),
    ("fieldSelector", "Only objects whose fields have these values, as in metadata.name=a."),
    ("follow", "Whether to go on with new lines as they are written."),
    ("force", "Whether an apply request takes over fields that others own."),
    ("gracePeriodSeconds", "How long the object may take to end, in seconds; 0 deletes it at once."),
    (
        "ignoreStoreReadErrorWithClusterBreakingPotential",
        "Whether to delete even what can no longer be read, without regard to finalizers.",
    ),
    ("insecureSkipTLSVerifyBackend", "Whether to read the log without checking who serves it."),
    ("labelSelector", "Only objects whose labels match, as in app=web,tier!=cache."),
    ("limit", "How many objects a page may hold."),
    ("limitBytes", "After how many bytes to stop."),
    ("orphanDependents", "Whether objects that belong to this one stay; propagationPolicy says it better."),
    ("path", "The path of the request that is passed on."),
    ("ports", "The ports to forward."),
    ("pretty", "With \"true\", the answer is indented."),
    ("previous", "Whether to show the log of the container's last run."),
    (
        "propagationPolicy",
        "What becomes of objects that belong to this one: \"Orphan\" leaves them, \"Background\" deletes them afterwards, \"Foreground\" before.",
    ),
    ("resourceVersion", "The version that the answer must reach, or that a watch begins after."),
    (
        "resourceVersionMatch",
        "Whether resourceVersion is meant exactly (\"Exact\") or at least (\"NotOlderThan\").",
    ),
    ("sendInitialEvents", "Whether a watch begins with what there is, ended by a bookmark."),
    ("shardSelector", "Only objects whose hash lies within a range."),
    ("sinceSeconds", "How old lines may be, in seconds."),
    ("stderr", "Whether to pass on the standard error."),
    ("stdin", "Whether to pass on the standard input."),
    ("stdout", "Whether to pass on the standard output."),
    ("stream", "Which output to show: \"All\", \"Stdout\" or \"Stderr\"."),
    ("tailLines", "How many lines to show, counted from the end."),
    ("timeoutSeconds", "After how many seconds a list or a watch ends."),
    ("timestamps", "Whether each line begins with its time."),
    ("tty", "Whether the command has a terminal."),
    ("watch", "Whether to go on with changes as they happen."),
];

fn meaning(name: &str) -> &'static str {
    MEANINGS.iter().find(|(known, _)| *known == name).map_or("", |(_, meaning)| meaning)
}

pub fn query(name: &'static str, kind: &'static str) -> Parameter {
    Parameter { name, place: "query", kind, description: Cow::Borrowed(meaning(name)) }
}

pub fn path(name: &'static str, description: impl Into<Cow<'static, str>>) -> Parameter {
    Parameter { name, place: "path", kind: "string", description: description.into() }
}

impl Options<'_> {
    /// The fields of the options that a query can carry: scalars, and lists of them by repetition.
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

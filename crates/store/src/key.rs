//! Where an object lives: `group/resource/workspace/namespace/name`.
//!
//! The workspace follows the resource, so that one prefix lists a resource in a workspace and a shorter
//! one lists it across all of them. The namespace is empty for what is cluster-scoped. Segments never
//! contain a slash, and byte order of keys is the order in which Kubernetes lists objects.

use std::borrow::Borrow;
use std::fmt;
use std::ops::{Bound, Deref};
use std::sync::Arc;

/// Name of the core group in keys, where the API has an empty string.
pub const CORE: &str = "core";

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(Arc<str>);

/// The segments of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parts<'a> {
    /// `core` for the core group.
    pub group: &'a str,
    pub resource: &'a str,
    pub workspace: &'a str,
    /// Empty for what is cluster-scoped.
    pub namespace: &'a str,
    pub name: &'a str,
}

impl Key {
    pub fn object(group: &str, resource: &str, workspace: &str, namespace: &str, name: &str) -> Self {
        let group = if group.is_empty() { CORE } else { group };
        Key([group, resource, workspace, namespace, name].join("/").into())
    }

    /// The segments, or `None` if this is not an object's key.
    pub fn parts(&self) -> Option<Parts<'_>> {
        let mut segments = self.0.splitn(5, '/');
        Some(Parts {
            group: segments.next()?,
            resource: segments.next()?,
            workspace: segments.next()?,
            namespace: segments.next()?,
            name: segments.next()?,
        })
    }
}

/// `group/resource/`, and further down as far as workspace and namespace are given.
pub fn prefix(group: &str, resource: &str, workspace: Option<&str>, namespace: Option<&str>) -> String {
    let group = if group.is_empty() { CORE } else { group };
    let mut prefix = format!("{group}/{resource}/");
    for segment in [workspace, namespace].into_iter().map_while(|segment| segment) {
        prefix.push_str(segment);
        prefix.push('/');
    }
    prefix
}

/// The bound just behind the last key that begins with `prefix`.
pub fn after_prefix(prefix: &str) -> Bound<Key> {
    // Prefixes end in ASCII (a slash, in practice), whose successor is one character too.
    match prefix.as_bytes().last() {
        Some(last) if last.is_ascii() && *last < 0x7f => {
            let mut end = prefix[..prefix.len() - 1].to_string();
            end.push((last + 1) as char);
            Bound::Excluded(Key::from(end.as_str()))
        }
        _ => Bound::Unbounded,
    }
}

impl From<&str> for Key {
    fn from(text: &str) -> Self {
        Key(text.into())
    }
}

impl From<String> for Key {
    fn from(text: String) -> Self {
        Key(text.into())
    }
}

impl Deref for Key {
    type Target = str;
    fn deref(&self) -> &str {
        &self.0
    }
}

impl Borrow<str> for Key {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

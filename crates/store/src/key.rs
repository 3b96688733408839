//! The key of an object: `group/resource/workspace/namespace/name`.
//!
//! The workspace comes after the resource, so that one prefix lists a resource in a workspace and a shorter
//! one lists it across all workspaces. The namespace is empty for cluster-scoped objects. Segments never
//! contain a slash, and the byte order of keys is the order in which Kubernetes lists objects.
//!
//! The group of a custom object has a prefix that no API group can have (`~example.com`). A custom resource
//! can therefore never alias a built-in one, whatever its definition says: code that compares a segment with
//! the group of a built-in kind does not match custom objects.

use std::borrow::Borrow;
use std::fmt;
use std::ops::{Bound, Deref};
use std::sync::Arc;

/// Name of the core group in keys, where the API has an empty string.
pub const CORE: &str = "core";

/// Prefix of the group of custom objects in keys. API groups are DNS subdomains, which cannot contain it.
pub const CUSTOM: char = '~';

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(Arc<str>);

/// The segments of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parts<'a> {
    /// `core` for the core group; with [`CUSTOM`] in front for custom objects. Compare it with the group of a
    /// built-in kind; use [`Parts::api_group`] in API requests and responses.
    pub group: &'a str,
    pub resource: &'a str,
    pub workspace: &'a str,
    /// Empty for cluster-scoped objects.
    pub namespace: &'a str,
    pub name: &'a str,
}

impl Key {
    pub fn object(group: &str, resource: &str, workspace: &str, namespace: &str, name: &str) -> Self {
        let group = if group.is_empty() { CORE } else { group };
        Key([group, resource, workspace, namespace, name].join("/").into())
    }

    /// The key of an object whose kind a CustomResourceDefinition defines.
    pub fn custom(group: &str, resource: &str, workspace: &str, namespace: &str, name: &str) -> Self {
        Key::object(&custom_group(group), resource, workspace, namespace, name)
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

impl<'a> Parts<'a> {
    /// The group as the API names it: empty for the core group.
    pub fn api_group(&self) -> &'a str {
        match self.group {
            CORE => "",
            group => group.strip_prefix(CUSTOM).unwrap_or(group),
        }
    }

    /// Whether the kind is defined by a CustomResourceDefinition.
    pub fn is_custom(&self) -> bool {
        self.group.starts_with(CUSTOM)
    }
}

/// The group segment of custom objects of an API group.
pub fn custom_group(group: &str) -> String {
    format!("{CUSTOM}{group}")
}

/// The prefix `group/resource/`, extended by the workspace and namespace that are given.
pub fn prefix(group: &str, resource: &str, workspace: Option<&str>, namespace: Option<&str>) -> String {
    let group = if group.is_empty() { CORE } else { group };
    let further = [workspace, namespace].into_iter().map_while(|segment| segment);
    let segments = [group, resource].into_iter().chain(further);
    let mut prefix = String::with_capacity(segments.clone().map(|segment| segment.len() + 1).sum());
    for segment in segments {
        prefix.push_str(segment);
        prefix.push('/');
    }
    prefix
}

/// The bound just after the last key that begins with `prefix`.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn custom_objects_never_alias_built_in_ones() {
        let built_in = Key::object("atoll.dev", "workspaces", "w", "", "a");
        let custom = Key::custom("atoll.dev", "workspaces", "w", "", "a");
        assert_eq!(&*custom, "~atoll.dev/workspaces/w//a");
        assert_ne!(custom, built_in);
        let (custom, built_in) = (custom.parts().unwrap(), built_in.parts().unwrap());
        assert_ne!(custom.group, built_in.group);
        assert_eq!((custom.api_group(), built_in.api_group()), ("atoll.dev", "atoll.dev"));
        assert_eq!((custom.is_custom(), built_in.is_custom()), (true, false));
        let core = Key::object("", "pods", "w", "n", "a");
        assert_eq!((core.parts().unwrap().group, core.parts().unwrap().api_group()), (CORE, ""));
    }
}

//! Mapping of namespaces above to namespaces in a cluster.

use atoll_meta::{names, object};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::marks;

/// Longest name of a namespace.
const LENGTH: usize = 63;
/// Prefix that Kubernetes reserves for its own namespaces.
const RESERVED: &str = "kube-";
/// Prefix for such names below.
const PREFIX: &str = "of-";

/// A namespace above, as recorded in the annotation of the namespace below.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Locator {
    pub control_plane: String,
    /// Workspace id.
    pub workspace: String,
    pub namespace: String,
}

impl Locator {
    /// Reads the locator of a namespace below: none, an invalid one, or a namespace above.
    pub fn of(namespace: &Value) -> Option<Result<Locator, String>> {
        let text = namespace["metadata"]["annotations"].get(marks::NAMESPACE)?;
        Some(Locator::parse(text.as_str().unwrap_or_default()))
    }

    /// # Errors
    ///
    /// The text is not a valid locator.
    pub fn parse(text: &str) -> Result<Locator, String> {
        let locator: Locator = serde_json::from_str(text)
            .map_err(|error| format!("annotation {} cannot be read: {error}", marks::NAMESPACE))?;
        if [&locator.control_plane, &locator.workspace, &locator.namespace].iter().any(|part| part.is_empty())
        {
            return Err(format!("annotation {} names no namespace", marks::NAMESPACE));
        }
        Ok(locator)
    }

    /// Returns the value of the annotation.
    pub fn text(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Returns the name below, see [`below`].
    pub fn below(&self, is_registered_there: bool) -> String {
        below(&self.control_plane, &self.workspace, &self.namespace, is_registered_there)
    }
}

/// Returns the name in a cluster of a namespace above. Namespaces of the registering workspace keep their
/// names, so that URLs and policies that mention them keep working. Those of other workspaces get a unique
/// name, because they may not use existing namespaces such as `default`. Names reserved by Kubernetes and
/// Atoll are never used.
pub fn below(control_plane: &str, workspace: &str, namespace: &str, is_registered_there: bool) -> String {
    let is_reserved = namespace.starts_with(RESERVED) || namespace == marks::SYSTEM_NAMESPACE;
    if is_registered_there && !is_reserved {
        return namespace.to_owned();
    }
    let hash = base32(hash(&[control_plane, workspace, namespace]));
    // `kube` with a hash has the reserved prefix too.
    let prefix = if is_reserved || format!("{namespace}-").starts_with(RESERVED) { PREFIX } else { "" };
    let room = LENGTH - 1 - hash.len() - prefix.len();
    // Names are ASCII; if not, cut at a character boundary.
    let cut = (0..=room.min(namespace.len())).rev().find(|end| namespace.is_char_boundary(*end)).unwrap_or(0);
    format!("{prefix}{}-{hash}", namespace[..cut].trim_end_matches('-'))
}

/// Whether a control plane may prescribe a name for a namespace below: a valid one that neither Kubernetes nor
/// Atoll reserves.
pub fn is_prescribable(name: &str) -> bool {
    let is_reserved = name.starts_with(RESERVED) || name == marks::SYSTEM_NAMESPACE || name == "default";
    names::dns1123_label(name).is_empty() && !is_reserved
}

/// Whether an administrator of the cluster lets a workspace use an existing namespace: the namespace has the
/// label `atoll.dev/workspace` with the workspace id.
pub fn is_consented(namespace: &Value, workspace: &str) -> bool {
    object::label(namespace, marks::WORKSPACE) == Some(workspace)
}

/// 64-bit FNV-1a, with a separator byte that cannot occur in text after each part.
///
/// The hash is part of names that live as long as the namespaces, so it must never change. It distinguishes
/// namespaces of users who share a cluster, but does not have to resist collisions on purpose: a namespace
/// below is used only after its locator was verified.
pub(crate) fn hash(parts: &[&str]) -> u64 {
    const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0000_0100_0000_01b3;
    let bytes = parts.iter().flat_map(|part| part.bytes().chain([0xff]));
    bytes.fold(OFFSET, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(PRIME))
}

/// Encodes a number as thirteen letters and digits without ambiguous ones.
pub(crate) fn base32(number: u64) -> String {
    const DIGITS: &[u8; 32] = b"abcdefghijkmnpqrstuvwxyz23456789";
    (0..13).rev().map(|place| char::from(DIGITS[(number >> (place * 5) & 31) as usize])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reserved_names_cannot_be_prescribed() {
        for (name, expected) in [
            ("shop", true),
            ("kube-shop", false),
            ("default", false),
            ("atoll-system", false),
            ("a/b", false),
        ] {
            assert_eq!(is_prescribable(name), expected, "{name}");
        }
    }

    #[test]
    fn names_are_kept_or_unique() {
        let long = "a".repeat(63);
        let broken = format!("{}-{}", "a".repeat(48), "b".repeat(14));
        let kube = format!("kube-{}", "a".repeat(58));
        let cases = [
            ("c", "w", "shop", true, "shop".to_owned()),
            ("c", "w", "shop", false, "shop-HASH".to_owned()),
            ("c", "w", "default", true, "default".to_owned()),
            ("c", "w", "kube-system", true, "of-kube-system-HASH".to_owned()),
            ("c", "w", "kube-system", false, "of-kube-system-HASH".to_owned()),
            ("c", "w", "atoll-system", true, "of-atoll-system-HASH".to_owned()),
            ("c", "w", "kube", true, "kube".to_owned()),
            ("c", "w", "kube", false, "of-kube-HASH".to_owned()),
            ("c", "w", "kubeless", true, "kubeless".to_owned()),
            ("c", "w", &long, true, long.clone()),
            ("c", "w", &long, false, format!("{}-HASH", "a".repeat(49))),
            ("c", "w", &broken, false, format!("{}-HASH", "a".repeat(48))),
            ("c", "w", &kube, false, format!("of-kube-{}-HASH", "a".repeat(41))),
        ];
        for (control_plane, workspace, namespace, is_registered, expected) in cases {
            let name = below(control_plane, workspace, namespace, is_registered);
            let expected = expected.replace("HASH", &base32(hash(&[control_plane, workspace, namespace])));
            assert_eq!(name, expected);
            assert_eq!(names::dns1123_label(&name), Vec::<String>::new(), "{name}");
            assert!(!name.starts_with("kube-"));
        }
        // This must never change, because existing namespaces have such names.
        assert_eq!(below("plane", "workspace", "shop", false), "shop-gnrkuqasa55j3");
    }

    #[test]
    fn hash_depends_on_every_part() {
        let names = [
            below("c", "w", "n", false),
            below("d", "w", "n", false),
            below("c", "x", "n", false),
            below("c", "w", "m", false),
            below("cw", "", "n", false),
            below("", "cw", "n", false),
            below("c", "wn", "n", false),
        ];
        let unique: std::collections::BTreeSet<_> = names.iter().collect();
        assert_eq!(unique.len(), names.len(), "{names:?}");
    }

    #[test]
    fn locators_round_trip() {
        let locator = Locator { control_plane: "c".into(), workspace: "w".into(), namespace: "n".into() };
        let text = r#"{"controlPlane":"c","workspace":"w","namespace":"n"}"#;
        assert_eq!(locator.text(), text);
        let of = |text: Value| {
            Locator::of(
                &serde_json::json!({ "metadata": { "annotations": { "atoll.dev/namespace": text } } }),
            )
        };
        assert_eq!(of(text.into()), Some(Ok(locator.clone())));
        assert_eq!(locator.below(true), "n");
        assert_eq!(Locator::of(&serde_json::json!({})), None);
        for broken in ["", "{}", "[]", r#"{"controlPlane":"c","workspace":"w","namespace":""}"#] {
            assert!(of(broken.into()).is_some_and(|read| read.is_err()), "{broken}");
        }
        assert!(of(7.into()).is_some_and(|read| read.is_err()));
    }
}

//! Which namespace of a cluster stands for which one above.

use atoll_meta::object;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::marks;

/// How long names of namespaces may be.
const LENGTH: usize = 63;
/// Names that Kubernetes keeps for itself begin so.
const RESERVED: &str = "kube-";
/// What stands before such a name below.
const PREFIX: &str = "of-";

/// A namespace above, as the one below that stands for it says in its annotation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Locator {
    pub control_plane: String,
    /// Id of the workspace.
    pub workspace: String,
    pub namespace: String,
}

impl Locator {
    /// What a namespace below says it stands for: nothing, something that cannot be read, or a namespace above.
    pub fn of(namespace: &Value) -> Option<Result<Locator, String>> {
        let text = namespace["metadata"]["annotations"].get(marks::NAMESPACE)?;
        Some(Locator::parse(text.as_str().unwrap_or_default()))
    }

    /// # Errors
    ///
    /// What is wrong with the text.
    pub fn parse(text: &str) -> Result<Locator, String> {
        let locator: Locator = serde_json::from_str(text)
            .map_err(|error| format!("annotation {} cannot be read: {error}", marks::NAMESPACE))?;
        if [&locator.control_plane, &locator.workspace, &locator.namespace].iter().any(|part| part.is_empty())
        {
            return Err(format!("annotation {} names no namespace", marks::NAMESPACE));
        }
        Ok(locator)
    }

    /// As it stands in the annotation.
    pub fn text(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// The name below, see [`below`].
    pub fn below(&self, is_registered_there: bool) -> String {
        below(&self.control_plane, &self.workspace, &self.namespace, is_registered_there)
    }
}

/// The name in a cluster of a namespace above. Namespaces of the workspace in which the Cluster is registered keep their
/// names, so that URLs and policies that mention them go on to work. Those of every other workspace get a name that
/// nobody else has: a namespace that exists in the cluster, such as `default`, is not theirs to use. What Kubernetes and
/// Atoll keep for themselves is never given away.
pub fn below(control_plane: &str, workspace: &str, namespace: &str, is_registered_there: bool) -> String {
    let is_reserved = namespace.starts_with(RESERVED) || namespace == marks::SYSTEM_NAMESPACE;
    if is_registered_there && !is_reserved {
        return namespace.to_owned();
    }
    let hash = base32(hash(&[control_plane, workspace, namespace]));
    // With a hash behind it, `kube` begins so too.
    let prefix = if is_reserved || format!("{namespace}-").starts_with(RESERVED) { PREFIX } else { "" };
    let room = LENGTH - 1 - hash.len() - prefix.len();
    // Names are ASCII; should one not be, it is cut before the character that does not fit.
    let cut = (0..=room.min(namespace.len())).rev().find(|end| namespace.is_char_boundary(*end)).unwrap_or(0);
    format!("{prefix}{}-{hash}", namespace[..cut].trim_end_matches('-'))
}

/// Whether an administrator of the cluster lets a workspace use a namespace that exists there: the namespace carries the label
/// `atoll.dev/workspace` with the id of the workspace.
pub fn is_consented(namespace: &Value, workspace: &str) -> bool {
    object::label(namespace, marks::WORKSPACE) == Some(workspace)
}

/// FNV-1a of 64 bits, with a byte that no text has after each part.
///
/// The hash is in names that stay for as long as the namespaces do, so it must never change: not with a compiler, not with a
/// dependency. It tells apart namespaces of people who share a cluster and need not withstand one who looks for
/// collisions: a namespace below is used only after its locator was found to be right.
fn hash(parts: &[&str]) -> u64 {
    const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0000_0100_0000_01b3;
    let bytes = parts.iter().flat_map(|part| part.bytes().chain([0xff]));
    bytes.fold(OFFSET, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(PRIME))
}

/// Thirteen letters and digits, without any that are taken for others.
fn base32(number: u64) -> String {
    const DIGITS: &[u8; 32] = b"abcdefghijkmnpqrstuvwxyz23456789";
    (0..13).rev().map(|place| char::from(DIGITS[(number >> (place * 5) & 31) as usize])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use atoll_meta::names;

    #[test]
    fn names_are_the_same_or_nobody_elses() {
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
        // This may never change: there are namespaces of such names.
        assert_eq!(below("plane", "workspace", "shop", false), "shop-gnrkuqasa55j3");
    }

    #[test]
    fn every_part_matters() {
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
    fn locators_are_read_as_they_were_written() {
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

//! Versions of Kubernetes that can be worked with.

use crate::advice::Failure;

/// The oldest minor version whose clusters understand all that a syncer says.
const OLDEST: u32 = 22;
/// The newest one that is known.
const NEWEST: u32 = 36;

/// What follows the 1 in `v1.36.4-something`.
fn minor(version: &str) -> Option<u32> {
    let rest = version.strip_prefix("v1.")?;
    let end = rest.find(|character: char| !character.is_ascii_digit()).unwrap_or(rest.len());
    rest[..end].parse().ok()
}

pub fn check(version: &str) -> Result<(), Failure> {
    match minor(version) {
        Some(minor) if minor >= OLDEST => Ok(()),
        Some(_) => Err(Failure::new(
            format!("the cluster runs Kubernetes {version}, which is too old"),
            format!("bring it to v1.{OLDEST} or newer first"),
        )),
        None => Err(Failure::new(
            format!("what is there says that it is version {version:?}, which no Kubernetes is"),
            "name the kubeconfig of a cluster with --kubeconfig",
        )),
    }
}

/// What is worth knowing of a version that can be worked with.
pub fn note(version: &str) -> Option<String> {
    let is_newer = minor(version).is_some_and(|minor| minor > NEWEST);
    is_newer.then(|| format!("{version} is newer than v1.{NEWEST}: what is new in it cannot be placed"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_clusters_and_other_things_are_refused() {
        for (version, is_fine, is_noted) in [
            ("v1.36.4", true, false),
            ("v1.37.0-alpha.1", true, true),
            ("v1.29.3-gke.1", true, false),
            ("v1.22.0", true, false),
            ("v1.21.14", false, false),
            ("v2.0.0", false, false),
            ("", false, false),
        ] {
            assert_eq!(check(version).is_ok(), is_fine, "{version}");
            assert_eq!(note(version).is_some(), is_noted, "{version}");
        }
    }
}

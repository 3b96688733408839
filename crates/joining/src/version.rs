//! Supported versions of Kubernetes.

use crate::Failure;

/// The oldest minor version that supports everything a syncer uses.
const OLDEST: u32 = 22;
/// The newest minor version that Atoll was built for.
const NEWEST: u32 = 36;

/// The minor version: 36 in `v1.36.4-something`.
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
            format!("upgrade it to v1.{OLDEST} or newer first"),
        )),
        None => Err(Failure::new(
            format!("the server reports version {version:?}, which is not a version of Kubernetes"),
            "name the kubeconfig of a cluster with --kubeconfig",
        )),
    }
}

/// A note about a supported version that is newer than Atoll.
pub fn note(version: &str) -> Option<String> {
    let is_newer = minor(version).is_some_and(|minor| minor > NEWEST);
    is_newer.then(|| format!("{version} is newer than v1.{NEWEST}: its new resources cannot be placed"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_and_unknown_versions_are_refused() {
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

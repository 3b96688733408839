//! Checks for banned packages and for other sources than crates.io. `deny.toml` has more rules; these need no
//! extra tool.

use super::Finding;

/// Package names, each with the reason.
const BANNED: [(&str, &str); 5] = [
    ("ring", "cryptography is aws-lc-rs, once"),
    ("openssl", "the build needs only Rust and a C compiler"),
    ("openssl-sys", "the build needs only Rust and a C compiler"),
    ("native-tls", "TLS is rustls, everywhere"),
    ("protoc-bin-vendored", "the build needs only Rust and a C compiler"),
];

const REGISTRY: &str = "registry+https://github.com/rust-lang/crates.io-index";

/// Checks Cargo.lock. `is_built` returns whether a package in it is part of a build.
pub fn check(lock: &str, is_built: impl Fn(&str) -> Result<bool, String>) -> Result<Vec<Finding>, String> {
    let mut findings = Vec::new();
    for package in lock.split("[[package]]").skip(1) {
        let field = |name: &str| {
            let value = package.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(" = "));
            value.map(|value| value.trim_matches('"')).unwrap_or_default()
        };
        let name = field("name");
        if let Some((_, reason)) = BANNED.iter().find(|(banned, _)| *banned == name)
            && is_built(name)?
        {
            let message = format!(
                "{name} must not be used: {reason}; find the dependency with \"cargo tree -i {name}\""
            );
            findings.push(Finding::error("Cargo.lock", message));
        }
        let source = field("source");
        if !source.is_empty() && source != REGISTRY {
            findings.push(Finding::error(
                "Cargo.lock",
                format!("{name} comes from {source} instead of crates.io"),
            ));
        }
    }
    Ok(findings)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(name: &str, source: &str) -> String {
        let source = if source.is_empty() { String::new() } else { format!("source = \"{source}\"\n") };
        format!("[[package]]\nname = \"{name}\"\nversion = \"1.0.0\"\n{source}\n")
    }

    #[test]
    fn banned_packages_fail_if_they_are_built() {
        for (name, _) in BANNED {
            let lock = package("atoll", "") + &package(name, REGISTRY);
            let findings = check(&lock, |_| Ok(true)).expect("readable");
            assert_eq!(findings.len(), 1, "{name}");
            assert!(findings[0].message.contains(&format!("cargo tree -i {name}")), "{}", findings[0]);
            assert_eq!(check(&lock, |_| Ok(false)), Ok(vec![]));
        }
        assert_eq!(check(&package("ring-buffer", REGISTRY), |_| Ok(true)), Ok(vec![]));
    }

    #[test]
    fn dependencies_come_from_the_registry() {
        let findings =
            check(&package("serde", "git+https://example.org/serde"), |_| Ok(true)).expect("readable");
        assert_eq!(
            findings[0].message,
            "serde comes from git+https://example.org/serde instead of crates.io"
        );
    }
}

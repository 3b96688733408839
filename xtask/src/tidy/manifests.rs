//! Checks that every crate uses the workspace's lints and begins with a header comment.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::Finding;

/// Checks each package's manifest and the first lines of its library and binaries.
pub fn check(metadata: &Value, read: impl Fn(&Path) -> Option<String>) -> Vec<Finding> {
    let root = PathBuf::from(metadata["workspace_root"].as_str().unwrap_or_default());
    let mut findings = Vec::new();
    for package in metadata["packages"].as_array().into_iter().flatten() {
        let manifest = PathBuf::from(package["manifest_path"].as_str().unwrap_or_default());
        let shown = |path: &Path| path.strip_prefix(&root).unwrap_or(path).display().to_string();
        if !read(&manifest).is_some_and(|text| has_workspace_lints(&text)) {
            findings.push(Finding::error(shown(&manifest), "add \"[lints]\" with \"workspace = true\""));
        }
        for file in entry_points(package) {
            if !read(&file).is_some_and(|text| has_header(&text)) {
                findings.push(Finding::error(
                    shown(&file),
                    "add a \"//!\" comment in the first line that describes the crate",
                ));
            }
        }
    }
    findings
}

/// Returns the library and the binaries of a package.
fn entry_points(package: &Value) -> Vec<PathBuf> {
    let targets = package["targets"].as_array().into_iter().flatten();
    let entry = |target: &&Value| {
        let kinds = target["kind"].as_array().into_iter().flatten();
        kinds.filter_map(Value::as_str).any(|kind| kind == "lib" || kind == "bin" || kind == "proc-macro")
    };
    targets.filter(entry).filter_map(|target| target["src_path"].as_str()).map(PathBuf::from).collect()
}

fn has_workspace_lints(manifest: &str) -> bool {
    let mut lines = manifest.lines().map(str::trim).skip_while(|line| *line != "[lints]").skip(1);
    lines.by_ref().take_while(|line| !line.starts_with('[')).any(|line| line == "workspace = true")
}

fn has_header(text: &str) -> bool {
    text.strip_prefix("//!")
        .is_some_and(|rest| rest.lines().next().is_some_and(|line| !line.trim().is_empty()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn messages(manifest: &str, library: &str) -> Vec<String> {
        let metadata = json!({ "workspace_root": "/r", "packages": [{
            "manifest_path": "/r/crates/a/Cargo.toml",
            "targets": [
                { "kind": ["lib"], "src_path": "/r/crates/a/src/lib.rs" },
                { "kind": ["test"], "src_path": "/r/crates/a/tests/b.rs" },
            ],
        }] });
        let findings = check(&metadata, |path| match path.file_name()?.to_str()? {
            "Cargo.toml" => Some(manifest.to_owned()),
            "lib.rs" => Some(library.to_owned()),
            _ => None,
        });
        findings.iter().map(|finding| finding.location.clone()).collect()
    }

    const MANIFEST: &str = "[package]\nname = \"a\"\n\n[lints]\nworkspace = true\n";

    #[test]
    fn a_crate_with_lints_and_a_header_passes() {
        assert!(messages(MANIFEST, "//! A description.\n").is_empty());
    }

    #[test]
    fn a_crate_without_the_lints_fails() {
        for manifest in
            ["[package]\n", "[lints]\n\n[x]\nworkspace = true\n", "[lints.rust]\nworkspace = true\n"]
        {
            assert_eq!(messages(manifest, "//! A description.\n"), ["crates/a/Cargo.toml"], "{manifest}");
        }
    }

    #[test]
    fn a_crate_without_a_header_fails() {
        for library in ["", "//!\n//! Later.\n", "use std::fmt;\n", "// Not it.\n"] {
            assert_eq!(messages(MANIFEST, library), ["crates/a/src/lib.rs"], "{library}");
        }
    }
}

//! Citations of upstream files: `cargo xtask upstream-diff` reads nothing but paths.

use super::Finding;
use crate::upstream_diff::{MARK, TOP_LEVEL};

/// Checks the lines of a Rust file that cite upstream files.
pub fn check(path: &str, text: &str) -> Vec<Finding> {
    if !path.ends_with(".rs") {
        return Vec::new();
    }
    let mut findings = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let Some(cited) = line.strip_prefix(MARK) else { continue };
        for file in cited.split(", ").filter(|file| !is_path(file)) {
            let message = format!("\"{file}\" is no path of Kubernetes or of a Go module that it requires");
            findings.push(Finding::error(format!("{path}:{}", number + 1), message));
        }
    }
    findings
}

/// Whether a text is the path of a file in the kubernetes repository, or one that begins with a module.
fn is_path(text: &str) -> bool {
    let is_kubernetes = TOP_LEVEL.iter().any(|directory| text.starts_with(directory));
    let is_module = text.split_once('/').is_some_and(|(host, _)| host.contains('.'));
    let is_file = text.rsplit('/').next().is_some_and(|name| name.contains('.'));
    (is_kubernetes || is_module)
        && is_file
        && !text.contains(|c: char| c.is_whitespace() || "(),;".contains(c))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn citations_are_paths() {
        let fine =
            format!("{MARK}pkg/a.go, staging/src/k8s.io/api/b.proto\n{MARK}github.com/google/cel-go/c.go\n");
        assert_eq!(check("a.rs", &fine), []);
        for wrong in ["pkg/a.go (Resolve)", "a.go", "pkg/apis/core", "Kubernetes", "pkg/a.go; pkg/b.go"] {
            let found = check("a.rs", &format!("// A comment.\n{MARK}{wrong}\n"));
            assert!(found.len() == 1 && found[0].location == "a.rs:2", "{wrong}: {found:?}");
        }
        assert_eq!(check("a.md", &format!("{MARK}Kubernetes")), []);
    }
}

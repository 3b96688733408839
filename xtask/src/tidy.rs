//! Checks rules of the repository that the compiler does not check: dependencies between crates, names and
//! contents of files, forbidden dependencies, names of fields in strings. Takes a few seconds.

mod citations;
mod dependencies;
mod edges;
mod fields;
mod files;
mod generic_verbs;
mod language;
mod manifests;
mod prose;
mod source;
mod tokens;

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// A violation of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The file, with the line number if the finding is about one line.
    pub location: String,
    pub message: String,
    /// Whether the finding is reported without failing the check.
    pub warning: bool,
}

impl Finding {
    fn error(location: impl Into<String>, message: impl Into<String>) -> Self {
        Finding { location: location.into(), message: message.into(), warning: false }
    }

    fn warning(location: impl Into<String>, message: impl Into<String>) -> Self {
        Finding { location: location.into(), message: message.into(), warning: true }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if self.warning { "warning: " } else { "" };
        write!(f, "{kind}{}: {}", self.location, self.message)
    }
}

pub fn run(arguments: &[String]) -> Result<(), String> {
    if let Some(argument) = arguments.first() {
        return Err(format!("tidy takes no arguments, but got \"{argument}\""));
    }
    let root = root();
    let files = tracked(&root)?;
    let metadata = metadata(&root)?;

    let mut findings = edges::check(&metadata, &read(&root, "ARCHITECTURE.md")?);
    // Skips binary files, and files that were deleted but are still tracked.
    let read_text = |file: &String| Some((file.clone(), fs::read_to_string(root.join(file)).ok()?));
    let texts: Vec<(String, String)> = files.iter().filter_map(read_text).collect();
    for (file, text) in &texts {
        findings.extend(files::check(file, text));
        findings.extend(prose::check(file, text));
        findings.extend(citations::check(file, text));
    }
    findings.extend(language::check(&texts));
    findings.extend(generic_verbs::check(&texts));
    findings.extend(fields::check(&texts));
    findings.extend(manifests::check(&metadata, |path| fs::read_to_string(path).ok()));
    findings.extend(dependencies::check(&read(&root, "Cargo.lock")?, |name| is_built(&root, name))?);
    findings.extend(test_command(&read(&root, "README.md")?, &read(&root, ".ci/run")?));
    findings.extend(formatting(&root, &["--all"])?);

    for finding in &findings {
        eprintln!("{finding}");
    }
    match findings.iter().filter(|finding| !finding.warning).count() {
        0 => {
            println!("tidy: checked {} files, no problems", files.len());
            Ok(())
        }
        1 => Err("tidy: 1 problem found".to_owned()),
        count => Err(format!("tidy: {count} problems found")),
    }
}

/// Returns the root directory of the workspace.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().map(Path::to_path_buf).unwrap_or_default()
}

fn read(root: &Path, file: &str) -> Result<String, String> {
    fs::read_to_string(root.join(file)).map_err(|error| format!("cannot read {file}: {error}"))
}

/// Returns all tracked files, and new files that are not ignored, relative to the root.
pub fn tracked(root: &Path) -> Result<Vec<String>, String> {
    // The clone may belong to another user, which git refuses to read by default.
    let listed = output(
        root,
        "git",
        &["-c", "safe.directory=*", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
    )?;
    let mut files: Vec<String> =
        listed.split('\0').filter(|file| !file.is_empty()).map(str::to_owned).collect();
    // A file with a merge conflict is listed once for each side.
    files.dedup();
    Ok(files)
}

/// Returns cargo's metadata for the crates of this workspace, without dependencies.
fn metadata(root: &Path) -> Result<Value, String> {
    let text = output(root, cargo(), &["metadata", "--no-deps", "--format-version", "1", "--locked"])?;
    serde_json::from_str(&text).map_err(|error| format!("cannot parse the output of cargo metadata: {error}"))
}

/// Whether a package in Cargo.lock is part of a build. Cargo.lock also lists the dependencies of a disabled
/// optional dependency if a feature mentions it weakly (`ring?/alloc`).
fn is_built(root: &Path, package: &str) -> Result<bool, String> {
    let tree = ["tree", "--workspace", "--locked", "--edges", "all", "--prefix", "none", "--format", "{p}"];
    let listed = output(root, cargo(), &tree)?;
    Ok(listed.lines().any(|line| line.split(' ').next() == Some(package)))
}

/// Checks that the README names the test command that CI runs first.
fn test_command(readme: &str, script: &str) -> Option<Finding> {
    let command = script.lines().find_map(|line| line.strip_prefix("test_command='")?.strip_suffix('\''));
    match command {
        Some(command) if readme.lines().any(|line| line.trim() == command) => None,
        Some(command) => Some(Finding::error(
            "README.md",
            format!("add a line with \"{command}\", the first command of .ci/run"),
        )),
        None => Some(Finding::error(".ci/run", "the line test_command='…' is missing")),
    }
}

fn formatting(root: &Path, which: &[&str]) -> Result<Option<Finding>, String> {
    let status = Command::new(cargo())
        .args(["fmt", "--check"])
        .args(which)
        .current_dir(root)
        .status()
        .map_err(|error| format!("cannot run cargo fmt: {error}"))?;
    let advice = || Finding::error("format", format!("run \"cargo fmt {}\"", which.join(" ")));
    Ok((!status.success()).then(advice))
}

/// Returns the cargo that started this program, so that a toolchain chosen on the command line is kept.
fn cargo() -> &'static str {
    option_env!("CARGO").unwrap_or("cargo")
}

fn output(root: &Path, program: &str, arguments: &[&str]) -> Result<String, String> {
    let output = Command::new(program)
        .args(arguments)
        .current_dir(root)
        .output()
        .map_err(|error| format!("cannot run {program}: {error}"))?;
    if !output.status.success() {
        let stderr = String::from_utf8_lossy(&output.stderr);
        return Err(format!("{program} {} failed: {}", arguments.join(" "), stderr.trim_end()));
    }
    String::from_utf8(output.stdout).map_err(|_| format!("the output of {program} is not UTF-8"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readme_must_name_the_test_command() {
        let script = "set -u\ntest_command='cargo test --all'\n";
        assert_eq!(test_command("Run:\n\n    cargo test --all\n", script), None);
        let missing = test_command("Run: cargo test\n", script).expect("a finding");
        assert!(missing.message.contains("cargo test --all"), "{missing}");
        assert!(test_command("cargo test --all", "set -u").is_some());
    }

    #[test]
    fn findings_show_their_location() {
        assert_eq!(Finding::error("a.rs:3", "is bad").to_string(), "a.rs:3: is bad");
        assert_eq!(Finding::warning("a.rs", "is long").to_string(), "warning: a.rs: is long");
    }
}

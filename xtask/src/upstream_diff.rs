//! Lists which cited upstream files differ between two Kubernetes versions, and which files of this project cite them.
//!
//! ```text
//!   // upstream: pkg/apis/apps/validation/validation.go                      k8s.io/kubernetes
//!   // upstream: staging/src/k8s.io/apiserver/pkg/endpoints/handlers/get.go  k8s.io/apiserver
//!   // upstream: github.com/google/cel-go/checker/checker.go                 as kubernetes' go.mod requires it
//! ```

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::tidy;

const USAGE: &str = "usage: cargo xtask upstream-diff OLD NEW   (Kubernetes versions, such as 1.36.4 1.37.0)";
pub const MARK: &str = "// upstream: ";
const KUBERNETES: &str = "k8s.io/kubernetes";
const STAGING: &str = "staging/src/";

/// Directories at the top of the kubernetes repository; every other path begins with a module.
pub const TOP_LEVEL: [&str; 6] = ["api/", "cmd/", "pkg/", "plugin/", "staging/", "test/"];

pub fn run(arguments: &[String]) -> Result<(), String> {
    let [old, new] = arguments else { return Err(USAGE.to_owned()) };
    let citations = citations(&tidy::root())?;
    if Command::new("go").arg("version").output().is_err() {
        println!("skipped: Kubernetes' sources are downloaded with Go, which is not installed");
        return Ok(());
    }
    let (mut old, mut new) = (Release::new(old)?, Release::new(new)?);
    let mut changed = 0;
    for (path, files) in &citations {
        let change = match (old.read(path)?, new.read(path)?) {
            (None, _) => "not in the old version",
            (Some(_), None) => "removed",
            (before, after) if before == after => continue,
            _ => "changed",
        };
        changed += 1;
        println!("{path}: {change}");
        for file in files {
            println!("    {file}");
        }
    }
    println!("{changed} of {} cited files differ", citations.len());
    Ok(())
}

/// Cited paths, each with the files that cite it.
fn citations(root: &Path) -> Result<BTreeMap<String, Vec<String>>, String> {
    let mut citations: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for file in tidy::tracked(root)?.into_iter().filter(|file| file.ends_with(".rs")) {
        let text = std::fs::read_to_string(root.join(&file)).unwrap_or_default();
        for path in cited(&text) {
            citations.entry(path.to_owned()).or_default().push(file.clone());
        }
    }
    Ok(citations)
}

/// The paths that a file cites.
fn cited(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter_map(|line| line.strip_prefix(MARK)).flat_map(|paths| paths.split(", ")).map(str::trim)
}

/// The sources of one Kubernetes version, downloaded module by module.
struct Release {
    version: String,
    /// Modules that kubernetes requires, with their versions.
    required: BTreeMap<String, String>,
    directories: BTreeMap<String, PathBuf>,
}

impl Release {
    fn new(version: &str) -> Result<Release, String> {
        let is_version = version.split('.').all(|part| part.parse::<u32>().is_ok());
        if !is_version || version.split('.').count() != 3 || !version.starts_with("1.") {
            return Err(format!("\"{version}\" is not a Kubernetes version\n{USAGE}"));
        }
        let mut release =
            Release { version: version.to_owned(), required: BTreeMap::new(), directories: BTreeMap::new() };
        let manifest = release.directory(KUBERNETES)?.join("go.mod");
        let manifest = std::fs::read_to_string(&manifest)
            .map_err(|error| format!("cannot read {}: {error}", manifest.display()))?;
        release.required = required(&manifest);
        Ok(release)
    }

    /// The content of a cited path, `None` if this version does not have it.
    fn read(&mut self, path: &str) -> Result<Option<String>, String> {
        let Some((module, file)) = self.module(path) else { return Ok(None) };
        Ok(std::fs::read_to_string(self.directory(&module)?.join(file)).ok())
    }

    /// The module of a cited path, and the path within it.
    fn module(&self, path: &str) -> Option<(String, String)> {
        if let Some(staged) = path.strip_prefix(STAGING) {
            let (domain, rest) = staged.split_once('/')?;
            let (name, file) = rest.split_once('/')?;
            return Some((format!("{domain}/{name}"), file.to_owned()));
        }
        if TOP_LEVEL.iter().any(|directory| path.starts_with(directory)) {
            return Some((KUBERNETES.to_owned(), path.to_owned()));
        }
        let within = |module: &String| path.strip_prefix(module.as_str())?.strip_prefix('/');
        let longest =
            self.required.keys().filter(|module| within(module).is_some()).max_by_key(|m| m.len())?;
        Some((longest.clone(), within(longest)?.to_owned()))
    }

    fn directory(&mut self, module: &str) -> Result<PathBuf, String> {
        if let Some(directory) = self.directories.get(module) {
            return Ok(directory.clone());
        }
        let version = match (module, self.required.get(module)) {
            (KUBERNETES, _) => format!("v{}", self.version),
            // Modules of the staging directory have the version 0.x.y of Kubernetes 1.x.y.
            (_, Some(version)) if version != "v0.0.0" => version.clone(),
            _ => format!("v0.{}", self.version.trim_start_matches("1.")),
        };
        let directory = download(&format!("{module}@{version}"))?;
        self.directories.insert(module.to_owned(), directory.clone());
        Ok(directory)
    }
}

/// The modules and versions in a go.mod.
fn required(manifest: &str) -> BTreeMap<String, String> {
    let lines = manifest.lines().map(|line| line.trim().trim_start_matches("require "));
    let pairs = lines.filter_map(|line| line.split_once(" v"));
    pairs
        .filter(|(module, _)| module.contains('.') && !module.contains(' '))
        .map(|(module, version)| {
            let version = version.split(' ').next().unwrap_or_default();
            (module.to_owned(), format!("v{version}"))
        })
        .collect()
}

fn download(module: &str) -> Result<PathBuf, String> {
    let output = Command::new("go").args(["mod", "download", "-json", module]).output();
    let output = output.map_err(|error| format!("cannot run go: {error}"))?;
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    match answer["Dir"].as_str() {
        Some(directory) => Ok(directory.into()),
        None => {
            let error = answer["Error"].as_str().map(str::to_owned);
            let error = error.unwrap_or_else(|| String::from_utf8_lossy(&output.stderr).into_owned());
            Err(format!("cannot download {module}: {}", error.trim()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn citations_are_lines_of_their_own() {
        let text = "//! Doc.\n// upstream: pkg/a.go\n// upstream: pkg/b.go, staging/src/k8s.io/api/c.go\n//   // upstream: no\n";
        assert_eq!(cited(text).collect::<Vec<_>>(), ["pkg/a.go", "pkg/b.go", "staging/src/k8s.io/api/c.go"]);
    }

    #[test]
    fn paths_belong_to_modules() {
        let manifest = "module k8s.io/kubernetes\nrequire (\n\tgithub.com/google/cel-go v0.26.0 // indirect\n\tk8s.io/api v0.0.0\n)\nrequire go.uber.org/zap v1.2.3\n";
        let release = Release {
            version: "1.36.4".to_owned(),
            required: required(manifest),
            directories: BTreeMap::new(),
        };
        assert_eq!(release.required["go.uber.org/zap"], "v1.2.3");
        for (path, module) in [
            ("pkg/a.go", Some((KUBERNETES, "pkg/a.go"))),
            ("staging/src/k8s.io/api/core/v1/types.go", Some(("k8s.io/api", "core/v1/types.go"))),
            (
                "github.com/google/cel-go/checker/checker.go",
                Some(("github.com/google/cel-go", "checker/checker.go")),
            ),
            ("github.com/other/x.go", None),
        ] {
            let found = release.module(path);
            assert_eq!(
                found.as_ref().map(|(module, file)| (module.as_str(), file.as_str())),
                module,
                "{path}"
            );
        }
    }

    #[test]
    fn versions_are_checked() {
        for version in ["v1.36.4", "1.36", "one", "2.0.0", ""] {
            assert!(Release::new(version).is_err(), "{version}");
        }
    }
}

//! Writes the facts about Kubernetes' built-in types and resources to `crates/schema/data`, from the Go
//! modules in `upstream/facts/go.mod`, and the objects of an empty cluster to `crates/registry/data`, from a
//! real kube-apiserver. The output is reproducible: the same modules give the same files.

mod bootstrap;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Modules that are released together with Kubernetes.
const MODULES: [&str; 4] =
    ["k8s.io/api", "k8s.io/apimachinery", "k8s.io/apiextensions-apiserver", "k8s.io/kube-aggregator"];

/// Output files and the modes of `upstream/facts` that print them.
const FILES: [(&str, &str); 2] = [("types.txt", "types"), ("resources.txt", "resources")];

pub fn run(arguments: &[String]) -> Result<(), String> {
    let options = CodegenOptions::parse(arguments)?;
    let root = root();
    let facts = root.join("upstream").join("facts");
    if Command::new("go").arg("version").stdout(Stdio::null()).status().is_err() {
        return Err(
            "codegen reads Kubernetes' Go sources and needs Go: install it from https://go.dev/dl and make \
                    sure that \"go\" is in your PATH"
                .to_owned(),
        );
    }
    if let Some(version) = &options.version {
        require(&facts, version)?;
    }
    let program = target(&root).join("facts");
    let output = program.to_str().ok_or("the path of the target directory is not UTF-8")?;
    go(&facts, &["build", "-o", output, "."])?;
    for (file, mode) in FILES {
        let printed = Command::new(&program)
            .arg(mode)
            .current_dir(&facts)
            .stderr(Stdio::inherit())
            .output()
            .map_err(|error| format!("cannot run {}: {error}", program.display()))?;
        if !printed.status.success() {
            return Err(format!("upstream/facts failed to print the {mode}"));
        }
        write(&root.join("crates/schema/data").join(file), &printed.stdout, options.check)?;
    }
    write(&root.join("crates/registry/data/bootstrap.txt"), &bootstrap::print(&root)?, options.check)
}

/// Writes a changed file. With `check`, a changed file is an error instead.
fn write(path: &Path, text: &[u8], check: bool) -> Result<(), String> {
    let same = fs::read(path).is_ok_and(|before| before == text);
    if check && !same {
        return Err(format!("{} is out of date: run \"cargo xtask codegen\"", path.display()));
    }
    if !same {
        fs::write(path, text).map_err(|error| format!("cannot write {}: {error}", path.display()))?;
    }
    println!("{}: {}", path.display(), if same { "up to date" } else { "written" });
    Ok(())
}

#[derive(Debug, Default, PartialEq, Eq)]
struct CodegenOptions {
    /// Module version, such as `0.36.4` for Kubernetes 1.36.4.
    version: Option<String>,
    check: bool,
}

impl CodegenOptions {
    fn parse(arguments: &[String]) -> Result<CodegenOptions, String> {
        let mut options = CodegenOptions::default();
        let mut arguments = arguments.iter();
        while let Some(argument) = arguments.next() {
            match argument.as_str() {
                "--check" => options.check = true,
                "--version" => {
                    let version =
                        arguments.next().ok_or("--version needs a Kubernetes version, such as 1.36.4")?;
                    options.version = Some(module_version(version)?);
                }
                other => return Err(format!("unknown option \"{other}\" of codegen")),
            }
        }
        Ok(options)
    }
}

/// Returns the module version of a Kubernetes version: 0.36.4 for 1.36.4.
fn module_version(kubernetes: &str) -> Result<String, String> {
    let plain = kubernetes.strip_prefix('v').unwrap_or(kubernetes);
    let numbers =
        plain.split('.').all(|part| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit()));
    match plain.strip_prefix("1.") {
        Some(rest) if numbers && rest.contains('.') => Ok(format!("0.{rest}")),
        _ => Err(format!("\"{kubernetes}\" is not a Kubernetes version such as 1.36.4")),
    }
}

/// Updates `upstream/facts` to `version` if it requires another one.
fn require(facts: &Path, version: &str) -> Result<(), String> {
    let modules =
        fs::read_to_string(facts.join("go.mod")).map_err(|error| format!("cannot read go.mod: {error}"))?;
    if MODULES.iter().all(|module| modules.contains(&format!("{module} v{version}\n"))) {
        return Ok(());
    }
    println!("updating upstream/facts to version {version}");
    let wanted: Vec<String> = MODULES.iter().map(|module| format!("{module}@v{version}")).collect();
    let mut get = vec!["get"];
    get.extend(wanted.iter().map(String::as_str));
    go(facts, &get)?;
    go(facts, &["mod", "tidy"])
}

fn go(directory: &Path, arguments: &[&str]) -> Result<(), String> {
    let status = Command::new("go")
        .args(arguments)
        .current_dir(directory)
        .status()
        .map_err(|error| format!("cannot run go: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("go {} failed", arguments.join(" "))) }
}

fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_owned()
}

fn target(root: &Path) -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kubernetes_versions_become_module_versions() {
        for (given, expected) in
            [("1.36.4", Some("0.36.4")), ("v1.37.0", Some("0.37.0")), ("1.36", None), ("2.0.1", None)]
        {
            assert_eq!(module_version(given).ok().as_deref(), expected, "{given}");
        }
    }

    #[test]
    fn options_are_parsed() {
        let arguments = ["--version", "1.36.4", "--check"].map(str::to_owned);
        let expected = CodegenOptions { version: Some("0.36.4".to_owned()), check: true };
        assert_eq!(CodegenOptions::parse(&arguments), Ok(expected));
        assert!(CodegenOptions::parse(&["--version".to_owned()]).is_err());
        assert!(CodegenOptions::parse(&["--fast".to_owned()]).is_err());
    }
}

//! Builds a release: the stripped program, an image of it for container runtimes, and checksums. The
//! packaging code is in `crates/dist`, because its dependencies would slow down the build of every other
//! xtask command.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

const USAGE: &str = "usage: cargo xtask dist [--out DIR]";

pub fn run(arguments: &[String]) -> Result<(), String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().map(PathBuf::from).unwrap_or_default();
    let directory = directory(arguments, &root.join("target/dist"))?;
    let version = env!("CARGO_PKG_VERSION");
    println!("building atoll {version} in release mode, without symbols");
    let program = build(&root)?;
    println!("packaging {}", program.display());
    let mut package = cargo(&root, "run");
    package.args(["--quiet", "-p", "atoll-dist", "--"]).arg(program).arg(version).arg(&directory);
    let status = package.status().map_err(|error| format!("cannot run cargo: {error}"))?;
    if !status.success() {
        return Err("packaging failed; see the output above".to_owned());
    }
    println!(
        "done. To import the image on a node: ctr -n k8s.io images import {}/atoll-{version}-linux-*.oci.tar",
        directory.display()
    );
    Ok(())
}

fn directory(arguments: &[String], default: &Path) -> Result<PathBuf, String> {
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments.as_slice() {
        [] => Ok(default.to_path_buf()),
        ["--out", directory] if !directory.is_empty() => Ok(PathBuf::from(directory)),
        ["--out"] | ["--out", _] => Err(format!("--out needs a directory\n{USAGE}")),
        [other, ..] => match other.strip_prefix("--out=") {
            Some(directory) if !directory.is_empty() && arguments.len() == 1 => Ok(PathBuf::from(directory)),
            _ => Err(format!("unknown option \"{}\"\n{USAGE}", arguments.join(" "))),
        },
    }
}

/// Builds the program and returns its path. Only the final step strips symbols, so that dependencies of other
/// release builds are reused.
fn build(root: &Path) -> Result<PathBuf, String> {
    let mut command = cargo(root, "rustc");
    command.args(["--release", "-p", "atoll", "--bin", "atoll", "--message-format=json-render-diagnostics"]);
    command.args(["--", "-C", "strip=symbols"]).stderr(Stdio::inherit());
    let output = command.output().map_err(|error| format!("cannot run cargo: {error}"))?;
    if !output.status.success() {
        return Err("the build failed; see the output above".to_owned());
    }
    executable(&String::from_utf8_lossy(&output.stdout))
        .ok_or_else(|| "cargo did not report the path of the program".to_owned())
}

/// Returns the path of the last executable in cargo's messages.
fn executable(messages: &str) -> Option<PathBuf> {
    let messages = messages.lines().rev().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let mut paths = messages.filter_map(|message| message["executable"].as_str().map(PathBuf::from));
    paths.next()
}

fn cargo(root: &Path, action: &str) -> Command {
    let mut command = Command::new("cargo");
    command.arg(action).arg("--manifest-path").arg(root.join("Cargo.toml"));
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_directory_is_parsed() {
        let cases: [(&[&str], Result<&str, &str>); 7] = [
            (&[], Ok("default")),
            (&["--out", "a"], Ok("a")),
            (&["--out=a"], Ok("a")),
            (&["--out"], Err("--out needs a directory")),
            (&["--out", ""], Err("--out needs a directory")),
            (&["--to", "a"], Err("unknown option \"--to a\"")),
            (&["--out=a", "b"], Err("unknown option \"--out=a b\"")),
        ];
        for (arguments, expected) in cases {
            let arguments: Vec<String> = arguments.iter().map(|&argument| argument.to_owned()).collect();
            match (directory(&arguments, Path::new("default")), expected) {
                (Ok(found), Ok(expected)) => assert_eq!(found, Path::new(expected)),
                (Err(found), Err(expected)) => assert!(found.starts_with(expected), "{found}"),
                (found, expected) => panic!("{arguments:?}: {found:?} instead of {expected:?}"),
            }
        }
    }

    #[test]
    fn executable_is_found_in_cargo_messages() {
        let messages = "{\"reason\":\"compiler-artifact\",\"executable\":null}\n\
                        {\"reason\":\"compiler-artifact\",\"executable\":\"/target/release/atoll\"}\n\
                        {\"reason\":\"build-finished\",\"success\":true}\n";
        assert_eq!(executable(messages), Some(PathBuf::from("/target/release/atoll")));
        assert_eq!(executable("{\"reason\":\"build-finished\"}\n"), None);
    }
}

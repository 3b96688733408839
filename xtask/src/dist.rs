//! Builds what is carried away: the program, stripped, an image of it for container runtimes, and checksums. The packing is
//! in `crates/package`: its dependencies would make every other chore slow to build.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

const USAGE: &str = "usage: cargo xtask dist [--out DIR]";

pub fn run(arguments: &[String]) -> Result<(), String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().map(PathBuf::from).unwrap_or_default();
    let directory = directory(arguments, &root.join("target/dist"))?;
    let version = env!("CARGO_PKG_VERSION");
    println!("building atoll {version} in release, without symbols");
    let program = build(&root)?;
    println!("packing {}", program.display());
    let mut package = cargo(&root, "run");
    package.args(["--quiet", "-p", "atoll-package", "--"]).arg(program).arg(version).arg(&directory);
    let status = package.status().map_err(|error| format!("cannot run cargo: {error}"))?;
    if !status.success() {
        return Err("packing failed; see above".to_owned());
    }
    println!(
        "done. In a cluster's node: ctr -n k8s.io images import {}/atoll-{version}-linux-*.oci.tar",
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
            _ => Err(format!("there is no option \"{}\"\n{USAGE}", arguments.join(" "))),
        },
    }
}

/// Where the program is, once it is built. Only its own last step knows of the stripping, so that what other release
/// builds have made of its dependencies is used as it is.
fn build(root: &Path) -> Result<PathBuf, String> {
    let mut command = cargo(root, "rustc");
    command.args(["--release", "-p", "atoll", "--bin", "atoll", "--message-format=json-render-diagnostics"]);
    command.args(["--", "-C", "strip=symbols"]).stderr(Stdio::inherit());
    let output = command.output().map_err(|error| format!("cannot run cargo: {error}"))?;
    if !output.status.success() {
        return Err("the build failed; see above".to_owned());
    }
    executable(&String::from_utf8_lossy(&output.stdout))
        .ok_or_else(|| "cargo does not say where it put the program".to_owned())
}

/// The program that the last of cargo's messages tell of.
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
    fn the_directory_can_be_chosen() {
        let cases: [(&[&str], Result<&str, &str>); 7] = [
            (&[], Ok("default")),
            (&["--out", "a"], Ok("a")),
            (&["--out=a"], Ok("a")),
            (&["--out"], Err("--out needs a directory")),
            (&["--out", ""], Err("--out needs a directory")),
            (&["--to", "a"], Err("there is no option \"--to a\"")),
            (&["--out=a", "b"], Err("there is no option \"--out=a b\"")),
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
    fn the_program_is_in_cargos_messages() {
        let messages = "{\"reason\":\"compiler-artifact\",\"executable\":null}\n\
                        {\"reason\":\"compiler-artifact\",\"executable\":\"/target/release/atoll\"}\n\
                        {\"reason\":\"build-finished\",\"success\":true}\n";
        assert_eq!(executable(messages), Some(PathBuf::from("/target/release/atoll")));
        assert_eq!(executable("{\"reason\":\"build-finished\"}\n"), None);
    }
}

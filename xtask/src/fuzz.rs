//! Runs every fuzz target for a while, one after the other.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const USUAL_SECONDS: u64 = 60;

pub fn run(arguments: &[String]) -> Result<(), String> {
    let seconds = seconds(arguments)?;
    if let Some(reason) = missing() {
        println!("fuzz: skipped: {reason}");
        return Ok(());
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let manifest = std::fs::read_to_string(root.join("fuzz/Cargo.toml"))
        .map_err(|error| format!("cannot read fuzz/Cargo.toml: {error}"))?;
    let targets = targets(&manifest);
    // All at once first, so that the time given is spent on looking.
    fuzz(&root).arg("build").status().map_err(|error| error.to_string()).and_then(|status| {
        if status.success() { Ok(()) } else { Err("the fuzz targets do not build".to_owned()) }
    })?;
    let mut failed = Vec::new();
    for target in &targets {
        println!("fuzz: {target} for {seconds} s");
        let status = fuzz(&root)
            .args(["run", target, "--", &format!("-max_total_time={seconds}"), "-timeout=10", "-verbosity=0"])
            .args(dictionary(&root, target))
            .status()
            .map_err(|error| format!("cannot run cargo fuzz: {error}"))?;
        if !status.success() {
            failed.push(target.as_str());
        }
    }
    match failed[..] {
        [] => {
            println!("fuzz: nothing found in {} targets", targets.len());
            Ok(())
        }
        _ => Err(format!(
            "found something in {}: see the input in fuzz/artifacts, and repeat it with \"cargo +nightly fuzz run \
             TARGET FILE\"",
            failed.join(", ")
        )),
    }
}

fn seconds(arguments: &[String]) -> Result<u64, String> {
    match arguments {
        [] => Ok(USUAL_SECONDS),
        [seconds] => seconds
            .parse()
            .ok()
            .filter(|seconds| *seconds > 0)
            .ok_or_else(|| format!("\"{seconds}\" is not a number of seconds")),
        _ => Err("fuzz takes one argument: how many seconds each target may look".to_owned()),
    }
}

/// What is not installed and how to get it.
fn missing() -> Option<&'static str> {
    let works = |arguments: &[&str]| {
        let quiet =
            Command::new("cargo").args(arguments).stdout(Stdio::null()).stderr(Stdio::null()).status();
        quiet.is_ok_and(|status| status.success())
    };
    if !works(&["+nightly", "--version"]) {
        return Some("it needs a nightly compiler: \"rustup toolchain install nightly\"");
    }
    if !works(&["+nightly", "fuzz", "--version"]) {
        return Some("it needs cargo-fuzz: \"cargo install cargo-fuzz\"");
    }
    None
}

fn fuzz(root: &Path) -> Command {
    let mut command = Command::new("cargo");
    command.args(["+nightly", "fuzz"]).current_dir(root);
    // This process was started by another toolchain's cargo, whose settings are not for the nightly one.
    for name in ["CARGO", "RUSTC", "RUSTUP_TOOLCHAIN", "RUSTDOC"] {
        command.env_remove(name);
    }
    command
}

/// Words that a target's input is made of, where there is a list of them.
fn dictionary(root: &Path, target: &str) -> Option<String> {
    let file: PathBuf = ["fuzz", "dictionaries", &format!("{target}.dict")].iter().collect();
    root.join(&file).exists().then(|| format!("-dict={}", file.display()))
}

/// The names of the programs in the manifest.
fn targets(manifest: &str) -> Vec<String> {
    let tables = manifest.split("[[bin]]").skip(1);
    let name = |table: &str| {
        let line = table.lines().find_map(|line| line.strip_prefix("name = "))?;
        Some(line.trim().trim_matches('"').to_owned())
    };
    tables.filter_map(name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_the_programs_of_the_manifest() {
        let manifest = "[package]\nname = \"fuzz\"\n\n[[bin]]\nname = \"json\"\npath = \"a.rs\"\n\n[[bin]]\nname = \"time\"\n";
        assert_eq!(targets(manifest), ["json", "time"]);
    }

    #[test]
    fn seconds_are_a_number() {
        let parse =
            |arguments: &[&str]| seconds(&arguments.iter().map(ToString::to_string).collect::<Vec<_>>());
        assert_eq!(parse(&[]), Ok(USUAL_SECONDS));
        assert_eq!(parse(&["5"]), Ok(5));
        for wrong in [&["0"][..], &["x"], &["1", "2"]] {
            assert!(parse(wrong).is_err(), "{wrong:?}");
        }
    }
}

//! Runs the fuzz targets of `fuzz/` one after the other, each for a limited time.

use std::path::Path;
use std::process::{Command, Stdio};

const DEFAULT_SECONDS: u64 = 60;
/// The binary that contains all targets. `ATOLL_FUZZ_TARGET` selects one.
const PROGRAM: &str = "parser";

/// Time per target, and the targets to run.
#[derive(Debug, PartialEq, Eq)]
struct FuzzPlan<'a> {
    seconds: u64,
    targets: Vec<&'a str>,
}

pub fn run(arguments: &[String]) -> Result<(), String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let known = targets(&root)?;
    let known: Vec<&str> = known.iter().map(String::as_str).collect();
    let plan = parse_arguments(arguments, &known)?;
    if let Some(reason) = missing_tool() {
        println!("fuzz: skipped: {reason}");
        return Ok(());
    }
    // Build once before the first target, so that the time limit covers only fuzzing.
    let status = fuzz(&root, "build").status().map_err(|error| format!("cannot run cargo fuzz: {error}"))?;
    if !status.success() {
        return Err("cannot build the fuzz targets; see the output above".to_owned());
    }
    let mut failed = Vec::new();
    for target in &plan.targets {
        println!("fuzz: {target} for {} s", plan.seconds);
        if !run_target(&root, target, plan.seconds)? {
            failed.push(*target);
        }
    }
    match failed[..] {
        [] => {
            println!("fuzz: no failures in {} targets", plan.targets.len());
            Ok(())
        }
        _ => Err(format!(
            "failures in {}: the inputs are in fuzz/artifacts. To reproduce one, copy it to fuzz/seeds/TARGET and run \
             \"cargo test -p atoll-fuzz\"",
            failed.join(", ")
        )),
    }
}

/// Parses the arguments: numbers are seconds, everything else is a target. Without targets, all are run.
fn parse_arguments<'a>(arguments: &[String], known: &[&'a str]) -> Result<FuzzPlan<'a>, String> {
    let mut plan = FuzzPlan { seconds: DEFAULT_SECONDS, targets: Vec::new() };
    for argument in arguments {
        match (argument.parse::<u64>(), known.iter().find(|target| *target == argument)) {
            (Ok(0), _) => return Err("the number of seconds must be at least 1".to_owned()),
            (Ok(seconds), _) => plan.seconds = seconds,
            (Err(_), Some(target)) => plan.targets.push(target),
            (Err(_), None) => {
                let message = format!("\"{argument}\" is neither a number of seconds nor a target");
                return Err(format!("{message}; targets: {}", known.join(", ")));
            }
        }
    }
    if plan.targets.is_empty() {
        plan.targets = known.to_vec();
    }
    Ok(plan)
}

/// Returns the missing tool, with the command that installs it.
fn missing_tool() -> Option<&'static str> {
    let works = |arguments: &[&str]| {
        let quiet =
            Command::new("cargo").args(arguments).stdout(Stdio::null()).stderr(Stdio::null()).status();
        quiet.is_ok_and(|status| status.success())
    };
    if !works(&["+nightly", "--version"]) {
        return Some("the nightly toolchain is missing: run \"rustup toolchain install nightly\"");
    }
    if !works(&["+nightly", "fuzz", "--version"]) {
        return Some("cargo-fuzz is missing: run \"cargo install cargo-fuzz\"");
    }
    None
}

fn fuzz(root: &Path, action: &str) -> Command {
    let mut command = Command::new("cargo");
    command.args(["+nightly", "fuzz", action, "--features", "libfuzzer", PROGRAM]).current_dir(root);
    // Cargo set these variables for the toolchain of this process; the nightly toolchain must not inherit
    // them.
    for name in ["CARGO", "RUSTC", "RUSTUP_TOOLCHAIN", "RUSTDOC"] {
        command.env_remove(name);
    }
    // Release settings that make the program smaller only slow down the build here.
    command.env("CARGO_PROFILE_RELEASE_LTO", "off").env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "16");
    command
}

/// Runs one target and returns whether it passed. New inputs go to the corpus, failing inputs to the
/// artifacts.
fn run_target(root: &Path, target: &str, seconds: u64) -> Result<bool, String> {
    let [corpus, artifacts] = ["corpus", "artifacts"].map(|directory| format!("fuzz/{directory}/{target}/"));
    for directory in [&corpus, &artifacts] {
        std::fs::create_dir_all(root.join(directory))
            .map_err(|error| format!("cannot create {directory}: {error}"))?;
    }
    let mut command = fuzz(root, "run");
    command.env("ATOLL_FUZZ_TARGET", target).args([&corpus, &format!("fuzz/seeds/{target}/")]);
    command.args(["--", &format!("-artifact_prefix={artifacts}"), &format!("-max_total_time={seconds}")]);
    command.args(["-timeout=10", "-verbosity=0", "-print_final_stats=1"]);
    // A dictionary of tokens, if the target has one.
    let dictionary = format!("fuzz/dictionaries/{target}.dict");
    if root.join(&dictionary).exists() {
        command.arg(format!("-dict={dictionary}"));
    }
    let status = command.status().map_err(|error| format!("cannot run cargo fuzz: {error}"))?;
    Ok(status.success())
}

/// Returns the sorted names of all targets. Each target has a directory of seeds, which the tests of `fuzz/`
/// check.
fn targets(root: &Path) -> Result<Vec<String>, String> {
    let seeds = root.join("fuzz/seeds");
    let problem = |error: std::io::Error| format!("cannot read {}: {error}", seeds.display());
    let names = std::fs::read_dir(&seeds).map_err(problem)?.map(|entry| Ok(entry?.file_name()));
    let names: Vec<_> = names.collect::<Result<_, _>>().map_err(problem)?;
    let mut names: Vec<String> = names.iter().map(|name| name.to_string_lossy().into_owned()).collect();
    names.sort_unstable();
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_seconds_and_targets() {
        let known = ["cron", "json"];
        let read = |arguments: &[&str]| {
            let arguments: Vec<String> = arguments.iter().map(ToString::to_string).collect();
            parse_arguments(&arguments, &known)
        };
        let all = |seconds| Ok(FuzzPlan { seconds, targets: known.to_vec() });
        assert_eq!(read(&[]), all(DEFAULT_SECONDS));
        assert_eq!(read(&["5"]), all(5));
        assert_eq!(read(&["json", "5"]), Ok(FuzzPlan { seconds: 5, targets: vec!["json"] }));
        for wrong in [&["0"][..], &["x"], &["json", "cro"]] {
            assert!(read(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn targets_are_listed() {
        let targets = targets(&Path::new(env!("CARGO_MANIFEST_DIR")).join("..")).unwrap();
        assert!(targets.is_sorted() && targets.iter().any(|target| target == "json"), "{targets:?}");
    }
}

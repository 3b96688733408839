//! Looks for inputs that break parsers: every target of `fuzz/` for a while, one after the other.

use std::path::Path;
use std::process::{Command, Stdio};

const USUAL_SECONDS: u64 = 60;
/// The program that all targets are in; which one it runs, its environment says.
const PROGRAM: &str = "parser";

/// For how long, and which targets; all if none are named.
#[derive(Debug, PartialEq, Eq)]
struct Wanted<'a> {
    seconds: u64,
    targets: Vec<&'a str>,
}

pub fn run(arguments: &[String]) -> Result<(), String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let known = targets(&root)?;
    let known: Vec<&str> = known.iter().map(String::as_str).collect();
    let wanted = wanted(arguments, &known)?;
    if let Some(reason) = missing() {
        println!("fuzz: skipped: {reason}");
        return Ok(());
    }
    // Once before the first, so that the time given is spent on looking.
    let status = fuzz(&root, "build").status().map_err(|error| format!("cannot run cargo fuzz: {error}"))?;
    if !status.success() {
        return Err("the program for the fuzz targets does not build".to_owned());
    }
    let mut failed = Vec::new();
    for target in &wanted.targets {
        println!("fuzz: {target} for {} s", wanted.seconds);
        if !look(&root, target, wanted.seconds)? {
            failed.push(*target);
        }
    }
    match failed[..] {
        [] => {
            println!("fuzz: nothing found in {} targets", wanted.targets.len());
            Ok(())
        }
        _ => Err(format!(
            "found something in {}: the inputs are in fuzz/artifacts; put one into fuzz/seeds/TARGET and \
             \"cargo test -p atoll-fuzz\" repeats it",
            failed.join(", ")
        )),
    }
}

/// Numbers are seconds, everything else is a target.
fn wanted<'a>(arguments: &[String], known: &[&'a str]) -> Result<Wanted<'a>, String> {
    let mut wanted = Wanted { seconds: USUAL_SECONDS, targets: Vec::new() };
    for argument in arguments {
        match (argument.parse::<u64>(), known.iter().find(|target| *target == argument)) {
            (Ok(0), _) => return Err("targets need at least a second".to_owned()),
            (Ok(seconds), _) => wanted.seconds = seconds,
            (Err(_), Some(target)) => wanted.targets.push(target),
            (Err(_), None) => {
                let message = format!("\"{argument}\" is neither a number of seconds nor a target");
                return Err(format!("{message}; there are {}", known.join(", ")));
            }
        }
    }
    if wanted.targets.is_empty() {
        wanted.targets = known.to_vec();
    }
    Ok(wanted)
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

fn fuzz(root: &Path, action: &str) -> Command {
    let mut command = Command::new("cargo");
    command.args(["+nightly", "fuzz", action, "--features", "libfuzzer", PROGRAM]).current_dir(root);
    // This process was started by another toolchain's cargo, whose settings are not for the nightly one.
    for name in ["CARGO", "RUSTC", "RUSTUP_TOOLCHAIN", "RUSTDOC"] {
        command.env_remove(name);
    }
    // What makes the program that is carried away smaller only makes this one take longer to build.
    command.env("CARGO_PROFILE_RELEASE_LTO", "off").env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "16");
    command
}

/// Whether nothing was found. What was worth keeping goes to the corpus, what breaks the parser to the artifacts.
fn look(root: &Path, target: &str, seconds: u64) -> Result<bool, String> {
    let [corpus, artifacts] = ["corpus", "artifacts"].map(|place| format!("fuzz/{place}/{target}/"));
    for place in [&corpus, &artifacts] {
        std::fs::create_dir_all(root.join(place)).map_err(|error| format!("cannot make {place}: {error}"))?;
    }
    let mut command = fuzz(root, "run");
    command.env("ATOLL_FUZZ_TARGET", target).args([&corpus, &format!("fuzz/seeds/{target}/")]);
    command.args(["--", &format!("-artifact_prefix={artifacts}"), &format!("-max_total_time={seconds}")]);
    command.args(["-timeout=10", "-verbosity=0", "-print_final_stats=1"]);
    // Words that the input is made of, where there is a list of them.
    let dictionary = format!("fuzz/dictionaries/{target}.dict");
    if root.join(&dictionary).exists() {
        command.arg(format!("-dict={dictionary}"));
    }
    let status = command.status().map_err(|error| format!("cannot run cargo fuzz: {error}"))?;
    Ok(status.success())
}

/// The names of all targets, in order: each has a directory of seeds, as the tests of `fuzz/` see to.
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
            wanted(&arguments, &known)
        };
        let all = |seconds| Ok(Wanted { seconds, targets: known.to_vec() });
        assert_eq!(read(&[]), all(USUAL_SECONDS));
        assert_eq!(read(&["5"]), all(5));
        assert_eq!(read(&["json", "5"]), Ok(Wanted { seconds: 5, targets: vec!["json"] }));
        for wrong in [&["0"][..], &["x"], &["json", "cro"]] {
            assert!(read(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn targets_are_known() {
        let targets = targets(&Path::new(env!("CARGO_MANIFEST_DIR")).join("..")).unwrap();
        assert!(targets.is_sorted() && targets.iter().any(|target| target == "json"), "{targets:?}");
    }
}

//! Upstream's own conformance tests against Atoll: those that need nothing but an API server (group a), and those that
//! need kube-controller-manager beside it (group b).
//!
//! ```text
//!   Cluster (atoll, for b also kube-controller-manager) ◄── e2e.test, several at once, each with some of the tests
//!                                                              └──► reports ──► passed, failed and why
//! ```

mod cluster;
mod report;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use cluster::{Cluster, Controllers, Running};

const USAGE: &str = "usage: cargo xtask conformance a|b [--release] [--own-controllers (b only)] [--minutes 30] [--at-once 5] [--focus REGEX]";
/// Before expressions whose tests may wait until the time is up, and would take others with them.
const ALONE: &str = "alone ";
/// How long those get: what they wait for comes in seconds or never.
const ALONE_MINUTES: u64 = 5;

/// What `upstream/build` exits with where there is no Go to build with.
const NO_GO: i32 = 3;

/// After its own time limit, e2e.test cleans up and writes the report.
const GRACE: Duration = Duration::from_secs(120);

/// Tests that belong together, by what they need.
struct Group {
    focus: &'static str,
    controllers: Controllers,
}

const API_SERVER: Group =
    Group { focus: include_str!("conformance/api-server.txt"), controllers: Controllers::Default };
const CONTROLLERS: Group =
    Group { focus: include_str!("conformance/controllers.txt"), controllers: Controllers::Upstream };

struct Options {
    controllers: Controllers,
    release: bool,
    minutes: u64,
    /// How many of e2e.test run at the same time: most of their time is waiting.
    at_once: usize,
    /// Expressions that names of tests match.
    focus: Vec<String>,
}

fn options(arguments: &[String]) -> Result<Options, String> {
    let mut arguments = arguments.iter().map(String::as_str);
    let group = match arguments.next() {
        Some("a") => &API_SERVER,
        Some("b") => &CONTROLLERS,
        _ => return Err(USAGE.to_owned()),
    };
    let focus = group.focus.lines().filter(|line| !line.starts_with('#')).map(str::to_owned).collect();
    let mut options =
        Options { controllers: group.controllers, release: false, minutes: 30, at_once: 5, focus };
    while let Some(argument) = arguments.next() {
        match argument {
            "--release" => options.release = true,
            // In place of kube-controller-manager's, which only group b has.
            "--own-controllers" if options.controllers != Controllers::Default => {
                options.controllers = Controllers::Own;
            }
            "--minutes" => {
                let minutes = arguments.next().and_then(|minutes| minutes.parse().ok());
                options.minutes = minutes.ok_or("--minutes needs a number")?;
            }
            "--at-once" => {
                let number = arguments.next().and_then(|number| number.parse().ok());
                options.at_once = number.filter(|number| *number > 0).ok_or("--at-once needs a number")?;
            }
            "--focus" => {
                options.focus = vec![arguments.next().ok_or("--focus needs an expression")?.to_owned()];
            }
            other => return Err(format!("there is no option \"{other}\"\n{USAGE}")),
        }
    }
    Ok(options)
}

pub fn run(arguments: &[String]) -> Result<(), String> {
    let options = options(arguments)?;
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().map(PathBuf::from).unwrap_or_default();
    let Some(programs) = programs(&root, options.controllers)? else { return Ok(()) };
    let atoll = atoll(&root, options.release)?;
    let directory = std::env::temp_dir().join(format!("atoll-conformance-{}", std::process::id()));
    std::fs::create_dir_all(&directory).map_err(|error| format!("{}: {error}", directory.display()))?;
    let cluster = Cluster::start(&atoll, &programs, options.controllers, &directory)?;
    println!("logs and the report are in {}", directory.display());
    let mut reports = Vec::new();
    for report in test(&options, &programs, &cluster, &directory)? {
        let text = std::fs::read_to_string(&report);
        let text = text.map_err(|error| format!("no report {}: {error}", report.display()))?;
        reports.push(report::read(&text)?);
    }
    let report = report::together(reports);
    print!("{}", report::summary(&report));
    match report.complete() {
        true => Ok(()),
        false => Err("not all passed".to_owned()),
    }
}

/// The directory of the programs, built if need be; `None`, with a line that says so, where Go is absent.
fn programs(root: &Path, controllers: Controllers) -> Result<Option<PathBuf>, String> {
    let mut command = Command::new(root.join("upstream/build"));
    command.args(["e2e.test", "kubectl"]).stderr(Stdio::inherit());
    if controllers == Controllers::Upstream {
        command.args(["keys", "kube-controller-manager"]);
    }
    let output = command.output().map_err(|error| format!("cannot run upstream/build: {error}"))?;
    match output.status.code() {
        Some(0) => {}
        Some(NO_GO) => {
            println!("skipped: the tests are built with Go");
            return Ok(None);
        }
        _ => return Err("upstream/build failed; see above".to_owned()),
    }
    let text = String::from_utf8_lossy(&output.stdout);
    Ok(text.lines().last().map(PathBuf::from))
}

/// `ATOLL_BIN`, or else this workspace's program, brought up to date.
fn atoll(root: &Path, release: bool) -> Result<PathBuf, String> {
    if let Some(path) = std::env::var_os("ATOLL_BIN") {
        return Ok(path.into());
    }
    let mut command = Command::new("cargo");
    command.arg("build").arg("--manifest-path").arg(root.join("Cargo.toml")).args(["-p", "atoll"]);
    if release {
        command.arg("--release");
    }
    let status = command.status().map_err(|error| format!("cannot run cargo: {error}"))?;
    if !status.success() {
        return Err("atoll does not build; see above".to_owned());
    }
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or(root.join("target"), PathBuf::from);
    Ok(target.join(if release { "release" } else { "debug" }).join("atoll"))
}

/// Runs e2e.test to its end, which it reaches in bounded time or is put to. The reports.
fn test(
    options: &Options,
    programs: &Path,
    cluster: &Cluster,
    directory: &Path,
) -> Result<Vec<PathBuf>, String> {
    let (mut running, mut reports) = (Vec::new(), Vec::new());
    for (number, Portion { focus, minutes }) in portions(options).iter().enumerate() {
        let report = directory.join(format!("report-{number}.json"));
        let mut command = Running::command(&programs.join("e2e.test"));
        command
            .arg(format!("--kubeconfig={}", cluster.kubeconfig.display()))
            .arg(format!("--kubectl-path={}", programs.join("kubectl").display()))
            .args(["--provider=skeleton", "--allowed-not-ready-nodes=-1", "--minStartupPods=-1"])
            .args([
                "--num-nodes=2",
                "--dump-logs-on-failure=false",
                "--disable-log-dump",
                "--ginkgo.no-color",
            ])
            .args(["--ginkgo.label-filter=Conformance", &format!("--ginkgo.focus={focus}")])
            .arg(format!("--ginkgo.timeout={minutes}m"))
            .arg(format!("--ginkgo.json-report={}", report.display()));
        running.push(Running::start(&mut command, &directory.join(format!("e2e-{number}.log")))?);
        reports.push(report);
    }
    let deadline = Instant::now() + Duration::from_secs(options.minutes * 60) + GRACE;
    while running.iter_mut().any(Running::runs) {
        if Instant::now() > deadline {
            return Err(format!("e2e.test did not end; its logs are in {}", directory.display()));
        }
        std::thread::sleep(Duration::from_millis(200));
    }
    Ok(reports)
}

/// What one of e2e.test runs, and how long it may take.
#[derive(Debug, PartialEq, Eq)]
struct Portion {
    focus: String,
    minutes: u64,
}

/// Deals the expressions out, as cards; those that are to be alone are portions of their own.
fn portions(options: &Options) -> Vec<Portion> {
    let alone = options.focus.iter().filter_map(|expression| expression.strip_prefix(ALONE));
    let others = options.focus.iter().filter(|expression| !expression.starts_with(ALONE));
    let others: Vec<&str> = others.map(String::as_str).collect();
    let number = options.at_once.min(others.len());
    let dealt = |first: usize| {
        let some: Vec<&str> = others.iter().skip(first).step_by(number).copied().collect();
        Portion { focus: some.join("|"), minutes: options.minutes }
    };
    let alone =
        alone.map(|focus| Portion { focus: focus.to_owned(), minutes: options.minutes.min(ALONE_MINUTES) });
    (0..number).map(dealt).chain(alone).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Expressions, how many at once, and the portions with their minutes.
    type Case<'a> = (&'a [&'a str], usize, &'a [(&'a str, u64)]);

    #[test]
    fn every_expression_is_in_one_portion() {
        let cases: [Case; 3] = [
            (&["a", "b", "c", "d", "e"], 2, &[("a|c|e", 30), ("b|d", 30)]),
            (&["a", "b"], 9, &[("a", 30), ("b", 30)]),
            (&["a", "alone b", "c"], 1, &[("a|c", 30), ("b", ALONE_MINUTES)]),
        ];
        for (focus, at_once, expected) in cases {
            let focus = focus.iter().map(|&expression| expression.to_owned()).collect();
            let options =
                Options { controllers: Controllers::Default, release: false, minutes: 30, at_once, focus };
            let found = portions(&options);
            let found: Vec<_> =
                found.iter().map(|portion| (portion.focus.as_str(), portion.minutes)).collect();
            assert_eq!(found, expected);
        }
    }
}

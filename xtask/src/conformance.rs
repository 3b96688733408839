//! Runs upstream's conformance tests against Atoll: the tests that need only an API server (group a), and the
//! tests that need kube-controller-manager as well (group b).
//!
//! ```text
//!   Cluster (atoll, for b also kube-controller-manager) ◄── e2e.test, several processes, each with some of the tests
//!                                                              └──► reports ──► passed, failed and why
//! ```

mod cluster;
mod report;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use cluster::{Cluster, Controllers, ProcessGuard};

const USAGE: &str = "usage: cargo xtask conformance a|b [--release] [--own-controllers (b only)] [--minutes 30] [--at-once 5] [--focus REGEX]";
/// Prefix of expressions for tests that may block until the timeout. Each of them gets a process of its own.
const ALONE: &str = "alone ";
/// Timeout of these tests: either they pass within seconds or they block.
const ALONE_MINUTES: u64 = 5;

/// Exit code of `upstream/build` if Go is not installed.
const NO_GO: i32 = 3;

/// Time that e2e.test needs after its timeout to clean up and write its report.
const REPORT_TIME: Duration = Duration::from_secs(120);

/// A group of tests with the same requirements.
struct Group {
    focus: &'static str,
    controllers: Controllers,
}

const API_SERVER: Group =
    Group { focus: include_str!("conformance/api-server.txt"), controllers: Controllers::Default };
const CONTROLLERS: Group =
    Group { focus: include_str!("conformance/controllers.txt"), controllers: Controllers::Upstream };

struct ConformanceOptions {
    controllers: Controllers,
    release: bool,
    minutes: u64,
    /// Number of e2e.test processes. The tests mostly wait, so it may exceed the number of cores.
    at_once: usize,
    /// Regular expressions for the names of the tests to run.
    focus: Vec<String>,
}

fn parse_options(arguments: &[String]) -> Result<ConformanceOptions, String> {
    let mut arguments = arguments.iter().map(String::as_str);
    let group = match arguments.next() {
        Some("a") => &API_SERVER,
        Some("b") => &CONTROLLERS,
        _ => return Err(USAGE.to_owned()),
    };
    let focus = group.focus.lines().filter(|line| !line.starts_with('#')).map(str::to_owned).collect();
    let mut options =
        ConformanceOptions { controllers: group.controllers, release: false, minutes: 30, at_once: 5, focus };
    while let Some(argument) = arguments.next() {
        match argument {
            "--release" => options.release = true,
            // Only group b runs kube-controller-manager, which these controllers replace.
            "--own-controllers" if options.controllers != Controllers::Default => {
                options.controllers = Controllers::Own;
            }
            "--minutes" => {
                let minutes = arguments.next().and_then(|minutes| minutes.parse().ok());
                options.minutes = minutes.ok_or("--minutes needs a number of minutes")?;
            }
            "--at-once" => {
                let number = arguments.next().and_then(|number| number.parse().ok());
                options.at_once =
                    number.filter(|number| *number > 0).ok_or("--at-once needs a number of processes")?;
            }
            "--focus" => {
                options.focus =
                    vec![arguments.next().ok_or("--focus needs a regular expression")?.to_owned()];
            }
            other => return Err(format!("unknown option \"{other}\"\n{USAGE}")),
        }
    }
    Ok(options)
}

pub fn run(arguments: &[String]) -> Result<(), String> {
    let options = parse_options(arguments)?;
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().map(PathBuf::from).unwrap_or_default();
    let Some(programs) = programs(&root, options.controllers)? else { return Ok(()) };
    let atoll = atoll(&root, options.release)?;
    let directory = std::env::temp_dir().join(format!("atoll-conformance-{}", std::process::id()));
    std::fs::create_dir_all(&directory).map_err(|error| format!("{}: {error}", directory.display()))?;
    let cluster = Cluster::start(&atoll, &programs, options.controllers, &directory)?;
    println!("logs and reports are in {}", directory.display());
    let mut reports = Vec::new();
    for report in run_tests(&options, &programs, &cluster, &directory)? {
        let text = std::fs::read_to_string(&report);
        let text = text.map_err(|error| format!("cannot read the report {}: {error}", report.display()))?;
        reports.push(report::parse(&text)?);
    }
    let report = report::merge(reports);
    print!("{}", report::summary(&report));
    match report.all_passed() {
        true => Ok(()),
        false => Err("some tests failed or did not run; see above".to_owned()),
    }
}

/// Builds the programs if needed and returns their directory. Prints a message and returns `None` if Go is
/// missing.
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
            println!("skipped: building the tests needs Go, which is not installed");
            return Ok(None);
        }
        _ => return Err("upstream/build failed; see above".to_owned()),
    }
    let text = String::from_utf8_lossy(&output.stdout);
    Ok(text.lines().last().map(PathBuf::from))
}

/// Returns `ATOLL_BIN` if it is set, else builds Atoll and returns the path of the program.
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
        return Err("cannot build atoll; see the output above".to_owned());
    }
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or(root.join("target"), PathBuf::from);
    Ok(target.join(if release { "release" } else { "debug" }).join("atoll"))
}

/// Runs all e2e.test processes with a timeout and returns the paths of their reports.
fn run_tests(
    options: &ConformanceOptions,
    programs: &Path,
    cluster: &Cluster,
    directory: &Path,
) -> Result<Vec<PathBuf>, String> {
    let (mut running, mut reports) = (Vec::new(), Vec::new());
    for (number, Batch { focus, minutes }) in batches(options).iter().enumerate() {
        let report = directory.join(format!("report-{number}.json"));
        let mut command = ProcessGuard::command(&programs.join("e2e.test"));
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
        running.push(ProcessGuard::start(&mut command, &directory.join(format!("e2e-{number}.log")))?);
        reports.push(report);
    }
    let deadline = Instant::now() + Duration::from_secs(options.minutes * 60) + REPORT_TIME;
    while running.iter_mut().any(ProcessGuard::is_running) {
        if Instant::now() > deadline {
            return Err(format!("e2e.test timed out; its logs are in {}", directory.display()));
        }
        std::thread::sleep(Duration::from_millis(200));
    }
    Ok(reports)
}

/// Tests of one e2e.test process, and their timeout.
#[derive(Debug, PartialEq, Eq)]
struct Batch {
    focus: String,
    minutes: u64,
}

/// Distributes the expressions round-robin. Expressions with the prefix `alone` get a batch each.
fn batches(options: &ConformanceOptions) -> Vec<Batch> {
    let alone = options.focus.iter().filter_map(|expression| expression.strip_prefix(ALONE));
    let others = options.focus.iter().filter(|expression| !expression.starts_with(ALONE));
    let others: Vec<&str> = others.map(String::as_str).collect();
    let number = options.at_once.min(others.len());
    let batch = |first: usize| {
        let some: Vec<&str> = others.iter().skip(first).step_by(number).copied().collect();
        Batch { focus: some.join("|"), minutes: options.minutes }
    };
    let alone =
        alone.map(|focus| Batch { focus: focus.to_owned(), minutes: options.minutes.min(ALONE_MINUTES) });
    (0..number).map(batch).chain(alone).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Expressions, number of processes, and the expected batches with their minutes.
    type Case<'a> = (&'a [&'a str], usize, &'a [(&'a str, u64)]);

    #[test]
    fn every_expression_is_in_one_batch() {
        let cases: [Case; 3] = [
            (&["a", "b", "c", "d", "e"], 2, &[("a|c|e", 30), ("b|d", 30)]),
            (&["a", "b"], 9, &[("a", 30), ("b", 30)]),
            (&["a", "alone b", "c"], 1, &[("a|c", 30), ("b", ALONE_MINUTES)]),
        ];
        for (focus, at_once, expected) in cases {
            let focus = focus.iter().map(|&expression| expression.to_owned()).collect();
            let options = ConformanceOptions {
                controllers: Controllers::Default,
                release: false,
                minutes: 30,
                at_once,
                focus,
            };
            let found = batches(&options);
            let found: Vec<_> = found.iter().map(|batch| (batch.focus.as_str(), batch.minutes)).collect();
            assert_eq!(found, expected);
        }
    }
}

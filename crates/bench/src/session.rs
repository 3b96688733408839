//! BenchOptions, programs and output that all benchmarks share.

use std::path::PathBuf;

use serde_json::{Value, json};

use crate::error::{BenchError, BenchResult};
use crate::machine::{self, BackgroundLoad, Machine};
use crate::report;
use crate::server::{Programs, ServerKind, Upstream};

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BenchOptions {
    /// Run shorter, and one round instead of two.
    pub quick: bool,
    /// Do not compare with kube-apiserver.
    pub alone: bool,
    pub json: Option<PathBuf>,
    /// Directory for the data of the servers. It should be on the disk that the benchmark is about.
    pub directory: Option<PathBuf>,
    pub atoll: Option<PathBuf>,
    /// The directory `upstream` of this repository.
    pub upstream: Option<PathBuf>,
    /// Numbers of clusters, in increasing order.
    pub clusters: Option<Vec<usize>>,
    /// Number of workloads.
    pub workloads: Option<usize>,
}

impl BenchOptions {
    pub fn parse(arguments: impl IntoIterator<Item = String>) -> BenchResult<Self> {
        let mut options = BenchOptions::default();
        let mut arguments = arguments.into_iter();
        while let Some(argument) = arguments.next() {
            let mut value = |what: &str| {
                let missing = || BenchError::Usage(format!("{argument} needs {what}"));
                arguments.next().ok_or_else(missing)
            };
            let mut path = || value("a path").map(PathBuf::from);
            match argument.as_str() {
                "--quick" => options.quick = true,
                "--alone" => options.alone = true,
                "--json" => options.json = Some(path()?),
                "--directory" => options.directory = Some(path()?),
                "--atoll" => options.atoll = Some(path()?),
                "--upstream" => options.upstream = Some(path()?),
                "--clusters" => options.clusters = Some(numbers(&value("numbers such as 1,10")?)?),
                "--workloads" => match numbers(&value("a number")?)?[..] {
                    [count] => options.workloads = Some(count),
                    _ => return Err(BenchError::Usage("--workloads needs one number".into())),
                },
                other => return Err(BenchError::Usage(format!("unknown option {other:?}"))),
            }
        }
        Ok(options)
    }
}

/// Parses a list of increasing numbers.
fn numbers(text: &str) -> BenchResult<Vec<usize>> {
    let parsed: Option<Vec<usize>> = text.split(',').map(|number| number.parse().ok()).collect();
    let rising = parsed.filter(|numbers| numbers[0] > 0 && numbers.is_sorted_by(|one, next| one < next));
    rising.ok_or_else(|| BenchError::Usage(format!("{text:?} is not a list of increasing numbers")))
}

pub struct Session {
    pub options: BenchOptions,
    pub programs: Programs,
    machine: Machine,
    directory: PathBuf,
}

impl Session {
    /// Finds the programs and prints their versions and the machine's properties. `compared` lists the
    /// components to run beside kube-apiserver; `None` disables the comparison.
    pub fn open(options: BenchOptions, compared: Option<&[&str]>) -> BenchResult<Self> {
        let own = std::env::current_exe().map_err(|error| BenchError::Machine(error.to_string()))?;
        let program_directory = own.parent().map(PathBuf::from).unwrap_or_default();
        let atoll = options.atoll.clone().unwrap_or_else(|| program_directory.join("atoll"));
        if !atoll.is_file() {
            let path = atoll.display();
            return Err(BenchError::Start(format!(
                "{path} does not exist: run \"cargo build --release -p atoll\""
            )));
        }
        let upstream = match (&options.upstream, compared.filter(|_| !options.alone)) {
            (Some(upstream), Some(components)) => Upstream::prepare(upstream, components)?,
            _ => None,
        };
        if compared.is_some() && upstream.is_none() && !options.alone {
            eprintln!("comparison with kube-apiserver skipped: building it needs Go, see upstream/README.md");
        }
        let directory = options.directory.clone().unwrap_or(program_directory);
        let directory = directory.join(format!("atoll-bench-{}", std::process::id()));
        std::fs::create_dir_all(&directory).map_err(|error| BenchError::file(&directory, &error))?;
        let mut machine = Machine::inspect(&directory);
        machine.add("atoll", machine::version(&atoll, "--version"));
        if let Some(upstream) = &upstream {
            let version = |name: &str| machine::version(upstream.programs.join(name), "--version");
            machine.add("compared with", format!("{}, {}", version("kube-apiserver"), version("etcd")));
        }
        machine.print();
        Ok(Session { options, programs: Programs { atoll, upstream }, machine, directory })
    }

    /// Returns the servers to measure.
    pub fn kinds(&self) -> Vec<ServerKind> {
        match self.programs.upstream {
            Some(_) => vec![ServerKind::Atoll, ServerKind::Kubernetes],
            None => vec![ServerKind::Atoll],
        }
    }

    /// Returns the directory for a server.
    pub fn directory(&self, kind: ServerKind) -> PathBuf {
        self.directory.join(kind.name())
    }

    /// Prints the duration of the benchmark and the CPU usage of other processes.
    pub fn footnotes(&self, background: &BackgroundLoad, share: f64) {
        let minutes = background.elapsed().as_secs_f64() / 60.0;
        println!(
            "Took {minutes:.1} minutes; other processes used {:.0} % of all cores during that time.",
            share * 100.0
        );
        if share > 0.1 {
            println!(
                "Other processes used much CPU: absolute numbers are too low, and ratios are uncertain."
            );
        }
    }

    /// Writes the results to the file of `--json`, if it is set.
    pub fn save(&self, mut numbers: Value) -> BenchResult<()> {
        let Some(path) = &self.options.json else { return Ok(()) };
        numbers["machine"] = self.machine.to_json();
        numbers["quick"] = json!(self.options.quick);
        report::write(path, &numbers)
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // Cleanup is best effort: the results have been printed already.
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_parsed() {
        let parse = |text: &str| BenchOptions::parse(text.split_whitespace().map(String::from));
        let options = parse("--quick --json out.json").unwrap();
        assert_eq!((options.quick, options.json), (true, Some(PathBuf::from("out.json"))));
        assert_eq!(parse("--clusters 1,500").unwrap().clusters, Some(vec![1, 500]));
        assert_eq!(parse("--workloads 500").unwrap().workloads, Some(500));
        for wrong in [
            "--workloads 1,2",
            "--workloads 0",
            "--clusters",
            "--clusters 0",
            "--clusters 5,5",
            "--clusters 1,",
            "--clusters many",
        ] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
        assert!(parse("--json").is_err());
        assert!(parse("--fast").is_err());
    }
}

//! What all benchmarks share: options, programs, and where the numbers go.

use std::path::PathBuf;

use serde_json::{Value, json};

use crate::error::{BenchError, Outcome};
use crate::machine::{self, Machine, Others};
use crate::report;
use crate::server::{Kind, Programs, Upstream};

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Shorter, and once instead of twice: for a first look.
    pub quick: bool,
    /// Leave the real server out.
    pub alone: bool,
    pub json: Option<PathBuf>,
    /// Where the servers keep their data; it should be on the disk in question.
    pub directory: Option<PathBuf>,
    pub atoll: Option<PathBuf>,
    /// `upstream` of this repository.
    pub upstream: Option<PathBuf>,
    /// How many clusters there are, one number after the other.
    pub clusters: Option<Vec<usize>>,
}

impl Options {
    pub fn parse(arguments: impl IntoIterator<Item = String>) -> Outcome<Self> {
        let mut options = Options::default();
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
                other => return Err(BenchError::Usage(format!("there is no option {other:?}"))),
            }
        }
        Ok(options)
    }
}

/// Numbers that rise.
fn numbers(text: &str) -> Outcome<Vec<usize>> {
    let parsed: Option<Vec<usize>> = text.split(',').map(|number| number.parse().ok()).collect();
    let rising = parsed.filter(|numbers| numbers[0] > 0 && numbers.is_sorted_by(|one, next| one < next));
    rising.ok_or_else(|| BenchError::Usage(format!("{text:?} are not numbers that rise")))
}

pub struct Session {
    pub options: Options,
    pub programs: Programs,
    machine: Machine,
    directory: PathBuf,
}

impl Session {
    /// Finds the programs and says what they and this machine are. `compared`: with the real server, if possible,
    /// and these programs beside it.
    pub fn open(options: Options, compared: Option<&[&str]>) -> Outcome<Self> {
        let own = std::env::current_exe().map_err(|error| BenchError::Machine(error.to_string()))?;
        let beside = own.parent().map(PathBuf::from).unwrap_or_default();
        let atoll = options.atoll.clone().unwrap_or_else(|| beside.join("atoll"));
        if !atoll.is_file() {
            let path = atoll.display();
            return Err(BenchError::Start(format!("{path} is not there: cargo build --release -p atoll")));
        }
        let upstream = match (&options.upstream, compared.filter(|_| !options.alone)) {
            (Some(upstream), Some(besides)) => Upstream::prepare(upstream, besides)?,
            _ => None,
        };
        if compared.is_some() && upstream.is_none() && !options.alone {
            eprintln!(
                "kube-apiserver is left out: building it needs Go, see upstream/README.md. Only Atoll is measured."
            );
        }
        let directory = options.directory.clone().unwrap_or(beside);
        let directory = directory.join(format!("atoll-bench-{}", std::process::id()));
        std::fs::create_dir_all(&directory).map_err(|error| BenchError::file(&directory, &error))?;
        let mut machine = Machine::look(&directory);
        machine.add("atoll", machine::version(&atoll, "--version"));
        if let Some(upstream) = &upstream {
            let version = |name: &str| machine::version(upstream.programs.join(name), "--version");
            machine.add("compared with", format!("{}, {}", version("kube-apiserver"), version("etcd")));
        }
        machine.print();
        Ok(Session { options, programs: Programs { atoll, upstream }, machine, directory })
    }

    /// Which servers are measured.
    pub fn kinds(&self) -> Vec<Kind> {
        match self.programs.upstream {
            Some(_) => vec![Kind::Atoll, Kind::Kubernetes],
            None => vec![Kind::Atoll],
        }
    }

    /// An empty directory for a server.
    pub fn directory(&self, kind: Kind) -> PathBuf {
        self.directory.join(kind.name())
    }

    /// How long it all took, and who else was at work.
    pub fn footnotes(&self, others: &Others, share: f64) {
        let minutes = others.elapsed().as_secs_f64() / 60.0;
        println!(
            "Took {minutes:.1} minutes; other programs used {:.0} % of all cores meanwhile.",
            share * 100.0
        );
        if share > 0.1 {
            println!("That is a lot: absolute numbers are too low, and ratios uncertain.");
        }
    }

    /// Writes everything to the file that was asked for, if one was.
    pub fn save(&self, mut numbers: Value) -> Outcome<()> {
        let Some(path) = &self.options.json else { return Ok(()) };
        numbers["machine"] = self.machine.to_json();
        numbers["quick"] = json!(self.options.quick);
        report::write(path, &numbers)
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // What is left is only numbers on a terminal; a directory that stays behind harms nobody.
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read() {
        let parse = |text: &str| Options::parse(text.split_whitespace().map(String::from));
        let options = parse("--quick --json out.json").unwrap();
        assert_eq!((options.quick, options.json), (true, Some(PathBuf::from("out.json"))));
        assert_eq!(parse("--clusters 1,500").unwrap().clusters, Some(vec![1, 500]));
        for wrong in ["--clusters", "--clusters 0", "--clusters 5,5", "--clusters 1,", "--clusters many"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
        assert!(parse("--json").is_err());
        assert!(parse("--fast").is_err());
    }
}

//! Properties of the machine that are needed to judge the measurements.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::error::BenchResult;
use crate::process;

/// Names and values, in the order of the output.
pub struct Machine {
    pub facts: Vec<(&'static str, String)>,
}

impl Machine {
    pub fn inspect(directory: &Path) -> Self {
        let cores = std::thread::available_parallelism().map_or(0, usize::from);
        let processor = value("/proc/cpuinfo", "model name").unwrap_or_default();
        let memory = value("/proc/meminfo", "MemTotal").unwrap_or_default();
        let kernel = first_line("/proc/sys/kernel/osrelease");
        let facts = vec![
            ("cores", format!("{cores} ({processor})")),
            ("memory", memory),
            ("kernel", kernel),
            ("file system", file_system(directory)),
            ("rustc", version("rustc", "--version")),
            ("commit", version_of(Command::new("git").args(["describe", "--always", "--dirty"]))),
            ("load before", first_line("/proc/loadavg")),
        ];
        Machine { facts }
    }

    pub fn add(&mut self, name: &'static str, value: String) {
        self.facts.push((name, value));
    }

    pub fn print(&self) {
        for (name, value) in &self.facts {
            println!("{name:<16}{value}");
        }
        println!();
    }

    pub fn to_json(&self) -> Value {
        self.facts.iter().map(|(name, value)| ((*name).to_string(), json!(value))).collect()
    }
}

/// CPU usage of processes that are not part of the benchmark.
pub struct BackgroundLoad {
    since: Instant,
    machine: Duration,
    /// CPU time of this process and of the servers that it has started and stopped.
    measured: Duration,
}

impl BackgroundLoad {
    pub fn start() -> BenchResult<Self> {
        Ok(BackgroundLoad {
            since: Instant::now(),
            machine: process::machine_busy()?,
            measured: Duration::ZERO,
        })
    }

    /// Adds CPU time that belongs to the benchmark.
    pub fn exclude(&mut self, busy: Duration) {
        self.measured += busy;
    }

    pub fn elapsed(&self) -> Duration {
        self.since.elapsed()
    }

    /// Returns the share of all cores that other processes used.
    pub fn share(&self) -> BenchResult<f64> {
        let process = i32::try_from(std::process::id()).unwrap_or_default();
        let own = self.measured + process::busy(&[process])?;
        let elsewhere = (process::machine_busy()? - self.machine).saturating_sub(own);
        let cores = std::thread::available_parallelism().map_or(1, usize::from) as f64;
        Ok(elsewhere.as_secs_f64() / (self.since.elapsed().as_secs_f64() * cores))
    }
}

/// Returns the first line that a program prints for its version flag.
pub fn version(program: impl AsRef<std::ffi::OsStr>, flag: &str) -> String {
    version_of(Command::new(program).arg(flag))
}

fn version_of(command: &mut Command) -> String {
    let printed = command.stderr(Stdio::null()).output().map(|output| output.stdout).unwrap_or_default();
    String::from_utf8_lossy(&printed).lines().next().unwrap_or("unknown").to_string()
}

fn first_line(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default().lines().next().unwrap_or("unknown").to_string()
}

fn value(path: &str, name: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    let line = text.lines().find(|line| line.starts_with(name))?;
    line.split_once(':').map(|(_, value)| value.trim().to_string())
}

/// Returns the type, device and mount point of the file system of a directory.
fn file_system(directory: &Path) -> String {
    let Ok(path) = directory.canonicalize() else { return "unknown".into() };
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let on = mounts.lines().filter_map(|line| {
        let mut words = line.split(' ');
        let (device, point, kind) = (words.next()?, words.next()?, words.next()?);
        path.starts_with(point).then(|| (point.len(), format!("{kind} on {device}, mounted at {point}")))
    });
    // Of two mounts at the same point, the later one is visible.
    on.max_by_key(|(length, _)| *length).map_or("unknown".into(), |(_, described)| described)
}

//! `atoll start` as a child process that tests start, observe, kill and restart.

use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use tempfile::TempDir;

use super::access::Access;
use super::{WAIT_TIMEOUT, eventually_blocking};

/// Returns the binary under test: `ATOLL_BIN`, for example a release build, or the binary that cargo built
/// for the tests.
fn program() -> std::ffi::OsString {
    std::env::var_os("ATOLL_BIN").unwrap_or_else(|| env!("CARGO_BIN_EXE_atoll").into())
}

/// The settings of a server to start.
#[derive(Clone, Default)]
pub struct Setup {
    arguments: Vec<String>,
    environment: Vec<(String, String)>,
    directory: Option<PathBuf>,
    listen: Option<SocketAddr>,
    mask: Option<&'static str>,
}

impl Setup {
    pub fn new() -> Self {
        Setup::default()
    }

    pub fn flag(mut self, name: &str, value: impl ToString) -> Self {
        self.arguments.push(format!("{name}={}", value.to_string()));
        self
    }

    /// Disables everything that writes without a request.
    pub fn idle(self) -> Self {
        self.flag("--controllers", false).flag("--identity-lease", false)
    }

    pub fn variable(mut self, name: &str, value: impl ToString) -> Self {
        self.environment.push((name.into(), value.to_string()));
        self
    }

    pub fn directory(mut self, directory: &Path) -> Self {
        self.directory = Some(directory.into());
        self
    }

    /// Sets the umask of the server.
    pub fn mask(mut self, mask: &'static str) -> Self {
        self.mask = Some(mask);
        self
    }

    pub fn listen(mut self, address: SocketAddr) -> Self {
        self.listen = Some(address);
        self
    }

    /// Starts a server and waits until it is ready.
    pub fn start(self) -> Atoll {
        match self.try_start() {
            Ok(atoll) => atoll,
            Err(failed) => panic!("the server exited with {}: {}", failed.status, failed.errors),
        }
    }

    /// Like `start`, for servers that may fail to start.
    pub fn try_start(self) -> Result<Atoll, StartFailure> {
        let (directory, temporary) = match &self.directory {
            Some(directory) => (directory.clone(), None),
            None => {
                let temporary = tempfile::tempdir().unwrap();
                (temporary.path().join("data"), Some(temporary))
            }
        };
        Atoll::spawn(self, directory, temporary.map(Arc::new))
    }
}

/// A server that failed to start.
#[derive(Debug)]
pub struct StartFailure {
    pub status: ExitStatus,
    pub errors: String,
}

/// A running server, killed on drop.
pub struct Atoll {
    pub address: SocketAddr,
    pub directory: PathBuf,
    /// The line printed when it was ready.
    pub announcement: String,
    child: Child,
    log: Arc<Mutex<String>>,
    /// The thread that reads the log until the server exits.
    log_reader: Option<JoinHandle<()>>,
    setup: Setup,
    temporary: Option<Arc<TempDir>>,
}

impl Atoll {
    pub fn start() -> Atoll {
        Setup::new().start()
    }

    /// Starts a server that creates no objects in namespaces and writes nothing without a request.
    pub fn start_bare() -> Atoll {
        Setup::new().idle().start()
    }

    fn spawn(
        setup: Setup,
        directory: PathBuf,
        temporary: Option<Arc<TempDir>>,
    ) -> Result<Atoll, StartFailure> {
        let listen = setup.listen.map_or("127.0.0.1:0".to_string(), |address| address.to_string());
        let mut command = match setup.mask {
            Some(mask) => {
                let mut shell = Command::new("sh");
                shell.args(["-c", &format!("umask {mask}; exec \"$@\""), "sh"]).arg(program());
                shell
            }
            None => Command::new(program()),
        };
        command.arg("start").arg("--data-dir").arg(&directory);
        command.arg("--listen").arg(&listen).args(&setup.arguments);
        command.envs(setup.environment.iter().map(|(name, value)| (name, value)));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (log, log_reader) = collect(child.stderr.take().unwrap());
        match first_line(child.stdout.take().unwrap()) {
            Some(announcement) => {
                let address = announced_address(&announcement);
                let log_reader = Some(log_reader);
                Ok(Atoll { address, directory, announcement, child, log, log_reader, setup, temporary })
            }
            None => {
                let status = child.wait().unwrap();
                log_reader.join().unwrap();
                let errors = log.lock().unwrap().clone();
                Err(StartFailure { status, errors })
            }
        }
    }

    pub fn admin_kubeconfig(&self) -> PathBuf {
        self.directory.join("admin.kubeconfig")
    }

    /// Returns an access as administrator in the root workspace.
    pub fn admin(&self) -> Access {
        Access::from_kubeconfig(&self.admin_kubeconfig())
    }

    pub fn process(&self) -> u32 {
        self.child.id()
    }

    /// Returns the log as far as it has been read. It is complete after `wait`.
    pub fn log(&self) -> String {
        self.log.lock().unwrap().clone()
    }

    /// Waits for the first complete line of the log for which `wanted` holds. Another thread reads the log.
    pub fn logged(&self, wanted: impl Fn(&str) -> bool) -> String {
        let mut found = None;
        eventually_blocking("the expected line is logged", || {
            let log = self.log();
            let (whole, _) = log.rsplit_once('\n').unwrap_or_default();
            found = whole.lines().find(|line| wanted(line)).map(str::to_string);
            found.is_some()
        });
        found.unwrap()
    }

    /// Kills the server with SIGKILL, as in a power cut that keeps the disk.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Sends SIGTERM to the server.
    pub fn terminate(&self) {
        let process = self.child.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &process]).status().unwrap().success());
    }

    /// Waits until the server exits. The log is complete then.
    pub fn wait(&mut self) -> ExitStatus {
        let mut ended = None;
        eventually_blocking("the server has ended", || {
            ended = self.child.try_wait().unwrap();
            ended.is_some()
        });
        if let Some(log_reader) = self.log_reader.take() {
            log_reader.join().unwrap();
        }
        ended.unwrap()
    }

    /// Starts a server that has exited again, with the same directory and address.
    pub fn restart(&mut self) {
        let setup = self.setup.clone().listen(self.address);
        let mut again = None;
        eventually_blocking("the port is free again", || {
            again = match Atoll::spawn(setup.clone(), self.directory.clone(), self.temporary.clone()) {
                Ok(atoll) => Some(atoll),
                // Another process's connection may temporarily use the port as its local end.
                Err(failed) if failed.errors.contains("cannot listen") => None,
                Err(failed) => panic!("the server failed to restart: {}", failed.errors),
            };
            again.is_some()
        });
        *self = again.unwrap();
    }

    /// Returns the resident memory of the server in bytes.
    pub fn resident(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.process())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
    }

    /// Returns the number of open files and sockets of the server.
    pub fn descriptors(&self) -> usize {
        std::fs::read_dir(format!("/proc/{}/fd", self.process())).unwrap().count()
    }

    /// Returns the CPU time of the server in hundredths of a second.
    pub fn processor_ticks(&self) -> u64 {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.process())).unwrap();
        // After the name in parentheses: the state is field 3, user and system time are 14 and 15.
        let fields: Vec<&str> = stat[stat.rfind(')').unwrap() + 1..].split_whitespace().collect();
        fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
    }
}

impl Drop for Atoll {
    fn drop(&mut self) {
        // It may have exited already.
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            eprintln!("--- the server's log\n{}", self.log());
        }
    }
}

/// Returns a command of the binary under test that exits by itself.
pub fn atoll(arguments: &[&str]) -> Command {
    let mut command = Command::new(program());
    command.args(arguments).env_remove("KUBECONFIG");
    command
}

/// Returns the first line that a child prints, or `None` if it exits without one. Further lines are read and
/// dropped.
fn first_line(output: impl Read + Send + 'static) -> Option<String> {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        for line in BufReader::new(output).lines() {
            let Ok(line) = line else { return };
            // Only the first line is received.
            let _ = sender.send(line);
        }
    });
    match receiver.recv_timeout(WAIT_TIMEOUT) {
        Ok(line) => Some(line),
        Err(RecvTimeoutError::Disconnected) => None,
        Err(RecvTimeoutError::Timeout) => {
            panic!("the server neither became ready nor exited within {WAIT_TIMEOUT:?}")
        }
    }
}

fn announced_address(line: &str) -> SocketAddr {
    let behind = line.split("https://").nth(1).unwrap_or_else(|| panic!("no address in {line:?}"));
    let end = behind.find(|c: char| !(c.is_ascii_digit() || ".:[]".contains(c))).unwrap_or(behind.len());
    behind[..end].trim_end_matches('.').parse().unwrap_or_else(|_| panic!("no address in {line:?}"))
}

fn collect(mut output: impl Read + Send + 'static) -> (Arc<Mutex<String>>, JoinHandle<()>) {
    let log = Arc::new(Mutex::new(String::new()));
    let kept = log.clone();
    let log_reader = std::thread::spawn(move || {
        let mut piece = [0; 4096];
        while let Ok(count) = output.read(&mut piece) {
            if count == 0 {
                return;
            }
            kept.lock().unwrap().push_str(&String::from_utf8_lossy(&piece[..count]));
        }
    });
    (log, log_reader)
}

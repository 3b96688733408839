//! `atoll start` and `atoll sim` as child processes that tests start, observe, kill and restart.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::sync::Arc;

use rustix::process::Signal;
use tempfile::TempDir;

use crate::binary::binary;
use crate::client::Client;
use crate::command::{fail, succeed};
use crate::process::{Process, StartFailure};
use crate::wait::eventually_blocking;

/// The settings of a server to start.
#[derive(Clone, Default)]
pub struct Setup {
    simulated: bool,
    arguments: Vec<OsString>,
    environment: Vec<(String, String)>,
    directory: Option<PathBuf>,
    listen: Option<SocketAddr>,
    /// Shell commands that change limits of the server.
    shell: Vec<String>,
    tokens: Option<String>,
}

impl Setup {
    /// Returns the settings of `atoll start`.
    pub fn new() -> Self {
        Setup::default()
    }

    /// Returns the settings of `atoll sim`.
    pub fn simulated() -> Self {
        Setup { simulated: true, ..Setup::default() }
    }

    pub fn flag(self, name: &str, value: impl ToString) -> Self {
        self.arguments(&[format!("{name}={}", value.to_string())])
    }

    pub fn arguments<A: Into<OsString> + Clone>(mut self, arguments: &[A]) -> Self {
        self.arguments.extend(arguments.iter().cloned().map(Into::into));
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

    /// Sets the content of the file with static tokens: lines of token, user, uid and groups.
    pub fn tokens(mut self, lines: &str) -> Self {
        self.tokens = Some(lines.into());
        self
    }

    pub fn directory(mut self, directory: &Path) -> Self {
        self.directory = Some(directory.into());
        self
    }

    /// Sets the umask of the server.
    pub fn mask(mut self, mask: &str) -> Self {
        self.shell.push(format!("umask {mask}"));
        self
    }

    /// Sets the soft and the hard limit on open files of the server.
    pub fn open_files(mut self, limit: usize) -> Self {
        self.shell.push(format!("ulimit -n {limit}"));
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
        let temporary = Arc::new(tempfile::tempdir().expect("a temporary directory"));
        let directory = self.directory.clone().unwrap_or_else(|| temporary.path().join("data"));
        Atoll::spawn(self, directory, temporary)
    }
}

/// A running server, killed on drop.
pub struct Atoll {
    // Declared before the directory: it is dropped first, so that nothing writes there when the directory is
    // removed.
    process: Process,
    /// The address, which stays the same when the server is restarted.
    pub address: SocketAddr,
    /// The data directory.
    pub directory: PathBuf,
    setup: Setup,
    temporary: Arc<TempDir>,
}

impl Atoll {
    pub fn start() -> Atoll {
        Setup::new().start()
    }

    /// Starts a server that creates no objects in namespaces and writes nothing without a request.
    pub fn start_bare() -> Atoll {
        Setup::new().idle().start()
    }

    /// Starts a server with additional arguments of `atoll start`.
    pub fn start_with(arguments: &[&str]) -> Atoll {
        Setup::new().arguments(arguments).start()
    }

    /// Starts a simulated cluster with additional arguments of `atoll sim`.
    pub fn simulate(arguments: &[&str]) -> Atoll {
        Setup::simulated().arguments(arguments).start()
    }

    fn spawn(setup: Setup, directory: PathBuf, temporary: Arc<TempDir>) -> Result<Atoll, StartFailure> {
        let mut command = match setup.shell.join("; ") {
            none if none.is_empty() => Command::new(binary()),
            changes => {
                let mut shell = Command::new("sh");
                shell.args(["-c", &format!("{changes}; exec \"$@\""), "sh"]).arg(binary());
                shell
            }
        };
        command.arg(if setup.simulated { "sim" } else { "start" }).arg("--data-dir").arg(&directory);
        let listen = setup.listen.map_or("127.0.0.1:0".to_string(), |address| address.to_string());
        command.arg("--listen").arg(&listen).args(&setup.arguments);
        if let Some(lines) = &setup.tokens {
            let file = temporary.path().join("tokens.csv");
            std::fs::write(&file, lines).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
            command.arg("--token-auth-file").arg(file);
        }
        command.envs(setup.environment.iter().map(|(name, value)| (name, value)));
        let process = Process::start(&mut command, "ready at ")?;
        let address = announced_address(&process.printed.concat());
        Ok(Atoll { process, address, directory, setup, temporary })
    }

    /// Returns what was printed until the server was ready.
    pub fn announcement(&self) -> String {
        self.process.printed.join("\n")
    }

    /// Returns `https://127.0.0.1:PORT`.
    pub fn url(&self) -> String {
        format!("https://{}", self.address)
    }

    /// Returns the path of an administrator's kubeconfig with a client certificate.
    pub fn kubeconfig(&self) -> PathBuf {
        self.directory.join("admin.kubeconfig")
    }

    /// Returns a client of an administrator in the root workspace, with a certificate.
    pub fn admin(&self) -> Client {
        Client::from_kubeconfig(&self.kubeconfig())
    }

    /// Returns a command of the binary that uses this server and exits by itself. `line` is split at spaces.
    pub fn command(&self, line: &str) -> Command {
        let mut command = atoll(&line.split(' ').collect::<Vec<_>>());
        command.env("KUBECONFIG", self.kubeconfig()).stdin(std::process::Stdio::null());
        command
    }

    /// Runs a command that must succeed and returns its standard output.
    #[track_caller]
    pub fn run(&self, line: &str) -> String {
        succeed(&mut self.command(line))
    }

    /// Runs a command that must fail and returns its standard error.
    #[track_caller]
    pub fn run_failing(&self, line: &str) -> String {
        fail(&mut self.command(line))
    }

    /// Runs `atoll sim fault …` for a simulated cluster and returns its output.
    pub fn fault(&self, arguments: &str) -> String {
        fault(&self.kubeconfig(), arguments)
    }

    /// Returns the process id.
    pub fn process(&self) -> u32 {
        self.process.id()
    }

    /// Returns the log as far as it has been read. It is complete after `wait`.
    pub fn log(&self) -> String {
        self.process.log()
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
        found.expect("it was found")
    }

    /// Kills the server with SIGKILL, as in a power cut that keeps the disk.
    pub fn kill(&mut self) {
        self.process.signal(Signal::KILL);
        self.process.wait();
    }

    /// Sends SIGTERM to the server.
    pub fn terminate(&self) {
        self.process.signal(Signal::TERM);
    }

    /// Waits until the server exits. The log is complete then.
    pub fn wait(&mut self) -> ExitStatus {
        let status = self.process.wait();
        self.process.finish_log();
        status
    }

    /// Terminates the server and waits until it exits.
    pub fn stop(&mut self) -> ExitStatus {
        self.terminate();
        self.wait()
    }

    /// Starts the server again with the same data and address, after stopping it if it is running.
    pub fn restart(&mut self) {
        self.stop();
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
        *self = again.expect("it was started");
    }

    /// Returns the resident memory of the server in bytes.
    pub fn resident(&self) -> u64 {
        let status = self.proc("status");
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("VmRSS");
        line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") << 10
    }

    /// Returns the number of open files and sockets of the server.
    pub fn descriptors(&self) -> usize {
        let directory = format!("/proc/{}/fd", self.process());
        std::fs::read_dir(&directory).unwrap_or_else(|error| panic!("{directory}: {error}")).count()
    }

    /// Returns the CPU time of the server in hundredths of a second.
    pub fn processor_ticks(&self) -> u64 {
        let stat = self.proc("stat");
        // After the name in parentheses: the state is field 3, user and system time are 14 and 15.
        let (_, fields) = stat.rsplit_once(')').expect("a name in parentheses");
        let times = fields.split_whitespace().skip(11).take(2);
        times.map(|ticks| ticks.parse::<u64>().expect("a number")).sum()
    }

    fn proc(&self, file: &str) -> String {
        let path = format!("/proc/{}/{file}", self.process());
        std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
    }
}

impl Drop for Atoll {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("--- the server's log\n{}", self.log());
        }
    }
}

/// Returns a command of the binary under test that exits by itself.
pub fn atoll(arguments: &[&str]) -> Command {
    let mut command = Command::new(binary());
    command.args(arguments).env_remove("KUBECONFIG");
    command
}

/// Runs `atoll sim fault …` in the current context of a kubeconfig and returns its output.
pub fn fault(kubeconfig: &Path, arguments: &str) -> String {
    let mut command = atoll(&["sim", "fault"]);
    succeed(command.args(arguments.split(' ')).env("KUBECONFIG", kubeconfig))
}

fn announced_address(printed: &str) -> SocketAddr {
    let behind = printed.split("https://").nth(1).unwrap_or_else(|| panic!("no address in {printed:?}"));
    let end = behind.find(|c: char| !(c.is_ascii_digit() || ".:[]".contains(c))).unwrap_or(behind.len());
    behind[..end].trim_end_matches('.').parse().unwrap_or_else(|_| panic!("no address in {printed:?}"))
}

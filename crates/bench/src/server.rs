//! The servers that are measured: each started afresh, in an empty directory, and stopped at the end.

use std::fs::{self, File};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::connection::Target;
use crate::error::{BenchError, Outcome};
use crate::process;

/// The token of an administrator, on both.
const TOKEN: &str = "admin-token";
/// How long a server may take to start.
const PATIENCE: Duration = Duration::from_secs(120);
/// How long a server may take to stop before it is killed.
const GRACE: Duration = Duration::from_secs(15);
/// How often a server that starts is asked whether it is ready.
const ASK: Duration = Duration::from_millis(2);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Atoll,
    /// kube-apiserver with etcd.
    Kubernetes,
}

/// Where the programs are.
pub struct Programs {
    pub atoll: PathBuf,
    /// The directory with `build` and `serve`, if Go is there to build what they need.
    pub upstream: Option<Upstream>,
}

pub struct Upstream {
    directory: PathBuf,
    /// Where the built programs are.
    pub programs: PathBuf,
}

pub struct Running {
    pub target: Target,
    /// From the start of the first process until `/readyz` said yes.
    pub ready: Duration,
    /// The processes that are the server: kube-apiserver and etcd count together.
    pub processes: Vec<i32>,
    child: Child,
    /// What was started beside it.
    beside: Vec<Child>,
    directory: PathBuf,
}

impl Kind {
    pub fn name(self) -> &'static str {
        match self {
            Kind::Atoll => "atoll",
            Kind::Kubernetes => "kube-apiserver",
        }
    }
}

impl Upstream {
    /// Builds the real server if it is not there yet. `None`, and a sentence that says so, without Go.
    pub fn prepare(directory: &Path, besides: &[&str]) -> Outcome<Option<Self>> {
        let built = Command::new(directory.join("build"))
            .args(["keys", "etcd", "kube-apiserver"])
            .args(besides)
            .stderr(Stdio::inherit())
            .output()
            .map_err(|error| BenchError::file(&directory.join("build"), &error))?;
        match built.status.code() {
            Some(0) => {
                let programs = PathBuf::from(String::from_utf8_lossy(&built.stdout).trim());
                Ok(Some(Upstream { directory: directory.to_path_buf(), programs }))
            }
            Some(3) => Ok(None),
            _ => Err(BenchError::Start("kube-apiserver and etcd could not be built".into())),
        }
    }
}

impl Programs {
    /// Both sides without controllers, which kube-apiserver has elsewhere.
    pub fn start(&self, kind: Kind, directory: &Path) -> Outcome<Running> {
        fs::create_dir_all(directory).map_err(|error| BenchError::file(directory, &error))?;
        let address = free_address()?;
        match kind {
            Kind::Atoll => self.start_atoll(directory, address, false),
            Kind::Kubernetes => self.start_kubernetes(directory, address),
        }
    }

    /// Atoll as users run it.
    pub fn start_whole(&self, directory: &Path) -> Outcome<Running> {
        fs::create_dir_all(directory).map_err(|error| BenchError::file(directory, &error))?;
        self.start_atoll(directory, free_address()?, true)
    }

    /// Stops Atoll and starts it again with the data that it has, without controllers.
    pub fn restart(&self, mut running: Running) -> Outcome<Running> {
        running.halt();
        // Without a directory, nothing is deleted when it is dropped.
        let directory = std::mem::take(&mut running.directory);
        self.start_atoll(&directory, free_address()?, false)
    }

    /// A simulated cluster whose pods start at once.
    pub fn start_sim(&self, directory: &Path, nodes: usize) -> Outcome<Running> {
        fs::create_dir_all(directory).map_err(|error| BenchError::file(directory, &error))?;
        let address = free_address()?;
        let (data, tokens) = (directory.join("data"), tokens(directory)?);
        let mut command = guarded(&self.atoll);
        command.arg("sim").arg("--data-dir").arg(&data).arg("--token-auth-file").arg(&tokens);
        command.args(["--listen", &address.to_string(), "--nodes", &nodes.to_string()]);
        command.args(["--pod-start-delay", "0s"]);
        let began = Instant::now();
        let child = spawn(command, directory)?;
        let mut running = Running::new(child, directory, address, &data.join("ca.crt"))?;
        running.ready = began.elapsed();
        running.processes = vec![i32::try_from(running.child.id()).unwrap_or_default()];
        Ok(running)
    }

    /// Starts the rest of a cluster beside kube-apiserver: controllers, scheduler and KWOK, with limits that do not bind.
    pub fn surround(&self, mut running: Running, directory: &Path) -> Outcome<Running> {
        let missing = || BenchError::Start("kube-apiserver has not been built".into());
        let programs = &self.upstream.as_ref().ok_or_else(missing)?.programs;
        let kubeconfig = directory.join("kubeconfig");
        let shown = kubeconfig.display().to_string();
        let config = directory.join("scheduler.yaml");
        let text = fs::read_to_string(&config).map_err(|error| BenchError::file(&config, &error))?;
        fs::write(&config, text.replace("KUBECONFIG", &shown))
            .map_err(|error| BenchError::file(&config, &error))?;
        let key = directory.join("keys").join("service-account.key").display().to_string();
        let port = |flag: &str| free_address().map(|address| format!("--{flag}={}", address.port()));
        let commands = [
            (
                "kube-controller-manager",
                vec![
                    format!("--kubeconfig={shown}"),
                    port("secure-port")?,
                    "--bind-address=127.0.0.1".into(),
                    "--leader-elect=false".into(),
                    format!("--service-account-private-key-file={key}"),
                    "--kube-api-qps=10000".into(),
                    "--kube-api-burst=10000".into(),
                    "--concurrent-replicaset-syncs=20".into(),
                ],
            ),
            (
                "kube-scheduler",
                vec![
                    format!("--config={}", config.display()),
                    port("secure-port")?,
                    "--bind-address=127.0.0.1".into(),
                ],
            ),
            (
                "kwok",
                vec![
                    format!("--kubeconfig={shown}"),
                    format!("--config={}", directory.join("stages.yaml").display()),
                    "--manage-all-nodes".into(),
                    "--node-ip=10.1.0.1".into(),
                    "--cidr=10.2.0.0/16".into(),
                    "--node-lease-duration-seconds=40".into(),
                ],
            ),
        ];
        for (name, arguments) in commands {
            let mut command = guarded(&programs.join(name));
            command.args(arguments);
            let child = spawn_logged(command, &directory.join(format!("{name}.log")))?;
            running.processes.push(i32::try_from(child.id()).unwrap_or_default());
            running.beside.push(child);
        }
        Ok(running)
    }

    fn start_atoll(&self, directory: &Path, address: SocketAddr, controllers: bool) -> Outcome<Running> {
        let (data, tokens) = (directory.join("data"), tokens(directory)?);
        let mut command = guarded(&self.atoll);
        command.arg("start").arg("--data-dir").arg(&data).arg("--token-auth-file").arg(&tokens);
        command.args(["--listen", &address.to_string(), "--controllers", &controllers.to_string()]);
        let began = Instant::now();
        let child = spawn(command, directory)?;
        let mut running = Running::new(child, directory, address, &data.join("ca.crt"))?;
        running.ready = began.elapsed();
        running.processes = vec![i32::try_from(running.child.id()).unwrap_or_default()];
        Ok(running)
    }

    fn start_kubernetes(&self, directory: &Path, address: SocketAddr) -> Outcome<Running> {
        let missing = || BenchError::Start("kube-apiserver has not been built".into());
        let upstream = self.upstream.as_ref().ok_or_else(missing)?;
        let mut command = Command::new(upstream.directory.join("serve"));
        command.arg(directory).args(["--port", &address.port().to_string()]);
        let child = spawn(command, directory)?;
        let authority = directory.join("keys").join("ca.crt");
        let mut running = Running::new(child, directory, address, &authority)?;
        let ready = process::uptime();
        // The script looks less often than we do.
        let environment =
            wait(&mut running.child, directory, || fs::read_to_string(directory.join("env")).ok())?;
        let number = |name: &str| {
            let line = environment.lines().find_map(|line| line.strip_prefix(name));
            let value =
                line.and_then(|rest| rest.strip_prefix('=')).and_then(|text| text.parse::<i32>().ok());
            value.ok_or_else(|| BenchError::Start(format!("upstream/serve did not tell its {name}")))
        };
        running.processes = vec![number("APISERVER_PID")?, number("ETCD_PID")?];
        // The script itself first makes keys, which is not what is measured; etcd is the first that it starts.
        running.ready = ready.saturating_sub(process::started(running.processes[1])?);
        Ok(running)
    }
}

impl Running {
    /// Waits until the server at `address` is ready.
    fn new(child: Child, directory: &Path, address: SocketAddr, authority: &Path) -> Outcome<Running> {
        // Made before anything can fail, so that the server is stopped then too.
        let nobody = Target::none(address)?;
        let directory = directory.to_path_buf();
        let (ready, processes) = (Duration::ZERO, Vec::new());
        let mut running = Running { target: nobody, ready, processes, child, beside: Vec::new(), directory };
        let runtime = runtime()?;
        running.target = wait(&mut running.child, &running.directory, || {
            let target = Target::new(address, TOKEN, &fs::read(authority).ok()?).ok()?;
            let (answer, _) = runtime.block_on(target.try_call("GET", "/readyz", "")).ok()?;
            (answer.status == 200).then_some(target)
        })?;
        Ok(running)
    }

    /// Stops the server, and returns how long its processes had kept cores busy.
    pub fn stop(mut self) -> Outcome<Duration> {
        let busy = process::busy(&self.processes)?;
        self.end();
        Ok(busy)
    }

    fn end(&mut self) {
        self.halt();
        let _ = fs::remove_dir_all(&self.directory);
    }

    fn halt(&mut self) {
        for mut child in self.beside.drain(..) {
            let _ = child.kill();
            let _ = child.wait();
        }
        let process = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        if let (Ok(None), Some(process)) = (self.child.try_wait(), process) {
            // A process that is gone already needs no signal.
            let _ = kill_process(process, Signal::TERM);
            let deadline = Instant::now() + GRACE;
            while Instant::now() < deadline && matches!(self.child.try_wait(), Ok(None)) {
                std::thread::sleep(Duration::from_millis(20));
            }
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.end();
    }
}

/// A runtime for single requests.
pub fn runtime() -> Outcome<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| BenchError::Machine(error.to_string()))
}

/// The file with the administrator's token.
fn tokens(directory: &Path) -> Outcome<PathBuf> {
    let tokens = directory.join("tokens.csv");
    fs::write(&tokens, format!("{TOKEN},admin,admin,system:masters\n"))
        .map_err(|error| BenchError::file(&tokens, &error))?;
    Ok(tokens)
}

/// A command that ends with this program even if that is killed, where there is setpriv (not on every system).
fn guarded(program: &Path) -> Command {
    let known = Command::new("setpriv").arg("--version").stdout(Stdio::null()).status().is_ok();
    if !known {
        return Command::new(program);
    }
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL"]).arg(program);
    command
}

fn spawn(command: Command, directory: &Path) -> Outcome<Child> {
    spawn_logged(command, &log(directory))
}

fn spawn_logged(mut command: Command, path: &Path) -> Outcome<Child> {
    let file = File::create(path).map_err(|error| BenchError::file(path, &error))?;
    let output = file.try_clone().map_err(|error| BenchError::file(path, &error))?;
    command.stdin(Stdio::null()).stdout(output).stderr(file);
    let program = command.get_program().to_string_lossy().into_owned();
    command.spawn().map_err(|error| BenchError::Start(format!("cannot start {program}: {error}")))
}

fn log(directory: &Path) -> PathBuf {
    directory.join("bench.log")
}

/// Looks until there is something to see, or the server has ended, or nobody would wait any longer.
fn wait<T>(child: &mut Child, directory: &Path, mut look: impl FnMut() -> Option<T>) -> Outcome<T> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(seen) = look() {
            return Ok(seen);
        }
        let ended = !matches!(child.try_wait(), Ok(None));
        if ended || Instant::now() > deadline {
            let said = fs::read_to_string(log(directory)).unwrap_or_default();
            let what = if ended { "ended before it was ready" } else { "was not ready in two minutes" };
            return Err(BenchError::Start(format!("the server {what}. It said: {}", said.trim())));
        }
        std::thread::sleep(ASK);
    }
}

fn free_address() -> Outcome<SocketAddr> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
    listener
        .and_then(|listener| listener.local_addr())
        .map_err(|error| BenchError::Machine(format!("no free port on loopback: {error}")))
}

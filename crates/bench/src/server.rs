//! The servers under test: each is started in an empty directory and stopped at the end.

use std::fs::{self, File};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::connection::Target;
use crate::error::{BenchError, BenchResult};
use crate::process;

/// Token of an administrator on both servers.
const TOKEN: &str = "admin-token";
/// Maximum time for a server to become ready.
const READY_TIMEOUT: Duration = Duration::from_secs(120);
/// Maximum time for a server to stop before it is killed.
const STOP_TIMEOUT: Duration = Duration::from_secs(15);
/// Interval between readiness checks of a starting server.
const POLL_INTERVAL: Duration = Duration::from_millis(2);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerKind {
    Atoll,
    /// kube-apiserver with etcd.
    Kubernetes,
}

/// Paths of the server programs.
pub struct Programs {
    pub atoll: PathBuf,
    /// Scripts and programs of kube-apiserver, if Go is installed to build them.
    pub upstream: Option<Upstream>,
}

pub struct Upstream {
    directory: PathBuf,
    /// Directory of the built programs.
    pub programs: PathBuf,
}

pub struct RunningServer {
    pub target: Target,
    /// Time from the start of the first process until `/readyz` returned 200.
    pub ready: Duration,
    /// Processes of the server. kube-apiserver and etcd count together.
    pub processes: Vec<i32>,
    child: Child,
    /// Other components of the cluster, such as kube-scheduler.
    components: Vec<Child>,
    directory: PathBuf,
}

impl ServerKind {
    pub fn name(self) -> &'static str {
        match self {
            ServerKind::Atoll => "atoll",
            ServerKind::Kubernetes => "kube-apiserver",
        }
    }
}

impl Upstream {
    /// Builds kube-apiserver and etcd if needed. Returns `None` if Go is not installed.
    pub fn prepare(directory: &Path, components: &[&str]) -> BenchResult<Option<Self>> {
        let built = Command::new(directory.join("build"))
            .args(["keys", "etcd", "kube-apiserver"])
            .args(components)
            .stderr(Stdio::inherit())
            .output()
            .map_err(|error| BenchError::file(&directory.join("build"), &error))?;
        match built.status.code() {
            Some(0) => {
                let programs = PathBuf::from(String::from_utf8_lossy(&built.stdout).trim());
                Ok(Some(Upstream { directory: directory.to_path_buf(), programs }))
            }
            Some(3) => Ok(None),
            _ => Err(BenchError::Start("cannot build kube-apiserver and etcd; see the output above".into())),
        }
    }
}

impl Programs {
    /// Starts a server. Both kinds run without controllers, because kube-apiserver has none.
    pub fn start(&self, kind: ServerKind, directory: &Path) -> BenchResult<RunningServer> {
        fs::create_dir_all(directory).map_err(|error| BenchError::file(directory, &error))?;
        let address = free_address()?;
        match kind {
            ServerKind::Atoll => self.start_atoll(directory, address, false),
            ServerKind::Kubernetes => self.start_kubernetes(directory, address),
        }
    }

    /// Starts Atoll with its default settings, including controllers.
    pub fn start_with_controllers(&self, directory: &Path) -> BenchResult<RunningServer> {
        fs::create_dir_all(directory).map_err(|error| BenchError::file(directory, &error))?;
        self.start_atoll(directory, free_address()?, true)
    }

    /// Stops Atoll and starts it again with the same data, without controllers.
    pub fn restart(&self, mut running: RunningServer) -> BenchResult<RunningServer> {
        running.halt();
        // Dropping a server deletes its directory, so take the directory out first.
        let directory = std::mem::take(&mut running.directory);
        self.start_atoll(&directory, free_address()?, false)
    }

    /// Starts a simulated cluster without a start delay for pods.
    pub fn start_sim(&self, directory: &Path, nodes: usize) -> BenchResult<RunningServer> {
        fs::create_dir_all(directory).map_err(|error| BenchError::file(directory, &error))?;
        let address = free_address()?;
        let (data, tokens) = (directory.join("data"), tokens(directory)?);
        let mut command = killed_with_parent(&self.atoll);
        command.arg("sim").arg("--data-dir").arg(&data).arg("--token-auth-file").arg(&tokens);
        command.args(["--listen", &address.to_string(), "--nodes", &nodes.to_string()]);
        command.args(["--pod-start-delay", "0s"]);
        let began = Instant::now();
        let child = spawn(command, directory)?;
        let mut running = RunningServer::new(child, directory, address, &data.join("ca.crt"))?;
        running.ready = began.elapsed();
        running.processes = vec![i32::try_from(running.child.id()).unwrap_or_default()];
        Ok(running)
    }

    /// Starts kube-controller-manager, kube-scheduler and KWOK for a kube-apiserver, with high client rate
    /// limits.
    pub fn start_other_components(
        &self,
        mut running: RunningServer,
        directory: &Path,
    ) -> BenchResult<RunningServer> {
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
            let mut command = killed_with_parent(&programs.join(name));
            command.args(arguments);
            let child = spawn_logged(command, &directory.join(format!("{name}.log")))?;
            running.processes.push(i32::try_from(child.id()).unwrap_or_default());
            running.components.push(child);
        }
        Ok(running)
    }

    fn start_atoll(
        &self,
        directory: &Path,
        address: SocketAddr,
        controllers: bool,
    ) -> BenchResult<RunningServer> {
        let (data, tokens) = (directory.join("data"), tokens(directory)?);
        let mut command = killed_with_parent(&self.atoll);
        command.arg("start").arg("--data-dir").arg(&data).arg("--token-auth-file").arg(&tokens);
        command.args(["--listen", &address.to_string(), "--controllers", &controllers.to_string()]);
        let began = Instant::now();
        let child = spawn(command, directory)?;
        let mut running = RunningServer::new(child, directory, address, &data.join("ca.crt"))?;
        running.ready = began.elapsed();
        running.processes = vec![i32::try_from(running.child.id()).unwrap_or_default()];
        Ok(running)
    }

    fn start_kubernetes(&self, directory: &Path, address: SocketAddr) -> BenchResult<RunningServer> {
        let missing = || BenchError::Start("kube-apiserver has not been built".into());
        let upstream = self.upstream.as_ref().ok_or_else(missing)?;
        let mut command = Command::new(upstream.directory.join("serve"));
        command.arg(directory).args(["--port", &address.port().to_string()]);
        let child = spawn(command, directory)?;
        let authority = directory.join("keys").join("ca.crt");
        let mut running = RunningServer::new(child, directory, address, &authority)?;
        let ready = process::uptime();
        // The script polls less often than this program.
        let environment =
            wait(&mut running.child, directory, || fs::read_to_string(directory.join("env")).ok())?;
        let number = |name: &str| {
            let line = environment.lines().find_map(|line| line.strip_prefix(name));
            let value =
                line.and_then(|rest| rest.strip_prefix('=')).and_then(|text| text.parse::<i32>().ok());
            value.ok_or_else(|| {
                BenchError::Start(format!("upstream/serve did not write {name} to its env file"))
            })
        };
        running.processes = vec![number("APISERVER_PID")?, number("ETCD_PID")?];
        // The script creates keys first, which is not measured. etcd is the first process that it starts.
        running.ready = ready.saturating_sub(process::started(running.processes[1])?);
        Ok(running)
    }
}

impl RunningServer {
    /// Waits until the server at `address` is ready.
    fn new(
        child: Child,
        directory: &Path,
        address: SocketAddr,
        authority: &Path,
    ) -> BenchResult<RunningServer> {
        // Created before anything can fail, so that dropping it stops the server.
        let target = Target::without_ca(address)?;
        let directory = directory.to_path_buf();
        let (ready, processes) = (Duration::ZERO, Vec::new());
        let mut running =
            RunningServer { target, ready, processes, child, components: Vec::new(), directory };
        let runtime = runtime()?;
        running.target = wait(&mut running.child, &running.directory, || {
            let target = Target::new(address, TOKEN, &fs::read(authority).ok()?).ok()?;
            let (answer, _) = runtime.block_on(target.try_call("GET", "/readyz", "")).ok()?;
            (answer.status == 200).then_some(target)
        })?;
        Ok(running)
    }

    /// Stops the server and returns the CPU time of its processes.
    pub fn stop(mut self) -> BenchResult<Duration> {
        let busy = process::busy(&self.processes)?;
        self.end();
        Ok(busy)
    }

    fn end(&mut self) {
        self.halt();
        let _ = fs::remove_dir_all(&self.directory);
    }

    fn halt(&mut self) {
        for mut child in self.components.drain(..) {
            let _ = child.kill();
            let _ = child.wait();
        }
        let process = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        if let (Ok(None), Some(process)) = (self.child.try_wait(), process) {
            // The process may have exited already.
            let _ = kill_process(process, Signal::TERM);
            let deadline = Instant::now() + STOP_TIMEOUT;
            while Instant::now() < deadline && matches!(self.child.try_wait(), Ok(None)) {
                std::thread::sleep(Duration::from_millis(20));
            }
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

impl Drop for RunningServer {
    fn drop(&mut self) {
        self.end();
    }
}

/// Creates a runtime for single requests.
pub fn runtime() -> BenchResult<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| BenchError::Machine(error.to_string()))
}

/// Writes the token file for the administrator and returns its path.
fn tokens(directory: &Path) -> BenchResult<PathBuf> {
    let tokens = directory.join("tokens.csv");
    fs::write(&tokens, format!("{TOKEN},admin,admin,system:masters\n"))
        .map_err(|error| BenchError::file(&tokens, &error))?;
    Ok(tokens)
}

/// Returns a command for a program that is killed when this process ends, even if this process is killed, if
/// setpriv is installed.
fn killed_with_parent(program: &Path) -> Command {
    let known = Command::new("setpriv").arg("--version").stdout(Stdio::null()).status().is_ok();
    if !known {
        return Command::new(program);
    }
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL"]).arg(program);
    command
}

fn spawn(command: Command, directory: &Path) -> BenchResult<Child> {
    spawn_logged(command, &log(directory))
}

fn spawn_logged(mut command: Command, path: &Path) -> BenchResult<Child> {
    let file = File::create(path).map_err(|error| BenchError::file(path, &error))?;
    let output = file.try_clone().map_err(|error| BenchError::file(path, &error))?;
    command.stdin(Stdio::null()).stdout(output).stderr(file);
    let program = command.get_program().to_string_lossy().into_owned();
    command.spawn().map_err(|error| BenchError::Start(format!("cannot start {program}: {error}")))
}

fn log(directory: &Path) -> PathBuf {
    directory.join("bench.log")
}

/// Polls until `look` returns a value, the server exits, or the time limit is exceeded.
fn wait<T>(child: &mut Child, directory: &Path, mut look: impl FnMut() -> Option<T>) -> BenchResult<T> {
    let deadline = Instant::now() + READY_TIMEOUT;
    loop {
        if let Some(seen) = look() {
            return Ok(seen);
        }
        let ended = !matches!(child.try_wait(), Ok(None));
        if ended || Instant::now() > deadline {
            let log = fs::read_to_string(log(directory)).unwrap_or_default();
            let what = if ended { "exited before it was ready" } else { "was not ready within two minutes" };
            return Err(BenchError::Start(format!("the server {what}. Its log: {}", log.trim())));
        }
        std::thread::sleep(POLL_INTERVAL);
    }
}

fn free_address() -> BenchResult<SocketAddr> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
    listener
        .and_then(|listener| listener.local_addr())
        .map_err(|error| BenchError::Machine(format!("no free port on loopback: {error}")))
}

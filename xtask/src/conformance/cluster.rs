//! Atoll and the other components that a group of tests needs. All processes are stopped on drop.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::net::{IpAddr, TcpListener, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// The controllers that run.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Controllers {
    /// Atoll's controllers, with default settings.
    Default,
    /// kube-controller-manager; Atoll's controllers are disabled.
    Upstream,
    /// Atoll's controllers, for tests that expect kube-controller-manager.
    Own,
}

// Fields are dropped in this order: the client before the server.
pub struct Cluster {
    _controllers: Option<ProcessGuard>,
    _server: ProcessGuard,
    /// Kubeconfig of an administrator.
    pub kubeconfig: PathBuf,
}

impl Cluster {
    /// Starts the cluster with its data and logs in `directory`.
    pub fn start(
        atoll: &Path,
        programs: &Path,
        controllers: Controllers,
        directory: &Path,
    ) -> Result<Cluster, String> {
        let data = directory.join("data");
        let mut command = ProcessGuard::command(atoll);
        command.args(["start", "--listen", "0.0.0.0:0", "--data-dir"]).arg(&data);
        command.arg("--advertise-address").arg(own_address()?.to_string());
        match controllers {
            Controllers::Default => {}
            // kube-controller-manager runs the same controllers.
            Controllers::Upstream => {
                command.arg("--controllers=false");
            }
            // These tests expect Pods in the API server. By default, Pods are created in member clusters
            // only.
            Controllers::Own => {
                command.arg("--grain=pod");
            }
        }
        let server = ProcessGuard::start_until_ready(&mut command, &directory.join("atoll.log"))?;
        let kubeconfig = data.join("admin.kubeconfig");
        let start_manager =
            || start_controller_manager(programs, &kubeconfig, &data.join("ca.crt"), directory);
        let controllers = (controllers == Controllers::Upstream).then(start_manager).transpose()?;
        Ok(Cluster { _controllers: controllers, _server: server, kubeconfig })
    }
}

/// Starts kube-controller-manager with the flags that installers use.
fn start_controller_manager(
    programs: &Path,
    kubeconfig: &Path,
    ca_certificate: &Path,
    directory: &Path,
) -> Result<ProcessGuard, String> {
    let keys = directory.join("keys");
    let created = Command::new(programs.join("keys")).arg(&keys).status();
    if !created.is_ok_and(|status| status.success()) {
        return Err(format!("cannot create keys in {}", keys.display()));
    }
    let key = |name: &str| keys.join(name).display().to_string();
    let port = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
    let port = port.map_err(|error| format!("no free port: {error}"))?.port();
    let kubeconfig = kubeconfig.display();
    let mut command = ProcessGuard::command(&programs.join("kube-controller-manager"));
    command
        .arg(format!("--kubeconfig={kubeconfig}"))
        .arg(format!("--authentication-kubeconfig={kubeconfig}"))
        .arg(format!("--authorization-kubeconfig={kubeconfig}"))
        .args(["--bind-address=127.0.0.1", &format!("--secure-port={port}")])
        .arg(format!("--service-account-private-key-file={}", key("service-account.key")))
        .arg(format!("--root-ca-file={}", ca_certificate.display()))
        .arg(format!("--cluster-signing-cert-file={}", key("ca.crt")))
        .arg(format!("--cluster-signing-key-file={}", key("ca.key")))
        // One test waits for the next full resync of quotas.
        .arg("--resource-quota-sync-period=30s")
        .args(["--kube-api-qps=500", "--kube-api-burst=500"]);
    ProcessGuard::start(&mut command, &directory.join("kube-controller-manager.log"))
}

/// Returns an address of this machine that is not loopback, if there is one, because one test requires it.
/// Connecting a UDP socket sends no packets.
fn own_address() -> Result<IpAddr, String> {
    let address = UdpSocket::bind("0.0.0.0:0").and_then(|socket| {
        // An address reserved for documentation, which is routed like any other.
        socket.connect("192.0.2.1:9").or_else(|_| socket.connect("127.0.0.1:9"))?;
        socket.local_addr()
    });
    address
        .map(|address| address.ip())
        .map_err(|error| format!("cannot find an address of this machine: {error}"))
}

/// A process that is killed on drop.
pub struct ProcessGuard {
    child: Child,
}

impl ProcessGuard {
    /// Returns a command for a program that is killed when this process ends, even if this process is killed,
    /// if setpriv is installed.
    pub fn command(program: &Path) -> Command {
        let has_setpriv = Command::new("setpriv").arg("--version").output().is_ok();
        if !has_setpriv {
            return Command::new(program);
        }
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL"]).arg(program);
        command
    }

    pub fn start(command: &mut Command, log: &Path) -> Result<ProcessGuard, String> {
        let output = File::create(log).map_err(|error| format!("{}: {error}", log.display()))?;
        let errors = output.try_clone().map_err(|error| format!("{}: {error}", log.display()))?;
        spawn(command.stdout(output).stderr(errors))
    }

    /// Starts a process and waits for its first line on standard output. Standard error goes to the log.
    pub fn start_until_ready(command: &mut Command, log: &Path) -> Result<ProcessGuard, String> {
        let output = File::create(log).map_err(|error| format!("{}: {error}", log.display()))?;
        let mut running = spawn(command.stdout(Stdio::piped()).stderr(output))?;
        let mut line = String::new();
        if let Some(output) = running.child.stdout.take() {
            BufReader::new(output).read_line(&mut line).map_err(|error| error.to_string())?;
        }
        match line.is_empty() {
            true => Err(format!("{command:?} exited; see {}", log.display())),
            false => Ok(running),
        }
    }

    pub fn is_running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }
}

fn spawn(command: &mut Command) -> Result<ProcessGuard, String> {
    let child = command.stdin(Stdio::null()).spawn();
    child.map(|child| ProcessGuard { child }).map_err(|error| format!("cannot start {command:?}: {error}"))
}

impl Drop for ProcessGuard {
    fn drop(&mut self) {
        // The process may have exited already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

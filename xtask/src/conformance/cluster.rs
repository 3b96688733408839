//! Atoll with what a group of tests needs beside it. Everything ends with it.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::net::{IpAddr, TcpListener, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// Which controllers run.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Controllers {
    /// Atoll's, with all of its settings as they are by default.
    Default,
    /// kube-controller-manager's, beside Atoll.
    Upstream,
    /// Atoll's, where the tests expect kube-controller-manager's.
    Own,
}

// Fields are dropped in this order: first the client, then the server.
pub struct Cluster {
    _controllers: Option<Running>,
    _server: Running,
    /// An administrator's.
    pub kubeconfig: PathBuf,
}

impl Cluster {
    /// With its data and its logs in `directory`.
    pub fn start(
        atoll: &Path,
        programs: &Path,
        controllers: Controllers,
        directory: &Path,
    ) -> Result<Cluster, String> {
        let data = directory.join("data");
        let mut command = Running::command(atoll);
        command.args(["start", "--listen", "0.0.0.0:0", "--data-dir"]).arg(&data);
        command.arg("--advertise-address").arg(own_address()?.to_string());
        match controllers {
            Controllers::Default => {}
            // kube-controller-manager's do the same.
            Controllers::Upstream => {
                command.arg("--controllers=false");
            }
            // The tests of controllers want to see Pods, which by default are made in clusters.
            Controllers::Own => {
                command.arg("--grain=pod");
            }
        }
        let server = Running::start_until_ready(&mut command, &directory.join("atoll.log"))?;
        let kubeconfig = data.join("admin.kubeconfig");
        let beside = || manager(programs, &kubeconfig, &data.join("ca.crt"), directory);
        let controllers = (controllers == Controllers::Upstream).then(beside).transpose()?;
        Ok(Cluster { _controllers: controllers, _server: server, kubeconfig })
    }
}

/// kube-controller-manager with the flags that installers give it.
fn manager(
    programs: &Path,
    kubeconfig: &Path,
    authority: &Path,
    directory: &Path,
) -> Result<Running, String> {
    let keys = directory.join("keys");
    let made = Command::new(programs.join("keys")).arg(&keys).status();
    if !made.is_ok_and(|status| status.success()) {
        return Err(format!("no keys could be made in {}", keys.display()));
    }
    let key = |name: &str| keys.join(name).display().to_string();
    let port = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
    let port = port.map_err(|error| format!("no free port: {error}"))?.port();
    let kubeconfig = kubeconfig.display();
    let mut command = Running::command(&programs.join("kube-controller-manager"));
    command
        .arg(format!("--kubeconfig={kubeconfig}"))
        .arg(format!("--authentication-kubeconfig={kubeconfig}"))
        .arg(format!("--authorization-kubeconfig={kubeconfig}"))
        .args(["--bind-address=127.0.0.1", &format!("--secure-port={port}")])
        .arg(format!("--service-account-private-key-file={}", key("service-account.key")))
        .arg(format!("--root-ca-file={}", authority.display()))
        .arg(format!("--cluster-signing-cert-file={}", key("ca.crt")))
        .arg(format!("--cluster-signing-key-file={}", key("ca.key")))
        // One test waits for the next look at all quotas.
        .arg("--resource-quota-sync-period=30s")
        .args(["--kube-api-qps=500", "--kube-api-burst=500"]);
    Running::start(&mut command, &directory.join("kube-controller-manager.log"))
}

/// One that is not loopback if there is any: a test asks for that. Nothing is sent.
fn own_address() -> Result<IpAddr, String> {
    let address = UdpSocket::bind("0.0.0.0:0").and_then(|socket| {
        // An address for documentation: routed as any other.
        socket.connect("192.0.2.1:9").or_else(|_| socket.connect("127.0.0.1:9"))?;
        socket.local_addr()
    });
    address.map(|address| address.ip()).map_err(|error| format!("no address of this machine: {error}"))
}

/// A process that ends when this is dropped.
pub struct Running {
    child: Child,
}

impl Running {
    /// The program ends with this one even if this one is killed, where there is setpriv (not on every system).
    pub fn command(program: &Path) -> Command {
        let guarded = Command::new("setpriv").arg("--version").output().is_ok();
        if !guarded {
            return Command::new(program);
        }
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL"]).arg(program);
        command
    }

    pub fn start(command: &mut Command, log: &Path) -> Result<Running, String> {
        let output = File::create(log).map_err(|error| format!("{}: {error}", log.display()))?;
        let errors = output.try_clone().map_err(|error| format!("{}: {error}", log.display()))?;
        spawn(command.stdout(output).stderr(errors))
    }

    /// Waits for the first line on standard output; everything else is for the log.
    pub fn start_until_ready(command: &mut Command, log: &Path) -> Result<Running, String> {
        let output = File::create(log).map_err(|error| format!("{}: {error}", log.display()))?;
        let mut running = spawn(command.stdout(Stdio::piped()).stderr(output))?;
        let mut line = String::new();
        if let Some(output) = running.child.stdout.take() {
            BufReader::new(output).read_line(&mut line).map_err(|error| error.to_string())?;
        }
        match line.is_empty() {
            true => Err(format!("{command:?} ended; {} says why", log.display())),
            false => Ok(running),
        }
    }

    pub fn runs(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }
}

fn spawn(command: &mut Command) -> Result<Running, String> {
    let child = command.stdin(Stdio::null()).spawn();
    child.map(|child| Running { child }).map_err(|error| format!("{command:?} does not start: {error}"))
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

//! A server with the real controllers, the real scheduler and KWOK's nodes.

use std::hash::{BuildHasher, RandomState};
use std::net::TcpListener;
use std::path::{Path, PathBuf};

use atoll_testkit::{Atoll, Client, Kubectl, Program, Programs, Upstream};
use tempfile::TempDir;

/// Builds the programs of such a cluster. Returns `None`, with a printed reason, where Go is absent.
pub fn programs() -> Option<Programs> {
    Programs::build(&[
        "keys",
        "kube-apiserver",
        "etcd",
        "kube-controller-manager",
        "kube-scheduler",
        "kwok",
        "kubectl",
    ])
}

/// The API server of the cluster.
enum Server {
    Atoll(Atoll),
    KubeApiserver(Upstream),
}

impl Server {
    fn kubeconfig(&self) -> PathBuf {
        match self {
            Server::Atoll(atoll) => atoll.kubeconfig(),
            Server::KubeApiserver(upstream) => upstream.kubeconfig(),
        }
    }

    /// Returns the path of the certificate authority in PEM.
    fn authority(&self) -> PathBuf {
        match self {
            Server::Atoll(atoll) => atoll.directory.join("ca.crt"),
            Server::KubeApiserver(upstream) => upstream.directory().join("keys/ca.crt"),
        }
    }
}

// Fields are dropped in this order: first the clients, then the server.
pub struct Cluster {
    programs: Vec<Program>,
    server: Server,
    /// kubectl as an administrator.
    pub kubectl: Kubectl,
    directory: TempDir,
}

impl Cluster {
    /// Starts a cluster on Atoll. `stages` is a file with the behaviour of KWOK's nodes and pods.
    pub fn of_atoll(programs: &Programs, stages: &str) -> Cluster {
        // kube-controller-manager runs the controllers.
        let atoll = Atoll::start_with(&["--controllers=false"]);
        Cluster::start(programs, stages, Server::Atoll(atoll))
    }

    pub fn of_kube_apiserver(programs: &Programs, stages: &str) -> Cluster {
        let upstream = Upstream::start(&[]).unwrap();
        Cluster::start(programs, stages, Server::KubeApiserver(upstream))
    }

    fn start(programs: &Programs, stages: &str, server: Server) -> Cluster {
        let directory = tempfile::tempdir().unwrap();
        let kubectl = Kubectl::new(&server.kubeconfig()).unwrap();
        let mut cluster = Cluster { programs: Vec::new(), server, kubectl, directory };
        let (keys, kubeconfig, authority) =
            (cluster.path("keys"), cluster.kubeconfig(), cluster.server.authority());
        assert!(programs.command("keys").arg(&keys).status().unwrap().success());
        let key = |name: &str| keys.join(name).display().to_string();
        let client_flags = |port: u16| {
            let kubeconfig = kubeconfig.display();
            vec![
                format!("--kubeconfig={kubeconfig}"),
                format!("--authentication-kubeconfig={kubeconfig}"),
                format!("--authorization-kubeconfig={kubeconfig}"),
                "--bind-address=127.0.0.1".to_owned(),
                format!("--secure-port={port}"),
                "--leader-elect=true".to_owned(),
                // A program that loses its lease exits, and a busy machine may delay the renewal.
                "--leader-elect-lease-duration=180s".to_owned(),
                "--leader-elect-renew-deadline=150s".to_owned(),
            ]
        };
        let mut controllers = client_flags(free_port());
        controllers.extend([
            "--use-service-account-credentials=true".to_owned(),
            format!("--service-account-private-key-file={}", key("service-account.key")),
            format!("--root-ca-file={}", authority.display()),
            format!("--cluster-signing-cert-file={}", key("ca.crt")),
            format!("--cluster-signing-key-file={}", key("ca.key")),
            // The other flags only speed the programs up.
            "--kube-api-qps=500".to_owned(),
            "--kube-api-burst=500".to_owned(),
            "--horizontal-pod-autoscaler-sync-period=2s".to_owned(),
        ]);
        let mut scheduler = client_flags(free_port());
        scheduler.extend(["--kube-api-qps=500".to_owned(), "--kube-api-burst=500".to_owned()]);
        let nodes = vec![
            format!("--kubeconfig={}", kubeconfig.display()),
            format!("--config={stages}"),
            "--manage-all-nodes".to_owned(),
            "--node-ip=10.1.0.1".to_owned(),
            "--cidr=10.2.0.0/16".to_owned(),
            "--node-lease-duration-seconds=40".to_owned(),
        ];
        for (name, arguments) in
            [("kube-controller-manager", controllers), ("kube-scheduler", scheduler), ("kwok", nodes)]
        {
            let log = cluster.path(&format!("{name}.log"));
            cluster.programs.push(programs.start(name, &arguments, &log));
        }
        cluster
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub fn kubeconfig(&self) -> PathBuf {
        self.server.kubeconfig()
    }

    pub fn admin(&self) -> Client {
        Client::from_kubeconfig(&self.kubeconfig())
    }

    /// Stops the programs and copies their logs to `logs`. An unexpected exit is added to the log as an
    /// error.
    pub fn stop(mut self, logs: &Path) {
        let ended: Vec<&str> = self.programs.iter_mut().filter_map(Program::ended).collect();
        self.programs.clear();
        std::fs::create_dir_all(logs).unwrap();
        for name in ["kube-controller-manager", "kube-scheduler", "kwok"] {
            let mut text = std::fs::read_to_string(self.path(&format!("{name}.log"))).unwrap();
            if ended.contains(&name) {
                text.push_str(&format!(
                    "E0101 00:00:00.000000       1 program.go:1] {name} ended by itself\n"
                ));
            }
            std::fs::write(logs.join(format!("{name}.log")), text).unwrap();
        }
    }
}

/// Returns a port that is currently not in use, below the range for outgoing connections, which would reuse
/// it quickly.
fn free_port() -> u16 {
    let candidates = (0..).map(|_| 20_000 + RandomState::new().hash_one(()) % 12_000);
    let is_free = |port: &u16| TcpListener::bind(("127.0.0.1", *port)).is_ok();
    candidates.map(|port| port as u16).find(is_free).unwrap()
}

//! The operator's process, and its installation.

use std::fs::File;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use atoll_testkit::{Atoll, Kubectl, Programs, succeed};
use serde_json::Value;
use tempfile::TempDir;

/// A running operator, stopped on drop.
pub struct Operator {
    process: Child,
    directory: TempDir,
}

impl Operator {
    /// Installs the operator as its users do, and starts it with its account.
    pub fn install(atoll: &Atoll, programs: &Programs) -> Operator {
        let directory = tempfile::tempdir().unwrap();
        let kubectl = Kubectl::new(&atoll.kubeconfig()).unwrap();
        let bundle = module().join("bundle.yaml");
        succeed(kubectl.command("apply --server-side --filename").arg(&bundle));
        kubectl.run("wait --for condition=Established customresourcedefinitions --all --timeout 180s");
        let token = kubectl.run("create token prometheus-operator");
        let kubeconfig = directory.path().join("kubeconfig");
        std::fs::write(&kubeconfig, atoll.admin().token(token.trim()).kubeconfig()).unwrap();
        let log = File::create(directory.path().join("log")).unwrap();
        let mut command = programs.command("prometheus-operator");
        command.env("KUBECONFIG", kubeconfig).arg("--web.listen-address=127.0.0.1:0");
        command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
        Operator { process: command.spawn().unwrap(), directory }
    }

    /// Asserts that its log has no forbidden request and no missing resource.
    pub fn expect_no_refusals(&self) {
        let log = std::fs::read_to_string(self.directory.path().join("log")).unwrap();
        let is_refusal = |line: &&str| {
            [
                "forbidden",
                "Unauthorized",
                "could not find the requested resource",
                "is invalid",
                "unknown field",
            ]
            .iter()
            .any(|words| line.contains(words))
        };
        let refusals: Vec<&str> = log.lines().filter(is_refusal).collect();
        assert!(refusals.is_empty(), "{}", refusals.join("\n"));
        assert!(log.contains("sync prometheus"), "{log}");
    }
}

impl Drop for Operator {
    fn drop(&mut self) {
        // It may have exited already.
        let _ = self.process.kill();
        let _ = self.process.wait();
        if std::thread::panicking() {
            eprintln!("{}", std::fs::read_to_string(self.directory.path().join("log")).unwrap_or_default());
        }
    }
}

/// Returns the directory of the module, at the version that the program is built from.
fn module() -> PathBuf {
    let name = "github.com/prometheus-operator/prometheus-operator";
    let mut command = Command::new("go");
    command
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../../upstream/prometheus-operator"))
        .env("GOWORK", "off");
    let text = succeed(command.args(["mod", "download", "-json", name]));
    let module: Value = serde_json::from_str(&text).unwrap();
    PathBuf::from(module["Dir"].as_str().unwrap())
}

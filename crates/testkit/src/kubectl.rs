//! The pinned kubectl.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::Arc;

use serde_json::Value;
use tempfile::TempDir;

use crate::command::{fail, succeed};
use crate::programs::Programs;

/// kubectl with a kubeconfig.
#[derive(Clone)]
pub struct Kubectl {
    program: PathBuf,
    kubeconfig: PathBuf,
    variables: Vec<(&'static str, String)>,
    /// kubectl writes its caches here instead of the user's home directory.
    home: Arc<TempDir>,
}

impl Kubectl {
    /// Returns `None`, with a printed reason, where kubectl is not available.
    pub fn new(kubeconfig: &Path) -> Option<Kubectl> {
        Some(Kubectl {
            program: Programs::build(&["kubectl"])?.directory().join("kubectl"),
            kubeconfig: kubeconfig.to_path_buf(),
            variables: Vec::new(),
            home: Arc::new(tempfile::tempdir().expect("a temporary directory")),
        })
    }

    /// Returns the same kubectl with an environment variable.
    pub fn variable(&self, name: &'static str, value: impl ToString) -> Kubectl {
        let mut variables = self.variables.clone();
        variables.push((name, value.to_string()));
        Kubectl { variables, ..self.clone() }
    }

    /// Returns a command. `line` is split at spaces.
    pub fn command(&self, line: &str) -> Command {
        let mut command = self.program();
        command.args(line.split(' '));
        command
    }

    /// Returns a command without arguments.
    pub fn program(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.env("HOME", self.home.path()).env("KUBECONFIG", &self.kubeconfig);
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
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

    /// Runs a command that must succeed, with `-o json`.
    #[track_caller]
    pub fn json(&self, line: &str) -> Value {
        let text = self.run(&format!("{line} -o json"));
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error} in {text}"))
    }

    /// Runs a command that must succeed, with `object` in a file that is passed with `-f`.
    #[track_caller]
    pub fn run_with_file(&self, line: &str, object: &Value) -> String {
        let output = self.run_with_input(&format!("{line} -f -"), &object.to_string());
        assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("the output is text")
    }

    /// Runs a command with standard input.
    pub fn run_with_input(&self, line: &str, input: &str) -> Output {
        let mut command = self.command(line);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let mut stdin = child.stdin.take().expect("standard input is a pipe");
        std::thread::scope(|scope| {
            // The command may exit before it has read all input.
            scope.spawn(move || stdin.write_all(input.as_bytes()));
            child.wait_with_output().unwrap_or_else(|error| panic!("{command:?}: {error}"))
        })
    }
}

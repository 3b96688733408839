//! A child process that prints one line when it is ready.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, ExitStatus, Stdio};

use rustix::process::{Pid, Signal, kill_process};

pub struct Process {
    child: Child,
    ended: Option<ExitStatus>,
}

/// A process that exited before it was ready.
pub struct NotReady {
    pub status: ExitStatus,
    /// Its standard error.
    pub stderr: String,
}

impl Process {
    /// Starts `command` and waits for its first line on standard output.
    pub fn start(command: &mut Command) -> Result<(Process, String), NotReady> {
        let shown = format!("{command:?}");
        let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        let mut child = child.unwrap_or_else(|error| panic!("{shown} cannot be started: {error}"));
        let mut lines = BufReader::new(child.stdout.take().expect("standard output is a pipe"));
        let mut stderr = child.stderr.take().expect("standard error is a pipe");
        // Read in another thread, because a full pipe would block the process.
        let stderr = std::thread::spawn(move || {
            let mut bytes = Vec::new();
            // On an error, the text read so far is used.
            let _ = stderr.read_to_end(&mut bytes);
            String::from_utf8_lossy(&bytes).into_owned()
        });
        let mut line = String::new();
        let read = lines.read_line(&mut line);
        read.unwrap_or_else(|error| panic!("{shown}: cannot read its output: {error}"));
        if line.is_empty() {
            let status = child.wait().unwrap_or_else(|error| panic!("{shown}: {error}"));
            let stderr = stderr.join().unwrap_or_default();
            return Err(NotReady { status, stderr });
        }
        std::thread::spawn(move || std::io::copy(&mut lines, &mut std::io::sink()));
        Ok((Process { child, ended: None }, line))
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal, unless the process has exited.
    pub fn signal(&mut self, signal: Signal) {
        if self.ended.is_some() {
            return;
        }
        // The process was not waited for yet, so its id is still valid.
        let id = Pid::from_child(&self.child);
        kill_process(id, signal).unwrap_or_else(|error| panic!("signal to process {id:?}: {error}"));
    }

    pub fn wait(&mut self) -> ExitStatus {
        if let Some(status) = self.ended {
            return status;
        }
        let status = self.child.wait().unwrap_or_else(|error| panic!("process {}: {error}", self.id()));
        self.ended = Some(status);
        status
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if self.ended.is_none() {
            // The test may be panicking, so errors are ignored.
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

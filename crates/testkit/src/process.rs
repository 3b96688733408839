//! A child process that says one line when it is ready.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, ExitStatus, Stdio};

use rustix::process::{Pid, Signal, kill_process};

pub struct Process {
    child: Child,
    ended: Option<ExitStatus>,
}

/// How a start ended that did not succeed.
pub struct NotReady {
    pub status: ExitStatus,
    /// What it wrote to standard error.
    pub complaint: String,
}

impl Process {
    /// Starts `command` and waits for its first line on standard output.
    pub fn start(command: &mut Command) -> Result<(Process, String), NotReady> {
        let shown = format!("{command:?}");
        let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        let mut child = child.unwrap_or_else(|error| panic!("{shown} does not start: {error}"));
        let mut lines = BufReader::new(child.stdout.take().expect("standard output is a pipe"));
        let mut complaints = child.stderr.take().expect("standard error is a pipe");
        // Read to the end on a thread of its own: a full pipe would stop the program.
        let complaints = std::thread::spawn(move || {
            let mut bytes = Vec::new();
            // What was read until then is what there is to tell.
            let _ = complaints.read_to_end(&mut bytes);
            String::from_utf8_lossy(&bytes).into_owned()
        });
        let mut line = String::new();
        let read = lines.read_line(&mut line);
        read.unwrap_or_else(|error| panic!("{shown}: cannot read what it says: {error}"));
        if line.is_empty() {
            let status = child.wait().unwrap_or_else(|error| panic!("{shown}: {error}"));
            let complaint = complaints.join().unwrap_or_default();
            return Err(NotReady { status, complaint });
        }
        std::thread::spawn(move || std::io::copy(&mut lines, &mut std::io::sink()));
        Ok((Process { child, ended: None }, line))
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal; a process that has ended already gets none.
    pub fn signal(&mut self, signal: Signal) {
        if self.ended.is_some() {
            return;
        }
        // Not collected yet, so the id is still this process's own.
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
            // A test may be panicking already: what cannot be killed is left.
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

//! A child process that prints a line when it is ready.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::wait::{WAIT_TIMEOUT, eventually_blocking};

/// A running process, killed on drop.
pub struct Process {
    child: Child,
    ended: Option<ExitStatus>,
    /// Lines printed until it was ready.
    pub printed: Vec<String>,
    lines: Mutex<Receiver<String>>,
    log: Arc<Mutex<String>>,
    /// The thread that reads standard error until it is closed.
    log_reader: Option<JoinHandle<()>>,
}

/// A process that exited before it was ready.
#[derive(Debug)]
pub struct StartFailure {
    pub status: ExitStatus,
    /// Its standard error.
    pub errors: String,
}

impl Process {
    /// Starts `command` and waits until it prints a line that contains `ready`.
    pub fn start(command: &mut Command, ready: &str) -> Result<Process, StartFailure> {
        Process::start_within(WAIT_TIMEOUT, command, ready)
    }

    /// Like `start`, with another timeout for each line.
    pub fn start_within(
        timeout: Duration,
        command: &mut Command,
        ready: &str,
    ) -> Result<Process, StartFailure> {
        let shown = format!("{command:?}");
        let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        let mut child = child.unwrap_or_else(|error| panic!("{shown} cannot be started: {error}"));
        let lines = Mutex::new(lines(child.stdout.take().expect("standard output is a pipe")));
        let (log, log_reader) = collect(child.stderr.take().expect("standard error is a pipe"));
        let mut process =
            Process { child, ended: None, printed: Vec::new(), lines, log, log_reader: Some(log_reader) };
        loop {
            match process.next_line(timeout) {
                Ok(line) => {
                    let is_ready = line.contains(ready);
                    process.printed.push(line);
                    if is_ready {
                        return Ok(process);
                    }
                }
                Err(RecvTimeoutError::Disconnected) => {
                    let status = process.wait();
                    process.finish_log();
                    return Err(StartFailure { status, errors: process.log() });
                }
                Err(RecvTimeoutError::Timeout) => {
                    panic!("{shown} was neither ready nor ended after {timeout:?}: {:?}", process.printed)
                }
            }
        }
    }

    fn next_line(&self, timeout: Duration) -> Result<String, RecvTimeoutError> {
        self.lines.lock().expect("no reader panics").recv_timeout(timeout)
    }

    /// Returns all further lines up to the first that contains `last`.
    pub fn lines_until(&self, last: &str) -> Vec<String> {
        let mut printed: Vec<String> = Vec::new();
        while !printed.last().is_some_and(|line| line.contains(last)) {
            let line = self.next_line(WAIT_TIMEOUT);
            printed.push(line.unwrap_or_else(|_| panic!("no {last:?} in {printed:?}")));
        }
        printed
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Returns standard error as far as it has been read.
    pub fn log(&self) -> String {
        self.log.lock().expect("no reader panics").clone()
    }

    /// Waits until standard error is closed. The log is complete then.
    pub fn finish_log(&mut self) {
        if let Some(log_reader) = self.log_reader.take() {
            log_reader.join().expect("the reader does not panic");
        }
    }

    /// Sends a signal, unless the process has been waited for.
    pub fn signal(&self, signal: Signal) {
        if self.ended.is_some() {
            return;
        }
        // The process was not waited for yet, so its id is still valid.
        let id = Pid::from_child(&self.child);
        kill_process(id, signal).unwrap_or_else(|error| panic!("signal to process {id:?}: {error}"));
    }

    /// Waits until the process has exited.
    pub fn wait(&mut self) -> ExitStatus {
        eventually_blocking("the process has ended", || {
            let ended = self.child.try_wait();
            self.ended = ended.unwrap_or_else(|error| panic!("process {}: {error}", self.child.id()));
            self.ended.is_some()
        });
        self.ended.expect("it has ended")
    }

    /// Terminates the process, which must exit successfully.
    pub fn stop(mut self) {
        self.signal(Signal::TERM);
        assert!(self.wait().success());
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have exited already, and the test may be panicking, so errors are ignored.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn lines(output: impl Read + Send + 'static) -> Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        for line in BufReader::new(output).lines() {
            let Ok(line) = line else { return };
            // The receiver may be gone.
            let _ = sender.send(line);
        }
    });
    receiver
}

fn collect(mut output: impl Read + Send + 'static) -> (Arc<Mutex<String>>, JoinHandle<()>) {
    let log = Arc::new(Mutex::new(String::new()));
    let kept = log.clone();
    let log_reader = std::thread::spawn(move || {
        let mut piece = [0; 4096];
        while let Ok(count) = output.read(&mut piece) {
            if count == 0 {
                return;
            }
            kept.lock().expect("no reader panics").push_str(&String::from_utf8_lossy(&piece[..count]));
        }
    });
    (log, log_reader)
}

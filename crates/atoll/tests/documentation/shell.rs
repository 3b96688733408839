//! One shell for the examples of a page, in a directory of its own, with `atoll` and `kubectl` in its PATH.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use atoll_testkit::wait::{WAIT_TIMEOUT, eventually_blocking};
use regex::Regex;
use tempfile::TempDir;

use crate::output;

/// Printed by the shell after each command, with its exit code.
const END: &str = "@end-of-command@";

/// Commands that run until they are stopped.
const SERVERS: &str = r"^atoll (start|playground|syncer|sim( --.*)?$|sim nodes)";

/// Commands that change nothing, so that they can be repeated until the state is as the page shows it.
const READERS: &str = r"^(kubectl( --\S+ \S+| -n \S+)* (get|describe|events|top|logs|auth)|atoll (cluster (list|describe)|workspace (tree|list)|orphans list|dialect list|place \S+( -n \S+)?$|explain |what-if ))";

pub struct Shell {
    child: Child,
    input: ChildStdin,
    output: Receiver<String>,
    directory: TempDir,
    servers: usize,
}

impl Shell {
    /// `programs` is the directory that has kubectl.
    pub fn start(programs: &Path) -> Shell {
        let directory = TempDir::new().unwrap();
        let bin = directory.path().join("bin");
        fs::create_dir_all(directory.path().join("work")).unwrap();
        fs::create_dir(&bin).unwrap();
        for name in ["atoll", "kubectl-atoll", "kubectl_complete-atoll"] {
            symlink(atoll_testkit::binary(), bin.join(name)).unwrap();
        }
        symlink(programs.join("kubectl"), bin.join("kubectl")).unwrap();
        let mut command = Command::new("bash");
        command.arg("--norc").current_dir(directory.path().join("work")).env_clear();
        command.env("PATH", format!("{}:/usr/local/bin:/usr/bin:/bin", bin.display()));
        command.env("HOME", directory.path()).env("NO_COLOR", "1");
        // Pages show the default port, which another server on this machine may use.
        command.env("ATOLL_LISTEN", "127.0.0.1:0");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap_or_else(|error| panic!("bash does not start: {error}"));
        let (input, lines) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        let (sender, output) = channel();
        std::thread::spawn(move || {
            for line in lines.lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        Shell { child, input, output, directory, servers: 0 }
    }

    pub fn write(&self, name: &str, content: &str) {
        fs::write(self.work().join(name), content).unwrap();
    }

    /// Runs a command of `page` and panics if its output is not the expected one.
    pub fn check(&mut self, page: &str, command: &str, expected: &[String]) {
        let is = |pattern: &str| Regex::new(pattern).unwrap().is_match(command);
        if is(SERVERS) {
            return self.serve(page, command, expected);
        }
        let deadline = Instant::now() + if is(READERS) { WAIT_TIMEOUT } else { Duration::ZERO };
        let is_error =
            |line: &String| line.to_lowercase().starts_with("error") || line.contains(" is invalid: ");
        let may_fail = expected.iter().any(is_error);
        loop {
            let (code, actual) = self.run(command);
            if output::matches(expected, &actual) && (code == 0) != may_fail {
                return;
            }
            assert!(
                Instant::now() < deadline,
                "{page}: $ {command}\nexit code {code}; expected:\n{}\nactual:\n{}",
                expected.join("\n"),
                actual.join("\n")
            );
        }
    }

    /// Starts a server and waits until it has printed the expected lines.
    fn serve(&mut self, page: &str, command: &str, expected: &[String]) {
        self.servers += 1;
        let log = self.work().join(format!(".server-{}", self.servers));
        self.run(&format!("{command} >{} 2>&1 & echo $! >>.servers", log.display()));
        let expected: Vec<String> = expected.iter().cloned().chain(["…".to_owned()]).collect();
        let mut actual = Vec::new();
        eventually_blocking(&format!("{page}: $ {command} prints {expected:?}"), || {
            let text = fs::read_to_string(&log).unwrap_or_default();
            actual = text.lines().map(str::to_owned).collect();
            output::matches(&expected, &actual)
        });
    }

    fn run(&mut self, command: &str) -> (i32, Vec<String>) {
        writeln!(self.input, "{{ {command}\n}} 2>&1\nstatus=$?; echo; echo \"{END}$status\"").unwrap();
        let mut lines = Vec::new();
        loop {
            let line = self.output.recv_timeout(WAIT_TIMEOUT);
            let line = line.unwrap_or_else(|_| panic!("$ {command} did not end; it printed {lines:?}"));
            match line.strip_prefix(END) {
                Some(code) => return (code.parse().unwrap(), lines),
                None => lines.push(line),
            }
        }
    }

    fn work(&self) -> PathBuf {
        self.directory.path().join("work")
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        let _ = writeln!(self.input, "kill -9 $(cat .servers); wait; exit");
        let _ = self.child.wait();
    }
}

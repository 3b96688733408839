//! Exec and attach: standard input, output and error of a process in a container, its exit status, and the
//! terminal size.
//!
//! ```text
//!   request ─► accept ─► PendingSession ─► Session { stdin, stdout, stderr, resize } ─► end(ExecStatus)
//! ```
//!
//! A kubelet sends the response that [`accept`] returns and then waits for the session.

// upstream: staging/src/k8s.io/apimachinery/pkg/util/remotecommand/constants.go
// upstream: staging/src/k8s.io/cri-streaming/pkg/streaming/remotecommand/httpstream.go

mod exec_status;
mod resize;
mod session;

pub use exec_status::{ExecStatus, StatusFormat};
#[doc(hidden)]
pub use resize::sizes;
pub use resize::{Resizes, TerminalSize};
pub use session::{PendingSession, Session, accept, accept_websocket};

/// Names of streams, in the header `streamType`.
pub mod stream {
    pub const TYPE: &str = "streamType";
    pub const STDIN: &str = "stdin";
    pub const STDOUT: &str = "stdout";
    pub const STDERR: &str = "stderr";
    pub const ERROR: &str = "error";
    pub const RESIZE: &str = "resize";
}

pub const V5: &str = "v5.channel.k8s.io";
pub const V4: &str = "v4.channel.k8s.io";
/// Protocols on top of SPDY, newest first.
pub const SPDY_PROTOCOLS: [&str; 4] = [V4, "v3.channel.k8s.io", "v2.channel.k8s.io", "channel.k8s.io"];
const WEBSOCKET_PROTOCOLS: [&str; 6] =
    [V5, V4, "v4.base64.channel.k8s.io", "channel.k8s.io", "base64.channel.k8s.io", ""];

/// The requested streams.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamOptions {
    pub stdin: bool,
    pub stdout: bool,
    pub stderr: bool,
    pub tty: bool,
}

impl StreamOptions {
    /// Parses options as kubelets do. A terminal has no standard error.
    pub fn from_query(query: &str) -> Result<StreamOptions, &'static str> {
        let is_set = |name: &str| {
            let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
            pairs.clone().find(|(key, _)| *key == name).is_some_and(|(_, value)| value == "1")
        };
        let tty = is_set("tty");
        let options = StreamOptions {
            stdin: is_set("input"),
            stdout: is_set("output"),
            stderr: is_set("error") && !tty,
            tty,
        };
        match options.stdin || options.stdout || options.stderr {
            true => Ok(options),
            false => Err("you must specify at least 1 of stdin, stdout, stderr"),
        }
    }

    /// Encodes options as API servers do.
    pub fn to_query(self) -> Vec<(&'static str, &'static str)> {
        let all = [("error", self.stderr), ("input", self.stdin), ("output", self.stdout), ("tty", self.tty)];
        all.into_iter().filter(|(_, is_set)| *is_set).map(|(name, _)| (name, "1")).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_parsed_from_the_query() {
        let all = StreamOptions { stdin: true, stdout: true, stderr: true, tty: false };
        let terminal = StreamOptions { stderr: false, tty: true, ..all };
        let cases = [
            ("input=1&output=1&error=1", Ok(all)),
            ("input=1&output=1&error=1&tty=1&command=ls", Ok(terminal)),
            ("output=1", Ok(StreamOptions { stdout: true, ..StreamOptions::default() })),
            ("output=true&input=0", Err("you must specify at least 1 of stdin, stdout, stderr")),
            ("tty=1&error=1", Err("you must specify at least 1 of stdin, stdout, stderr")),
            ("", Err("you must specify at least 1 of stdin, stdout, stderr")),
        ];
        for (query, expected) in cases {
            assert_eq!(StreamOptions::from_query(query), expected, "{query}");
        }
        assert_eq!(terminal.to_query(), [("input", "1"), ("output", "1"), ("tty", "1")]);
    }
}

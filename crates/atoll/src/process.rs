//! Helpers of all commands: runtime, log, signals and shell quoting.

use std::io::IsTerminal;
use std::path::Path;
use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::command::{LogFormat, LogOptions};
use crate::open_files;

/// How long the process waits for work on other threads after the server has ended. Checks of what users wrote may
/// take longer.
const LONGEST_SHUTDOWN: Duration = Duration::from_secs(2);

/// Runs a server until it ends.
pub fn run(log: &LogOptions, serve: impl Future<Output = Result<(), String>>) -> Result<(), String> {
    log_to_stderr(log)?;
    open_files::raise_limit();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| error.to_string())?;
    let served = runtime.block_on(serve);
    runtime.shutdown_timeout(LONGEST_SHUTDOWN);
    served
}

/// Runs a command that is not a server.
pub fn run_command(command: impl Future<Output = Result<(), String>>) -> Result<(), String> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| error.to_string())?;
    runtime.block_on(command)
}

/// Listens for SIGTERM and SIGINT from its creation on. Create it before announcing that the server is ready.
pub struct ShutdownSignal {
    terminate: Signal,
    interrupt: Signal,
}

impl ShutdownSignal {
    pub fn listen() -> Result<ShutdownSignal, String> {
        let signal = |kind| signal(kind).map_err(|error| error.to_string());
        Ok(ShutdownSignal {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    /// Waits for a signal.
    pub async fn received(mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

/// Quotes a word for a shell if necessary.
pub fn quoted(word: &str) -> String {
    let plain = |character: char| character.is_alphanumeric() || "/._-+=:@%,".contains(character);
    match !word.is_empty() && word.chars().all(plain) {
        true => word.to_string(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

/// Quotes a path for a shell if necessary.
pub fn quoted_path(path: &Path) -> String {
    quoted(&path.display().to_string())
}

/// Quotes the name under which this program was called so that it works in any directory.
pub fn callable(word: &str) -> String {
    match word.contains('/').then(|| std::path::absolute(word)) {
        Some(Ok(path)) => quoted_path(&path),
        // Shells look up plain names in PATH.
        _ => quoted(word),
    }
}

fn log_to_stderr(options: &LogOptions) -> Result<(), String> {
    // A plain level only applies to Atoll; its libraries log warnings.
    let wanted = match options.log.parse::<tracing::Level>() {
        Ok(level) => format!("warn,atoll={level}"),
        Err(_) => options.log.clone(),
    };
    let filter = tracing_subscriber::EnvFilter::try_new(&wanted)
        .map_err(|error| format!("--log {:?}: {error}", options.log))?;
    let builder =
        tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_target(false);
    match options.log_format {
        LogFormat::Text => builder.with_ansi(std::io::stderr().is_terminal()).init(),
        LogFormat::Json => builder.json().flatten_event(true).init(),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn special_characters_are_quoted() {
        for (word, expected) in [
            ("atoll-data/admin.kubeconfig", "atoll-data/admin.kubeconfig"),
            ("my data", "'my data'"),
            ("it's", r"'it'\''s'"),
            ("$HOME", "'$HOME'"),
            ("", "''"),
        ] {
            assert_eq!(quoted(word), expected);
        }
    }

    #[test]
    fn relative_program_paths_become_absolute() {
        let here = std::env::current_dir().unwrap();
        for (word, expected) in [
            ("atoll", "atoll".to_owned()),
            ("/opt/atoll", "/opt/atoll".to_owned()),
            ("./atoll", quoted_path(&here.join("atoll"))),
            ("target/release/atoll", quoted_path(&here.join("target/release/atoll"))),
            ("/opt/my programs/atoll", "'/opt/my programs/atoll'".to_owned()),
        ] {
            assert_eq!(callable(word), expected);
        }
    }
}

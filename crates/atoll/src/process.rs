//! What every command that keeps running shares: its log, how it is stopped, and words that a shell understands.

use std::io::IsTerminal;
use std::path::Path;

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::command::{LogFormat, LogOptions};

/// Runs a server until it ends.
pub fn run(log: &LogOptions, serve: impl Future<Output = Result<(), String>>) -> Result<(), String> {
    log_to_stderr(log)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| error.to_string())?;
    runtime.block_on(serve)
}

/// Runs a command that only asks something.
pub fn ask(question: impl Future<Output = Result<(), String>>) -> Result<(), String> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| error.to_string())?;
    runtime.block_on(question)
}

/// Hears when the process is asked to end, from the moment on when this is made: before anybody is told that it is ready.
pub struct Stop {
    terminate: Signal,
    interrupt: Signal,
}

impl Stop {
    pub fn listen() -> Result<Stop, String> {
        let signal = |kind| signal(kind).map_err(|error| error.to_string());
        Ok(Stop { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    /// Returns when it was asked to.
    pub async fn asked(mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

/// A word for a shell, whatever is in it.
pub fn quoted(word: &str) -> String {
    let plain = |character: char| character.is_alphanumeric() || "/._-+=:@%,".contains(character);
    match !word.is_empty() && word.chars().all(plain) {
        true => word.to_string(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

/// The same for a path.
pub fn quoted_path(path: &Path) -> String {
    quoted(&path.display().to_string())
}

/// This program as a word for a shell in whatever directory, if `word` is how it was called in this one.
pub fn callable(word: &str) -> String {
    match word.contains('/').then(|| std::path::absolute(word)) {
        Some(Ok(path)) => quoted_path(&path),
        // Shells look for a name on its own along PATH.
        _ => quoted(word),
    }
}

fn log_to_stderr(options: &LogOptions) -> Result<(), String> {
    // A bare level is about Atoll: what its libraries have to say at that level interests nobody.
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
    fn a_shell_reads_a_quoted_word_as_it_is() {
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
    fn a_program_is_called_the_same_from_everywhere() {
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

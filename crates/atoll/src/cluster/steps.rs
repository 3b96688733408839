//! Prints the progress of a command: a line per completed step.

use std::io::{IsTerminal, Write};

use crate::advice::Failure;
use crate::output::say;
use crate::style::Paint;

/// Escape sequence that clears the current line.
const CLEAR: &str = "\r\x1b[K";

pub struct Steps {
    paint: Paint,
    is_terminal: bool,
    /// Print nothing.
    is_silent: bool,
    done: usize,
}

impl Steps {
    pub fn begin(title: &str) -> Steps {
        say!("{title}");
        Steps { is_terminal: std::io::stdout().is_terminal(), is_silent: false, ..Steps::silent() }
    }

    /// Prints nothing, for a command that is part of another one.
    pub fn silent() -> Steps {
        Steps { paint: Paint::stdout(), is_terminal: false, is_silent: true, done: 0 }
    }

    /// Prints a line that is not a step.
    pub fn say(&self, text: &str) {
        if !self.is_silent {
            say!("{text}");
        }
    }

    /// Runs a step. `what` describes it while it runs; the returned text describes it when it is done.
    pub async fn step<T>(
        &mut self,
        what: &str,
        work: impl Future<Output = Result<(String, T), Failure>>,
    ) -> Result<T, Failure> {
        if self.is_terminal {
            print!("  … {what}");
            // A failed flush does not matter.
            let _ = std::io::stdout().flush();
        }
        let outcome = work.await;
        if self.is_terminal {
            print!("{CLEAR}");
        }
        match outcome {
            Ok((done, value)) => {
                self.say(&format!("  {} {done}", self.paint.good("✓")));
                self.done += 1;
                Ok(value)
            }
            Err(failure) => {
                self.say(&format!("  {} {what}", self.paint.error("✗")));
                Err(failure)
            }
        }
    }

    /// Prints a warning about the last step.
    pub fn note(&self, text: &str) {
        self.say(&format!("    {}", self.paint.warning(text)));
    }
}

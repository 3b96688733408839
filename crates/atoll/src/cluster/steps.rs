//! What is told while something is done step by step: a line for each step that is done.

use std::io::{IsTerminal, Write};

use crate::advice::Failure;
use crate::output::say;
use crate::style::Paint;

/// Back to the beginning of the line, and nothing in it.
const CLEAR: &str = "\r\x1b[K";

pub struct Steps {
    paint: Paint,
    is_terminal: bool,
    /// Nobody is told anything.
    is_silent: bool,
    done: usize,
}

impl Steps {
    pub fn begin(title: &str) -> Steps {
        say!("{title}");
        Steps { is_terminal: std::io::stdout().is_terminal(), is_silent: false, ..Steps::silent() }
    }

    /// For a part of something else that tells what it does.
    pub fn silent() -> Steps {
        Steps { paint: Paint::stdout(), is_terminal: false, is_silent: true, done: 0 }
    }

    /// Something that is no step.
    pub fn say(&self, text: &str) {
        if !self.is_silent {
            say!("{text}");
        }
    }

    /// Does a step; `what` says what is done, and what it returns says what was.
    pub async fn step<T>(
        &mut self,
        what: &str,
        work: impl Future<Output = Result<(String, T), Failure>>,
    ) -> Result<T, Failure> {
        if self.is_terminal {
            print!("  … {what}");
            // Nothing depends on it.
            let _ = std::io::stdout().flush();
        }
        let outcome = work.await;
        if self.is_terminal {
            print!("{CLEAR}");
        }
        match outcome {
            Ok((said, value)) => {
                self.say(&format!("  {} {said}", self.paint.good("✓")));
                self.done += 1;
                Ok(value)
            }
            Err(failure) => {
                self.say(&format!("  {} {what}", self.paint.error("✗")));
                Err(failure)
            }
        }
    }

    /// Something worth knowing about the last step.
    pub fn note(&self, text: &str) {
        self.say(&format!("    {}", self.paint.warning(text)));
    }
}

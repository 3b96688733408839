//! What is told while something is done step by step: a line for each step that is done.

use std::io::{IsTerminal, Write};

use crate::advice::Failure;
use crate::style::Paint;

/// Back to the beginning of the line, and nothing in it.
const CLEAR: &str = "\r\x1b[K";

pub struct Steps {
    paint: Paint,
    is_terminal: bool,
    done: usize,
}

impl Steps {
    pub fn begin(title: &str) -> Steps {
        println!("{title}");
        Steps { paint: Paint::stdout(), is_terminal: std::io::stdout().is_terminal(), done: 0 }
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
                println!("  {} {said}", self.paint.good("✓"));
                self.done += 1;
                Ok(value)
            }
            Err(failure) => {
                println!("  {} {what}", self.paint.error("✗"));
                Err(failure)
            }
        }
    }

    /// Something worth knowing about the last step.
    pub fn note(&self, text: &str) {
        println!("    {}", self.paint.warning(text));
    }
}

//! Prints the progress of a command: a line per completed step.

use std::io::{IsTerminal, Write};

use crate::advice::Failure;
use crate::output::outln;
use crate::style::Paint;

/// Escape sequence that clears the current line.
const CLEAR: &str = "\r\x1b[K";

pub struct StepPrinter {
    paint: Paint,
    is_terminal: bool,
    /// Print nothing.
    is_silent: bool,
    done: usize,
}

impl StepPrinter {
    pub fn start(title: &str) -> StepPrinter {
        outln!("{title}");
        StepPrinter {
            is_terminal: std::io::stdout().is_terminal(),
            is_silent: false,
            ..StepPrinter::silent()
        }
    }

    /// Prints nothing, for a command that is part of another one.
    pub fn silent() -> StepPrinter {
        StepPrinter { paint: Paint::stdout(), is_terminal: false, is_silent: true, done: 0 }
    }

    /// Prints a line that is not a step.
    pub fn print_line(&self, text: &str) {
        if !self.is_silent {
            outln!("{text}");
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
                self.print_line(&format!("  {} {done}", self.paint.good("✓")));
                self.done += 1;
                Ok(value)
            }
            Err(failure) => {
                self.print_line(&format!("  {} {what}", self.paint.error("✗")));
                Err(failure)
            }
        }
    }

    /// Prints a warning about the last step.
    pub fn note(&self, text: &str) {
        self.print_line(&format!("    {}", self.paint.warning(text)));
    }
}

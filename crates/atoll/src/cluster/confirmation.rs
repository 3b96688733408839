//! Confirmation prompts.

use std::io::{BufRead, IsTerminal, Write};

use crate::advice::Failure;
use crate::output::outln;

/// Prints what will happen and asks for confirmation, unless `yes` was given on the command line.
pub fn confirm(what: &str, question: &str, yes: bool) -> Result<(), Failure> {
    outln!("{what}");
    if yes {
        return Ok(());
    }
    if !std::io::stdin().is_terminal() {
        return Err(Failure::new(
            "standard input is not a terminal, so the command cannot ask for confirmation",
            "to confirm, add --yes",
        ));
    }
    print!("{question} [y/N] ");
    let mut answer = String::new();
    let read = std::io::stdout().flush().and_then(|()| std::io::stdin().lock().read_line(&mut answer));
    match read {
        Ok(_) if means_yes(&answer) => Ok(()),
        _ => Err(Failure::new("nothing was changed", "answer y to continue")),
    }
}

fn means_yes(answer: &str) -> bool {
    matches!(answer.trim().to_lowercase().as_str(), "y" | "yes")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_y_and_yes_confirm() {
        for (answer, expected) in
            [("y\n", true), ("Yes\n", true), (" y ", true), ("\n", false), ("", false), ("no\n", false)]
        {
            assert_eq!(means_yes(answer), expected, "{answer:?}");
        }
    }
}

//! Questions to whoever sits at the terminal.

use std::io::{BufRead, IsTerminal, Write};

use crate::advice::Failure;
use crate::output::say;

/// Says what will happen and returns if that is wanted; `yes` is an answer given beforehand.
pub fn confirm(what: &str, question: &str, yes: bool) -> Result<(), Failure> {
    say!("{what}");
    if yes {
        return Ok(());
    }
    if !std::io::stdin().is_terminal() {
        return Err(Failure::new("there is nobody to ask", "if that is what you want, add --yes"));
    }
    print!("{question} [y/N] ");
    let mut answer = String::new();
    let read = std::io::stdout().flush().and_then(|()| std::io::stdin().lock().read_line(&mut answer));
    match read {
        Ok(_) if means_yes(&answer) => Ok(()),
        _ => Err(Failure::new("nothing was done", "answer y to go on")),
    }
}

fn means_yes(answer: &str) -> bool {
    matches!(answer.trim().to_lowercase().as_str(), "y" | "yes")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_yes_is_one() {
        for (answer, expected) in
            [("y\n", true), ("Yes\n", true), (" y ", true), ("\n", false), ("", false), ("no\n", false)]
        {
            assert_eq!(means_yes(answer), expected, "{answer:?}");
        }
    }
}

//! Completion of command lines.
//!
//! ```text
//!   shell ── script of `atoll completion SHELL` ──► atoll __complete WORDS… ──┐
//!   kubectl completion ──► kubectl_complete-atoll WORDS… ─────────────────────┴─► line ─► names (kubeconfig, server, keys)
//! ```
//!
//! The last word is the one being typed, and may be empty. The output has the format of kubectl's own
//! completion: one candidate per line with a tab before its description, and at the end a colon and a
//! directive that says whether to complete file names.

// upstream: github.com/spf13/cobra/completions.go

mod line;
mod names;

use std::ffi::OsString;

use clap::{CommandFactory, ValueEnum};

use self::line::{Expected, Source};
use crate::command::Cli;
use crate::output;

#[derive(Clone, Copy, ValueEnum)]
pub enum Shell {
    Bash,
    Zsh,
    Fish,
}

/// A candidate and its description.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    pub value: String,
    pub help: String,
}

/// Directives of cobra, the command line library of kubectl.
const FILES: u8 = 0;
const NO_FILES: u8 = 4;
const DIRECTORIES: u8 = 16;

pub fn script(shell: Shell) {
    output::print(match shell {
        Shell::Bash => include_str!("completion/atoll.bash"),
        Shell::Zsh => include_str!("completion/atoll.zsh"),
        Shell::Fish => include_str!("completion/atoll.fish"),
    });
}

/// The words to complete, if kubectl has started the program for completion.
pub fn kubectl_completion_words(arguments: &[OsString]) -> Option<Vec<String>> {
    let name = std::path::Path::new(arguments.first()?).file_name()?;
    (name == "kubectl_complete-atoll").then(|| words(&arguments[1..]))
}

pub fn words(arguments: &[OsString]) -> Vec<String> {
    arguments.iter().map(|argument| argument.to_string_lossy().into_owned()).collect()
}

pub fn print_candidates(words: &[String]) {
    let mut command = Cli::command();
    command.build();
    output::print(&render(&line::expected(&command, words), names::candidates));
}

fn render(expected: &Expected, names: impl FnOnce(&Expected) -> Vec<Candidate>) -> String {
    let (candidates, directive) = match &expected.source {
        Source::Files => (Vec::new(), FILES),
        Source::Directories => (Vec::new(), DIRECTORIES),
        Source::Words(words) => (words.clone(), NO_FILES),
        Source::Workspaces
        | Source::Children
        | Source::Contexts
        | Source::ContextsOf(_)
        | Source::Clusters
        | Source::ClusterLists
        | Source::Keys => (names(expected), NO_FILES),
    };
    let mut text = String::new();
    for candidate in candidates.iter().filter(|candidate| candidate.value.starts_with(&expected.partial)) {
        text.push_str(&candidate.value);
        if !candidate.help.is_empty() {
            text.push('\t');
            text.push_str(&candidate.help);
        }
        text.push('\n');
    }
    text + &format!(":{directive}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn completed(line: &str) -> String {
        let mut command = Cli::command();
        command.build();
        let words: Vec<String> = line.split(' ').map(str::to_string).collect();
        let names = |expected: &Expected| {
            let value = format!("{:?}", expected.source).to_lowercase();
            vec![Candidate { value, help: String::new() }]
        };
        render(&line::expected(&command, &words), names)
    }

    /// Only the values of the candidates.
    fn values(line: &str) -> String {
        let render = completed(line);
        let values = render.lines().map(|line| line.split('\t').next().unwrap_or_default());
        values.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn commands_options_and_values_are_completed() {
        for (line, expected) in [
            ("work", "workspace :4"),
            ("workspace ", "create use current list tree delete :4"),
            ("workspace t", "tree :4"),
            ("workspace use ", "workspaces :4"),
            ("workspace use w", "workspaces :4"),
            ("workspace use web ", ":4"),
            ("workspace delete ", "children :4"),
            ("workspace create ", ":4"),
            ("workspace list -o ", "wide json yaml name :4"),
            ("workspace list -o j", "json :4"),
            ("workspace list --output=y", "yaml :4"),
            ("workspace list --output ", "wide json yaml name :4"),
            ("workspace list -o json ", ":4"),
            ("workspace tree --con", "--context :4"),
            ("workspace tree --context c", "contexts :4"),
            ("workspace tree --kubeconfig ", ":0"),
            ("start --data-dir ", ":16"),
            ("start --data-dir=", ":16"),
            ("start --profile ", "full minimal :4"),
            ("start --log-format=j", "json :4"),
            ("start --controllers ", ":4"),
            ("sim fault l", "list :4"),
            ("cluster describe ", "clusters :4"),
            ("cluster fence --lift ", "clusters :4"),
            ("cluster join ", ":4"),
            ("cluster join east --kubeconfig ", ":0"),
            ("cluster join east --kubeconfig f --context ", "contexts :4"),
            ("cluster join east --control-plane-context ", "contextsof(\"control_plane_kubeconfig\") :4"),
            ("cluster remove east --cluster-context ", "contextsof(\"cluster_kubeconfig\") :4"),
            ("cluster join east --mode ", "push pull none :4"),
            ("place deploy/web --on c", "clusterlists :4"),
            ("keys rotate ", "tokens encryption :4"),
            ("keys retire ", "keys :4"),
            ("snapshot restore ", ":0"),
            ("completion ", "bash zsh fish :4"),
            ("--color ", "auto always never :4"),
            ("--color never work", "workspace :4"),
            ("workspace --color always t", "tree :4"),
            ("no such command ", ":4"),
        ] {
            assert_eq!(values(line), expected, "{line:?}");
        }
    }

    #[test]
    fn hidden_commands_are_omitted_and_candidates_have_help() {
        let all = completed("");
        assert!(all.starts_with("start\tStart the control plane\n"), "{all}");
        assert!(!all.contains("__complete"), "{all}");
        assert!(completed("workspace list --o").starts_with("--output\tOutput format"));
        let options = values("workspace list -");
        for option in ["--output", "--kubeconfig", "--context", "--color", "--help"] {
            assert!(options.contains(option), "{options}");
        }
    }

    #[test]
    fn kubectl_requests_completion_by_program_name() {
        let arguments = |name: &str| [name, "workspace", ""].map(OsString::from);
        let asked = kubectl_completion_words(&arguments("/usr/bin/kubectl_complete-atoll"));
        assert_eq!(asked, Some(vec!["workspace".to_string(), String::new()]));
        assert_eq!(kubectl_completion_words(&arguments("kubectl-atoll")), None);
        assert_eq!(kubectl_completion_words(&[]), None);
    }
}

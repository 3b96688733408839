//! Parses an incomplete command line.

use clap::builder::PossibleValue;
use clap::{Arg, ArgAction, Command};

use super::Candidate;

/// The source of candidates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    Files,
    Directories,
    Words(Vec<Candidate>),
    /// Paths of workspaces, as arguments of `use`.
    Workspaces,
    /// Names of the children of the current workspace.
    Children,
    Contexts,
    /// Contexts of the kubeconfig that another option names.
    ContextsOf(&'static str),
    Clusters,
    /// Comma-separated names of clusters.
    ClusterLists,
    Keys,
}

#[derive(Debug)]
pub struct Expected {
    pub source: Source,
    /// The typed part of the word.
    pub partial: String,
    /// Preceding options with values, by id.
    pub given: Vec<(String, String)>,
}

impl Expected {
    pub fn given(&self, id: &str) -> Option<&str> {
        self.given.iter().rev().find(|(given, _)| given == id).map(|(_, value)| value.as_str())
    }
}

/// Determines what the last of `words` may be. `command` must have been built.
pub fn expected(command: &Command, words: &[String]) -> Expected {
    let (partial, before) = match words.split_last() {
        Some((last, before)) => (last.as_str(), before),
        None => ("", words),
    };
    let mut current = command;
    let mut given = Vec::new();
    // The option that expects a value next, and the number of positional arguments so far.
    let (mut pending, mut positions, mut only_positions) = (None::<&Arg>, 0, false);
    for word in before {
        if let Some(option) = pending.take() {
            given.push((option.get_id().to_string(), word.clone()));
        } else if only_positions || !word.starts_with('-') || word == "-" {
            match current.find_subcommand(word) {
                Some(deeper) if positions == 0 && !only_positions => current = deeper,
                _ => positions += 1,
            }
        } else if word == "--" {
            only_positions = true;
        } else if let Some((option, value)) = option(current, word) {
            match value {
                Some(value) => given.push((option.get_id().to_string(), value.to_string())),
                None => pending = Some(option),
            }
        }
    }
    let (source, partial) = if let Some(option) = pending {
        (values(current, option), partial)
    } else if !only_positions && partial.starts_with('-') {
        match partial.split_once('=').and_then(|(name, value)| Some((option(current, name)?.0, value))) {
            Some((option, value)) => (values(current, option), value),
            None => (Source::Words(options(current)), partial),
        }
    } else if current.has_subcommands() && positions == 0 && !only_positions {
        (Source::Words(commands(current)), partial)
    } else {
        let position = current.get_positionals().nth(positions);
        (position.map_or(Source::Words(Vec::new()), |position| values(current, position)), partial)
    };
    Expected { source, partial: partial.to_string(), given }
}

/// An option that takes a value, and the value if it is in the same word.
fn option<'a, 'w>(command: &'a Command, word: &'w str) -> Option<(&'a Arg, Option<&'w str>)> {
    let takes = |option: &&Arg| matches!(option.get_action(), ArgAction::Set | ArgAction::Append);
    if let Some(long) = word.strip_prefix("--") {
        let (name, value) = long.split_once('=').map_or((long, None), |(name, value)| (name, Some(value)));
        let found = command.get_opts().find(|option| option.get_long() == Some(name));
        return found.filter(takes).map(|option| (option, value));
    }
    let mut letters = word.strip_prefix('-')?.chars();
    let letter = letters.next()?;
    let found = command.get_opts().find(|option| option.get_short() == Some(letter)).filter(takes)?;
    let value = letters.as_str();
    Some((found, (!value.is_empty()).then(|| value.trim_start_matches('='))))
}

fn values(command: &Command, argument: &Arg) -> Source {
    let possible: Vec<PossibleValue> = argument.get_possible_values();
    if !possible.is_empty() {
        let candidate = |value: &PossibleValue| Candidate {
            value: value.get_name().to_string(),
            help: value.get_help().map(|help| first_line(&help.to_string())).unwrap_or_default(),
        };
        return Source::Words(possible.iter().filter(|value| !value.is_hide_set()).map(candidate).collect());
    }
    let name = argument.get_value_names().and_then(|names| names.first()).map(|name| name.as_str());
    match (command.get_name(), argument.get_id().as_str(), name) {
        ("use", "path", _) => Source::Workspaces,
        ("delete", "name", _) => Source::Children,
        ("retire", "id", _) => Source::Keys,
        ("describe" | "cordon" | "uncordon" | "drain" | "fence" | "remove", "name", _) => Source::Clusters,
        (_, "cluster", Some("NAME")) => Source::Clusters,
        ("place", "on", _) | ("move", "to", _) => Source::ClusterLists,
        (_, "control_plane_context", _) => Source::ContextsOf("control_plane_kubeconfig"),
        (_, "cluster_context", _) => Source::ContextsOf("cluster_kubeconfig"),
        (_, "context", _) => Source::Contexts,
        (_, _, Some("FILE")) => Source::Files,
        (_, _, Some("DIR")) => Source::Directories,
        _ => Source::Words(Vec::new()),
    }
}

fn commands(command: &Command) -> Vec<Candidate> {
    let visible = command.get_subcommands().filter(|command| !command.is_hide_set());
    visible
        .map(|command| Candidate {
            value: command.get_name().to_string(),
            help: command.get_about().map(|about| first_line(&about.to_string())).unwrap_or_default(),
        })
        .collect()
}

fn options(command: &Command) -> Vec<Candidate> {
    let visible = command.get_arguments().filter(|argument| !argument.is_hide_set());
    visible
        .filter_map(|argument| {
            Some(Candidate {
                value: format!("--{}", argument.get_long()?),
                help: argument.get_help().map(|help| first_line(&help.to_string())).unwrap_or_default(),
            })
        })
        .collect()
}

fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().to_string()
}

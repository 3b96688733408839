//! `atoll dialect …`.

use atoll_controllers::catalog::ControllerSelection;
use atoll_dialects::Registration;
use clap::builder::{PossibleValue, PossibleValuesParser};
use clap::{Args, Subcommand};

use super::Connection;

#[derive(Subcommand)]
pub enum DialectCommand {
    /// Serve another system's API in a workspace and all workspaces below it
    #[command(after_help = help())]
    Enable(DialectOptions),
    /// List the dialects, and whether they are enabled in a workspace
    #[command(visible_alias = "ls")]
    List {
        /// Workspace to show instead of the current one
        #[arg(long, value_name = "PATH")]
        workspace: Option<String>,
        #[command(flatten)]
        connection: Connection,
    },
    /// Stop serving it; refused while there are objects of its kinds
    Disable(DialectOptions),
}

#[derive(Args)]
pub struct DialectOptions {
    /// The dialect
    #[arg(value_parser = names())]
    pub dialect: String,

    /// Workspace to use instead of the current one: an absolute path such as root:org:team, or a relative one
    #[arg(long, value_name = "PATH")]
    pub workspace: Option<String>,

    #[command(flatten)]
    pub connection: Connection,
}

/// The dialects that are compiled in, with a line about each.
fn names() -> PossibleValuesParser {
    let value = |dialect: &Registration| {
        PossibleValue::new(dialect.dialect.name()).help(dialect.dialect.texts().about)
    };
    PossibleValuesParser::new(atoll_dialects::all().iter().map(value))
}

/// A paragraph about each dialect.
fn help() -> String {
    let help: Vec<&str> = atoll_dialects::all().iter().map(|dialect| dialect.dialect.texts().help).collect();
    help.join("\n\n")
}

/// Parses a selection of controllers, which may name those of dialects.
pub fn controllers(text: &str) -> Result<ControllerSelection, String> {
    let dialects = atoll_dialects::all();
    let all = dialects.iter().flat_map(|dialect| dialect.controllers);
    let names: Vec<(&str, &str)> = all.map(|controller| (controller.name, controller.alias)).collect();
    ControllerSelection::parse(text, &names)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use atoll_controllers::catalog::{ATOLL_CONTROLLERS, CONTROLLERS};

    #[test]
    fn controllers_of_dialects_have_names_of_their_own() {
        let catalog = CONTROLLERS.iter().map(|row| (row.name, row.alias));
        let known: HashSet<&str> = catalog
            .chain(ATOLL_CONTROLLERS.iter().copied())
            .flat_map(|(name, alias)| [name, alias])
            .collect();
        for controller in atoll_dialects::all().iter().flat_map(|dialect| dialect.controllers) {
            for name in [controller.name, controller.alias] {
                assert!(!known.contains(name), "another controller is called {name}");
            }
        }
    }
}

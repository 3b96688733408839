//! `atoll keys`: the keys that sign ServiceAccount tokens, and the key that encrypts data at rest.

use atoll_authn::service_account::{list, retire, rotate};
use serde_json::json;

use crate::advice::{Failure, closest_match, invocation, join_names};
use crate::command::{KeyKind, KeysCommand};
use crate::encryption;
use crate::output::outln;
use crate::output::{self, OutputFormat, OutputOptions};
use crate::style::Paint;

pub fn run(command: KeysCommand) -> Result<(), String> {
    match command {
        KeysCommand::List { location, shown } => {
            check(&location.data_dir)?;
            let keys = list(&location.data_dir).map_err(|error| error.to_string())?;
            output::print(&listing(&keys, shown)?);
        }
        KeysCommand::Rotate { kind: KeyKind::Tokens, location } => {
            check(&location.data_dir)?;
            let id = rotate(&location.data_dir).map_err(|error| error.to_string())?;
            outln!("Tokens are signed with {id} from now on. Tokens signed with other keys stay valid.");
        }
        KeysCommand::Rotate { kind: KeyKind::Encryption, location } => {
            check(&location.data_dir)?;
            let name = encryption::rotate(&location.data_dir)?;
            outln!(
                "Restart the server: it then encrypts everything with {name}, and the old key can be deleted."
            );
        }
        KeysCommand::Retire { id, location } => {
            check(&location.data_dir)?;
            retire(&location.data_dir, &id).map_err(|error| not_retired(&location.data_dir, &id, &error))?;
            outln!("Tokens signed with {id} are no longer valid.");
        }
    }
    Ok(())
}

/// The newest key comes first and signs.
fn listing(keys: &[String], shown: OutputOptions) -> Result<String, String> {
    let uses = |position: usize| if position == 0 { "signs and verifies" } else { "verifies" };
    let document = || {
        let key =
            |(position, id): (usize, &String)| json!({ "id": id, "signs": position == 0, "verifies": true });
        json!({ "keys": keys.iter().enumerate().map(key).collect::<Vec<_>>() })
    };
    let lines = |line: &dyn Fn(usize, &str) -> String| {
        keys.iter().enumerate().map(|(position, id)| line(position, id) + "\n").collect()
    };
    Ok(match shown.output {
        None => lines(&|position, id| format!("{id}  {}", uses(position))),
        Some(OutputFormat::Name) => lines(&|_, id| id.to_string()),
        Some(OutputFormat::Json) => output::json(&document()),
        Some(OutputFormat::Yaml) => output::yaml(&document())?,
        Some(OutputFormat::Wide) => {
            let headers = ["ID", "USE", "ALGORITHM"].map(String::from);
            let row = |(position, id): (usize, &String)| {
                vec![id.clone(), uses(position).to_string(), "ES256".to_string()]
            };
            let rows: Vec<_> = keys.iter().enumerate().map(row).collect();
            output::table(&headers, &rows, Paint::stdout())
        }
    })
}

fn not_retired(directory: &std::path::Path, id: &str, error: &dyn std::fmt::Display) -> Failure {
    let keys = list(directory).unwrap_or_default();
    let next = match keys.iter().position(|key| key == id) {
        Some(0) => format!("create a new signing key first: {} keys rotate tokens", invocation()),
        Some(_) => return error.to_string().into(),
        None => {
            let names: Vec<&str> = keys.iter().map(String::as_str).collect();
            match closest_match(id, names.iter().copied()) {
                Some(name) => format!("did you mean {name}?"),
                None => format!("the keys are {}", join_names(&names)),
            }
        }
    };
    Failure::new(error.to_string(), next)
}

/// Prevents a mistyped path from creating keys in a new directory.
fn check(directory: &std::path::Path) -> Result<(), String> {
    match directory.join("service-account.key").exists() {
        true => Ok(()),
        false => {
            let what = format!("{} is not a data directory of Atoll", directory.display());
            Err(Failure::new(what, "name the server's data directory with --data-dir").into())
        }
    }
}

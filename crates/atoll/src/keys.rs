//! `atoll keys`: the keys that sign tokens of ServiceAccounts, and the key that encrypts what is on the disk.

use atoll_authn::service_account::{list, retire, rotate};

use crate::command::{KeyKind, KeysCommand};
use crate::encryption;

pub fn run(command: KeysCommand) -> Result<(), String> {
    match command {
        KeysCommand::List { place } => {
            check(&place.data_dir)?;
            let keys = list(&place.data_dir).map_err(|error| error.to_string())?;
            for (position, id) in keys.iter().enumerate() {
                println!("{id}  {}", if position == 0 { "signs and verifies" } else { "verifies" });
            }
        }
        KeysCommand::Rotate { kind: KeyKind::Tokens, place } => {
            check(&place.data_dir)?;
            let id = rotate(&place.data_dir).map_err(|error| error.to_string())?;
            println!("Tokens are signed with {id} from now on. Those that others have signed stay valid.");
        }
        KeysCommand::Rotate { kind: KeyKind::Encryption, place } => {
            check(&place.data_dir)?;
            let name = encryption::rotate(&place.data_dir)?;
            println!("Restart the server: it then encrypts everything with {name}, and the old key can go.");
        }
        KeysCommand::Retire { id, place } => {
            check(&place.data_dir)?;
            retire(&place.data_dir, &id).map_err(|error| error.to_string())?;
            println!("Tokens that {id} has signed are no longer valid.");
        }
    }
    Ok(())
}

/// A typo must not make keys in a new place.
fn check(directory: &std::path::Path) -> Result<(), String> {
    match directory.join("service-account.key").exists() {
        true => Ok(()),
        false => {
            Err(format!("{} is not a data directory of Atoll; name it with --data-dir", directory.display()))
        }
    }
}

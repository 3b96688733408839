//! Input of clients: kubeconfigs, settings and responses of servers.

use atoll_client::WatchEvent;
use atoll_client::kubeconfig::{Kubeconfig, is_token};
use serde_json::json;

use crate::{Accepted, text};

// The atoll crate has no library.
#[path = "../../crates/atoll/src/command/settings.rs"]
mod settings_file;

/// Every context can be read, and a kubeconfig that is written and parsed again is equal.
pub fn kubeconfig(bytes: &[u8]) -> Accepted {
    let mut config = Kubeconfig::parse(text(bytes)?).ok()?;
    assert_eq!(Kubeconfig::parse(&config.text()).as_ref(), Ok(&config));
    let names: Vec<String> = config.contexts().into_iter().map(str::to_string).collect();
    let mut readable = None;
    for name in names {
        if config.context(&name, None).is_ok() {
            let cluster = config.cluster_name(&name).expect("it has a cluster").to_string();
            config.set_server(&cluster, "https://elsewhere").expect("it has a server");
            assert_eq!(config.context(&name, None).expect("a context").server, "https://elsewhere");
            readable = Some(());
        }
    }
    let _ = config.set_user("admin", json!({}));
    readable
}

/// Replacing a token in a kubeconfig changes nothing else, for any token that a server returns. The first
/// line is the token, the rest is the kubeconfig.
pub fn token_in_kubeconfig(bytes: &[u8]) -> Accepted {
    let (token, rest) = text(bytes)?.split_once('\n')?;
    let before = Kubeconfig::parse(rest).ok()?;
    let old = before.contexts().into_iter().find_map(|name| before.context(name, None).ok()?.token)?;
    // The input is one line, so line breaks in the token are written as `\n`.
    for new in [token.to_string(), token.replace("\\n", "\n")] {
        let mut after = before.clone();
        match after.replace_token(&old, &new) {
            Err(_) => assert_eq!(after, before),
            Ok(()) => {
                assert!(is_token(&new));
                let mut again = Kubeconfig::parse(&after.text()).expect("what was written is a kubeconfig");
                again.replace_token(&new, "a.b.c").expect("the token is there");
                let mut expected = before.clone();
                expected.replace_token(&old, "a.b.c").expect("the token is there");
                // If the new token was already in the kubeconfig, replacing it changes several users.
                if !rest.contains(&new) {
                    assert_eq!(again, expected);
                }
            }
        }
    }
    Some(())
}

/// Settings are sorted, and each name occurs once.
pub fn settings(bytes: &[u8]) -> Accepted {
    let settings = settings_file::parse(text(bytes)?).ok()?;
    assert!(settings.is_sorted_by(|one, next| one.0 < next.0));
    Some(())
}

/// A line of a watch is parsed as an event or ends the watch.
pub fn watch_event(bytes: &[u8]) -> Accepted {
    WatchEvent::parse(bytes).map(|_| ())
}

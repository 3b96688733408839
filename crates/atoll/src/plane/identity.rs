//! What sets a control plane apart from all others: something random that was written before anything else, and goes
//! wherever its data goes.

use std::ops::Bound;

use atoll_store::{Condition, Key, Range, Store, Write};
use bytes::Bytes;
use serde_json::{Value, json};

/// Group and resource of its key. Nobody sees it.
const KEY: (&str, &str) = ("internal.atoll.dev", "identity");

/// The identity of whoever has this data. Data from before there were any has an empty one.
pub async fn of(store: &dyn Store) -> Result<String, String> {
    let key = Key::object(KEY.0, KEY.1, "", "", "self");
    let found = store.range(Range { start: Bound::Included(key.clone()), end: Bound::Included(key.clone()) }, None, 1).await.map_err(|error| format!("{error:?}"))?;
    if let Some(entry) = found.entries.first() {
        let value: Value = serde_json::from_slice(&entry.value).map_err(|error| error.to_string())?;
        return Ok(value["id"].as_str().unwrap_or_default().to_string());
    }
    if store.revision().await.map_err(|error| format!("{error:?}"))? > 0 {
        return Ok(String::new());
    }
    let mut random = [0; 16];
    getrandom::fill(&mut random).map_err(|error| format!("no random numbers: {error}"))?;
    let id = atoll_meta::id::uuid_v4(random);
    // The first revision is that of what lies under all workspaces.
    store.raise(atoll_watch::layer::REVISION).await.map_err(|error| format!("{error:?}"))?;
    let value = Some(Bytes::from(json!({ "id": id }).to_string()));
    let write = Write { key, expect: Condition::Absent, value, guards: Vec::new(), memo: None };
    store.write(write).await.map_err(|error| format!("{error:?}"))?;
    Ok(id)
}

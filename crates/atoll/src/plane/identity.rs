//! The random identity of a control plane, which is written before anything else.

use std::ops::Bound;

use atoll_store::{Condition, Range, Store, Write};
use atoll_watch::layer;
use bytes::Bytes;
use serde_json::json;

/// Writes an identity to new data. Data of older versions has none.
pub async fn ensure(store: &dyn Store) -> Result<(), String> {
    if store.revision().await.map_err(|error| format!("{error:?}"))? > 0 {
        return Ok(());
    }
    let key = layer::identity_key();
    let range = Range { start: Bound::Included(key.clone()), end: Bound::Included(key.clone()) };
    let found = store.range(range, None, 1).await.map_err(|error| format!("{error:?}"))?;
    if !found.entries.is_empty() {
        return Ok(());
    }
    let mut random = [0; 16];
    getrandom::fill(&mut random).map_err(|error| format!("no random numbers: {error}"))?;
    let identity = json!({ "metadata": { "name": "self", "uid": atoll_meta::id::uuid_v4(random) } });
    // The first revision belongs to the bootstrap layer.
    store.raise(layer::REVISION).await.map_err(|error| format!("{error:?}"))?;
    let value = Some(Bytes::from(atoll_meta::json::encode_object(&identity)));
    let write = Write { key, expect: Condition::Absent, value, guards: Vec::new(), hint: None };
    store.write(write).await.map(|_| ()).map_err(|error| format!("the first write failed: {error:?}"))
}

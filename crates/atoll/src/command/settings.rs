//! Files that say how to start, instead of flags.

use std::collections::BTreeMap;

use serde_json::Value;

/// Names and values of flags, in the order of their names.
pub fn parse(text: &str) -> Result<Vec<(String, String)>, String> {
    let settings: BTreeMap<String, Value> =
        serde_saphyr::from_str(text).map_err(|error| error.to_string())?;
    let written = |value| match value {
        Value::String(text) => text,
        other => other.to_string(),
    };
    Ok(settings.into_iter().map(|(name, value)| (name, written(value))).collect())
}

//! Config files with flags of `atoll start`.

use std::collections::BTreeMap;

use serde_json::Value;

/// Parses a config file. Returns names and values of flags, sorted by name.
pub fn parse(text: &str) -> Result<Vec<(String, String)>, String> {
    let settings: BTreeMap<String, Value> =
        serde_saphyr::from_str(text).map_err(|error| error.to_string())?;
    let written = |value| match value {
        Value::String(text) => text,
        other => other.to_string(),
    };
    Ok(settings.into_iter().map(|(name, value)| (name, written(value))).collect())
}

//! Bounds of schemas from clusters, which may be hostile: depth and size are checked before any recursion.

use atoll_crd::limits::Size;
use atoll_meta::FieldPath;
use serde_json::Value;

/// Maximum nesting depth of the JSON of a schema: two levels for each level that it describes.
const DEEPEST: usize = 256;
/// Maximum number of JSON values in a schema.
const MOST_VALUES: usize = 1 << 20;
/// Maximum number of steps of one comparison.
pub(crate) const MOST_STEPS: usize = 4 << 20;

/// The reason why a schema is not processed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Excess {
    Depth,
    Size,
}

impl Excess {
    /// The reason in words that follow the name of the schema.
    pub fn words(self) -> &'static str {
        match self {
            Excess::Depth => "a schema that is nested too deeply",
            Excess::Size => "a schema that is too large",
        }
    }
}

/// Checks the depth and size of a schema, without recursion until the depth is known.
///
/// # Errors
///
/// The limit that the schema exceeds.
pub fn check(schema: &Value) -> Result<(), Excess> {
    let mut seen = 0_usize;
    let mut open = vec![(schema, 1_usize)];
    while let Some((value, depth)) = open.pop() {
        seen += 1;
        if depth > DEEPEST {
            return Err(Excess::Depth);
        }
        if seen > MOST_VALUES {
            return Err(Excess::Size);
        }
        match value {
            Value::Array(items) => open.extend(items.iter().map(|item| (item, depth + 1))),
            Value::Object(fields) => open.extend(fields.values().map(|field| (field, depth + 1))),
            _ => {}
        }
    }
    Size::default().add(schema, &FieldPath::nil()).map_err(|_| Excess::Size)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn deep_and_large_schemas_are_refused() {
        let mut deep = json!({});
        for _ in 0..127 {
            deep = json!({ "items": { "properties": deep } });
        }
        assert_eq!(check(&deep), Ok(()));
        deep = json!({ "items": { "properties": deep } });
        assert_eq!(check(&deep), Err(Excess::Depth));
        assert_eq!(check(&json!({ "enum": vec![0; MOST_VALUES] })), Err(Excess::Size));
        let properties = (0..110_000).map(|index| (format!("f{index}"), json!({ "type": "string" })));
        let wide = json!({ "properties": properties.collect::<serde_json::Map<_, _>>() });
        assert_eq!(check(&wide), Err(Excess::Size));
    }
}

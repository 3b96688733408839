//! The path of a field in a schema.

use crate::difference::shortened;

/// A step from a schema to a part of it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum SchemaPathStep<'s> {
    Field(&'s str),
    Items,
    Values,
}

/// Writes a path: `.spec.ports[].name`, `.metadata.labels[*]`, and `.` for the object itself.
pub(crate) fn text(steps: &[SchemaPathStep<'_>]) -> String {
    let mut text = String::new();
    for step in steps {
        match step {
            SchemaPathStep::Field(name) => push_field(&mut text, name),
            SchemaPathStep::Items => text.push_str("[]"),
            SchemaPathStep::Values => text.push_str("[*]"),
        }
    }
    if text.is_empty() { ".".to_owned() } else { text }
}

/// Appends a field. Names with other characters than those of identifiers are quoted.
pub(crate) fn push_field(text: &mut String, name: &str) {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '$');
    if !name.is_empty() && name.chars().all(is_plain) {
        text.push('.');
        text.push_str(&shortened(name));
    } else {
        text.push_str(&format!("[{:?}]", shortened(name)));
    }
}

/// Converts the path of a field in an object (`spec.ports[0].name`) to this notation.
pub(crate) fn of_object(field: &str) -> String {
    // The paths of scale begin with a dot already.
    match field.trim_start_matches('.') {
        "" | "<nil>" => ".".to_owned(),
        field if field.starts_with('[') => field.to_owned(),
        field => format!(".{field}"),
    }
}

/// Converts the path of an item (`.spec.ports[0].name`) to that in the schema.
pub(crate) fn without_indices(field: &str) -> String {
    let mut text = String::with_capacity(field.len());
    let mut rest = field;
    while let Some(start) = rest.find('[') {
        let inside = &rest[start + 1..];
        let digits = inside.bytes().take_while(u8::is_ascii_digit).count();
        let is_index = digits > 0 && inside[digits..].starts_with(']');
        text.push_str(&rest[..=start]);
        rest = if is_index { &inside[digits..] } else { inside };
    }
    text.push_str(rest);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_read_like_fields() {
        use SchemaPathStep::{Field, Items, Values};
        assert_eq!(text(&[]), ".");
        assert_eq!(text(&[Field("spec"), Field("ports"), Items, Field("name")]), ".spec.ports[].name");
        assert_eq!(text(&[Field("a.b"), Values]), "[\"a.b\"][*]");
        assert_eq!(of_object("spec.ports[0].name"), ".spec.ports[0].name");
        assert_eq!(of_object("<nil>"), ".");
        assert_eq!(without_indices(".spec.ports[10].names[2][x]"), ".spec.ports[].names[][x]");
    }
}

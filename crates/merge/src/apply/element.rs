//! One element of a path, in upstream's order and notation.

// upstream: sigs.k8s.io/structured-merge-diff/v6/fieldpath/element.go
// upstream: sigs.k8s.io/structured-merge-diff/v6/fieldpath/serialize-pe.go

use std::borrow::Cow;
use std::cmp::Ordering;
use std::fmt;

use atoll_meta::{json, quote};
use serde_json::Value;

/// A path element: a field, or an item of a list that is identified by its contents. Elements borrow from the
/// objects and the `managedFields` that they come from.
#[derive(Clone, Debug)]
pub enum Element<'a> {
    /// A field of a struct or an entry of a map.
    Field(&'a str),
    /// The item of a list with these values of its key fields, sorted by name.
    Key(Vec<(Cow<'a, str>, Cow<'a, Value>)>),
    /// The item of a set with this value.
    Value(Cow<'a, Value>),
    /// The item of a list at an index. No field is owned by index, but clients may send it.
    Index(i64),
}

/// The reason why a path element of `fieldsV1` cannot be parsed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ElementError {
    /// Unknown kind of element, which is skipped.
    Unknown,
    Malformed,
}

impl<'a> Element<'a> {
    /// Parses a path element of `fieldsV1`: `f:name`, `k:{"name":"a"}`, `v:"a"`, `i:0`.
    pub fn parse(text: &'a str) -> Result<Self, ElementError> {
        let (kind, rest) = text
            .split_at_checked(2)
            .filter(|(kind, _)| kind.ends_with(':'))
            .ok_or(ElementError::Malformed)?;
        let value =
            || json::parse(rest.as_bytes()).map(|parsed| parsed.value).map_err(|_| ElementError::Malformed);
        match kind {
            "f:" => Ok(Element::Field(rest)),
            "v:" => Ok(Element::Value(Cow::Owned(value()?))),
            "i:" => rest.parse().map(Element::Index).map_err(|_| ElementError::Malformed),
            "k:" => match value()? {
                // The map is already sorted by name.
                Value::Object(fields) => Ok(Element::Key(
                    fields.into_iter().map(|(name, value)| (Cow::Owned(name), Cow::Owned(value))).collect(),
                )),
                _ => Err(ElementError::Malformed),
            },
            _ => Err(ElementError::Unknown),
        }
    }

    /// Encodes the path element for `fieldsV1`.
    pub fn encode(&self) -> String {
        match self {
            Element::Field(name) => ["f:", name].concat(),
            Element::Index(index) => format!("i:{index}"),
            Element::Value(value) => {
                let mut out = b"v:".to_vec();
                json::write(value, &mut out);
                text(out)
            }
            Element::Key(fields) => {
                let mut out = Vec::with_capacity(48);
                out.extend_from_slice(b"k:{");
                for (index, (name, value)) in fields.iter().enumerate() {
                    if index > 0 {
                        out.push(b',');
                    }
                    json::write_string(name, &mut out);
                    out.push(b':');
                    json::write(value, &mut out);
                }
                out.push(b'}');
                text(out)
            }
        }
    }

    fn rank(&self) -> u8 {
        match self {
            Element::Field(_) => 0,
            Element::Key(_) => 1,
            Element::Value(_) => 2,
            Element::Index(_) => 3,
        }
    }
}

/// Converts the output of the JSON writer, which is valid UTF-8.
fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap_or_default()
}

impl Ord for Element<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        #[cfg(test)]
        super::tests::steps::count();
        match (self, other) {
            (Element::Field(left), Element::Field(right)) => left.cmp(right),
            (Element::Key(left), Element::Key(right)) => {
                let pairs = left.iter().zip(right);
                let unequal = pairs
                    .map(|(left, right)| left.0.cmp(&right.0).then_with(|| json::compare(&left.1, &right.1)))
                    .find(|order| order.is_ne());
                unequal.unwrap_or_else(|| left.len().cmp(&right.len()))
            }
            (Element::Value(left), Element::Value(right)) => json::compare(left, right),
            (Element::Index(left), Element::Index(right)) => left.cmp(right),
            _ => self.rank().cmp(&other.rank()),
        }
    }
}

impl PartialOrd for Element<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Element<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Element<'_> {}

/// Formats the element as in conflicts: `.name`, `[name="a"]`, `[="a"]`, `[0]`.
impl fmt::Display for Element<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Element::Field(name) => write!(f, ".{name}"),
            Element::Index(index) => write!(f, "[{index}]"),
            Element::Value(value) => write!(f, "[={}]", display_value(value)),
            Element::Key(fields) => {
                f.write_str("[")?;
                for (index, (name, value)) in fields.iter().enumerate() {
                    let comma = if index > 0 { "," } else { "" };
                    write!(f, "{comma}{name}={}", display_value(value))?;
                }
                f.write_str("]")
            }
        }
    }
}

fn display_value(value: &Value) -> String {
    match value {
        Value::String(text) => quote::quote(text),
        Value::Number(number) if number.is_f64() => quote::print_float(number.as_f64().unwrap_or_default()),
        other => json::to_string(other),
    }
}

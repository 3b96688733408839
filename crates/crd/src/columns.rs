//! Table rows of objects with the additional printer columns of a definition.

// upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/registry/customresource/tableconvertor/tableconvertor.go

use atoll_meta::json;
use atoll_meta::time::{self, Timestamp, human_duration};
use serde_json::Value;

use crate::path::{JsonPath, PathResult};
use crate::scale::go_print;

/// One column, except the name.
#[derive(Clone, Debug)]
pub struct Column {
    pub name: Box<str>,
    /// `string`, `integer`, `number`, `boolean` or `date`.
    pub kind: Box<str>,
    pub format: Box<str>,
    /// `None` for the age, which every kind has; upstream uses the description of the field.
    pub description: Option<Box<str>>,
    pub priority: i32,
    path: JsonPath,
}

impl Column {
    /// The columns of a version. An invalid column ends the list, as in upstream; without columns there is
    /// one for the age.
    pub(crate) fn all(version: &Value) -> Vec<Column> {
        let given = version.get("additionalPrinterColumns").and_then(Value::as_array);
        match given.filter(|columns| !columns.is_empty()) {
            Some(columns) => columns.iter().map_while(Column::new).collect(),
            None => Column::age().into_iter().collect(),
        }
    }

    fn new(column: &Value) -> Option<Column> {
        let text = |field: &str| column.get(field).and_then(Value::as_str).unwrap_or_default();
        let path = text("jsonPath");
        let description = match text("description") {
            "" => format!("Custom resource definition column (in JSONPath format): {path}"),
            description => description.to_owned(),
        };
        Some(Column {
            name: text("name").into(),
            kind: text("type").into(),
            format: text("format").into(),
            description: Some(description.into()),
            priority: column.get("priority").and_then(Value::as_i64).unwrap_or_default() as i32,
            path: JsonPath::parse(path).ok()?,
        })
    }

    fn age() -> Option<Column> {
        Some(Column {
            name: "Age".into(),
            kind: "date".into(),
            format: "".into(),
            description: None,
            priority: 0,
            path: JsonPath::parse(".metadata.creationTimestamp").ok()?,
        })
    }

    /// The cell of an object in this column.
    pub fn cell(&self, object: &Value, now: Timestamp) -> Value {
        let Some(found) = self.path.first(object) else { return Value::Null };
        if &*self.kind == "string" {
            return Value::from(printed(&found));
        }
        let value = found.value();
        match (&*self.kind, &**value) {
            ("integer", Value::Number(number)) => match (number.as_i64(), number.as_f64()) {
                (Some(integer), _) => Value::from(integer),
                (None, Some(float)) => Value::from(float as i64),
                (None, None) => Value::Null,
            },
            ("number", Value::Number(number)) => number.as_f64().map_or(Value::Null, Value::from),
            ("boolean", Value::Bool(flag)) => Value::from(*flag),
            ("date", Value::String(text)) => Value::from(age(text, now)),
            _ => Value::Null,
        }
    }
}

fn printed(found: &PathResult<'_>) -> String {
    match &**found.value() {
        Value::Null => "<no value>".to_owned(),
        value @ (Value::Array(_) | Value::Object(_)) => json::to_string(value),
        value => go_print(value),
    }
}

fn age(text: &str, now: Timestamp) -> String {
    // As for query parameters, an empty string and null are not a time.
    if matches!(text, "" | "null") {
        return "<unknown>".to_owned();
    }
    match time::parse(text) {
        Err(_) => "<invalid>".to_owned(),
        Ok(time) if time.is_zero() => "<unknown>".to_owned(),
        Ok(time) => {
            let early = i64::from(now.nanos < time.nanos);
            human_duration(now.seconds - time.seconds - early)
        }
    }
}

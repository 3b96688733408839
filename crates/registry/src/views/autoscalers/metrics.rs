//! Conversion between metrics in `autoscaling/v1` annotations and stored metrics.

// upstream: pkg/apis/autoscaling/v1/conversion.go

use atoll_meta::json;
use atoll_meta::quantity::Quantity;
use atoll_schema::{TypeRef, Types};
use serde_json::{Map, Value, json};

use super::annotations::{
    METRIC_SPEC, METRIC_STATUS, Object, read_list, text, typed, write_list, write_typed,
};

/// One of the two lists of metrics.
pub struct Form {
    /// The stored type of an element.
    key: &'static str,
    sources: [(&'static str, &'static [Field]); 5],
    /// Completes a source with values that the annotation does not have.
    complete: fn(&str, &mut Value),
}

/// A field of a source, in the order in which it is written.
struct Field {
    name: &'static str,
    /// Path in the stored form, separated by slashes.
    stored: &'static str,
    absent: Absent,
}

/// The encoding of an absent field.
#[derive(Clone, Copy)]
enum Absent {
    Nothing,
    Text,
    Zero,
    Reference,
}

const fn field(name: &'static str, stored: &'static str, absent: Absent) -> Field {
    Field { name, stored, absent }
}

use Absent::{Nothing, Reference, Text, Zero};

pub static SPEC: Form = Form {
    key: METRIC_SPEC,
    sources: [
        (
            "object",
            &[
                field("target", "describedObject", Reference),
                field("metricName", "metric/name", Text),
                field("targetValue", "target/value", Zero),
                field("selector", "metric/selector", Nothing),
                field("averageValue", "target/averageValue", Nothing),
            ],
        ),
        (
            "pods",
            &[
                field("metricName", "metric/name", Text),
                field("targetAverageValue", "target/averageValue", Zero),
                field("selector", "metric/selector", Nothing),
            ],
        ),
        (
            "resource",
            &[
                field("name", "name", Text),
                field("targetAverageUtilization", "target/averageUtilization", Nothing),
                field("targetAverageValue", "target/averageValue", Nothing),
            ],
        ),
        (
            "containerResource",
            &[
                field("name", "name", Text),
                field("targetAverageUtilization", "target/averageUtilization", Nothing),
                field("targetAverageValue", "target/averageValue", Nothing),
                field("container", "container", Text),
            ],
        ),
        (
            "external",
            &[
                field("metricName", "metric/name", Text),
                field("metricSelector", "metric/selector", Nothing),
                field("targetValue", "target/value", Nothing),
                field("targetAverageValue", "target/averageValue", Nothing),
            ],
        ),
    ],
    complete: complete_target,
};

pub static STATUS: Form = Form {
    key: METRIC_STATUS,
    sources: [
        (
            "object",
            &[
                field("target", "describedObject", Reference),
                field("metricName", "metric/name", Text),
                field("currentValue", "current/value", Zero),
                field("selector", "metric/selector", Nothing),
                field("averageValue", "current/averageValue", Nothing),
            ],
        ),
        (
            "pods",
            &[
                field("metricName", "metric/name", Text),
                field("currentAverageValue", "current/averageValue", Zero),
                field("selector", "metric/selector", Nothing),
            ],
        ),
        (
            "resource",
            &[
                field("name", "name", Text),
                field("currentAverageUtilization", "current/averageUtilization", Nothing),
                field("currentAverageValue", "current/averageValue", Zero),
            ],
        ),
        (
            "containerResource",
            &[
                field("name", "name", Text),
                field("currentAverageUtilization", "current/averageUtilization", Nothing),
                field("currentAverageValue", "current/averageValue", Zero),
                field("container", "container", Text),
            ],
        ),
        (
            "external",
            &[
                field("metricName", "metric/name", Text),
                field("metricSelector", "metric/selector", Nothing),
                field("currentValue", "current/value", Zero),
                field("currentAverageValue", "current/averageValue", Nothing),
            ],
        ),
    ],
    complete: |_, _| {},
};

/// Converts an annotation to the stored form, `None` if it cannot be read.
pub fn read(types: &Types, form: &Form, annotation: &str) -> Option<Vec<Value>> {
    read_list(annotation, |metric| {
        let metric = match metric {
            Value::Null => Map::new(),
            Value::Object(fields) => fields,
            _ => return None,
        };
        let mut stored = Map::new();
        stored.insert("type".into(), member(&metric, "type").cloned().unwrap_or_default());
        for (source, fields) in &form.sources {
            match member(&metric, source) {
                None | Some(Value::Null) => {}
                Some(Value::Object(annotated)) => {
                    drop(stored.insert((*source).into(), read_source(fields, annotated)))
                }
                Some(_) => return None,
            }
        }
        let mut stored = typed(types, form.key, Value::Object(stored))?;
        for (source, _) in &form.sources {
            stored.get_mut(*source).into_iter().for_each(|metric| (form.complete)(source, metric));
        }
        Some(stored)
    })
}

fn read_source(fields: &[Field], annotated: &Map<String, Value>) -> Value {
    let mut stored = json!({});
    for field in fields {
        let value = match (member(annotated, field.name).filter(|value| !value.is_null()), field.absent) {
            (Some(value), _) => value.clone(),
            (None, Zero) => "0".into(),
            (None, _) => continue,
        };
        let slot = field.stored.split('/').fold(&mut stored, |slot, step| &mut slot[step]);
        *slot = value;
    }
    stored
}

/// Sets the type of a target from the values that are present.
fn complete_target(source: &str, metric: &mut Value) {
    let target = &mut metric["target"];
    let has = |name: &str| target.get(name).is_some();
    let kind = match source {
        "object" if !has("averageValue") => "Value",
        "external" if has("value") => "Value",
        "resource" | "containerResource" if has("averageUtilization") => "Utilization",
        _ => "AverageValue",
    };
    // In v1, the value of an object metric cannot be omitted, and zero would not be valid in v2.
    let is_zero = |value: &Value| {
        value.as_str().and_then(|text| Quantity::parse(text).ok()).is_some_and(|quantity| quantity.is_zero())
    };
    if source == "object" && kind == "AverageValue" && target.get("value").is_some_and(is_zero) {
        target.as_object_mut().map(|fields| fields.remove("value"));
    }
    target["type"] = kind.into();
}

/// Finds a field case-insensitively but prefers the exact name, as Go does.
fn member<'a>(fields: &'a Map<String, Value>, name: &str) -> Option<&'a Value> {
    let other = || fields.iter().find(|(own, _)| own.eq_ignore_ascii_case(name)).map(|(_, value)| value);
    fields.get(name).or_else(other)
}

/// Converts stored metrics to the annotation.
pub fn write(types: &Types, form: &Form, metrics: &[Value]) -> String {
    let mut out = Vec::new();
    write_list(metrics, &mut out, |metric, out| {
        let mut writer = Object::begin(out);
        json::write(&metric["type"], writer.field("type"));
        for (source, fields) in &form.sources {
            if let Some(stored) = metric.get(*source) {
                write_source(types, fields, stored, writer.field(source));
            }
        }
        writer.end();
    });
    text(out)
}

fn write_source(types: &Types, fields: &[Field], stored: &Value, out: &mut Vec<u8>) {
    let mut writer = Object::begin(out);
    for field in fields {
        let value = field.stored.split('/').try_fold(stored, |value, step| value.get(step));
        match (value.filter(|value| !value.is_null()), field.absent) {
            (Some(value), _) => write_value(types, field, value, writer.field(field.name)),
            (None, Nothing) => {}
            (None, Text) => writer.field(field.name).extend_from_slice(b"\"\""),
            (None, Zero) => writer.field(field.name).extend_from_slice(b"\"0\""),
            (None, Reference) => writer.field(field.name).extend_from_slice(b"{\"kind\":\"\",\"name\":\"\"}"),
        }
    }
    writer.end();
}

fn write_value(types: &Types, field: &Field, value: &Value, out: &mut Vec<u8>) {
    let structure = match field.stored {
        "describedObject" => types.by_key("autoscaling/v2.CrossVersionObjectReference"),
        "metric/selector" => types.by_key("meta/v1.LabelSelector"),
        _ => None,
    };
    match structure {
        Some(id) => write_typed(types, TypeRef::Struct(id), value, out),
        None => json::write(value, out),
    }
}

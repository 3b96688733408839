//! Metrics as `autoscaling/v1` has them in its annotations, beside those that are stored.

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
    /// Makes up for what the annotation does not say about a source.
    complete: fn(&str, &mut Value),
}

/// A field of a source, in the order in which it is written.
struct Field {
    name: &'static str,
    /// Where it is stored; a slash separates the steps.
    stored: &'static str,
    absent: Absent,
}

/// What is written for a field that is not there.
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

/// The stored form of what an annotation says, `None` if it cannot be read.
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
                Some(Value::Object(told)) => drop(stored.insert((*source).into(), read_source(fields, told))),
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

fn read_source(fields: &[Field], told: &Map<String, Value>) -> Value {
    let mut stored = json!({});
    for field in fields {
        let value = match (member(told, field.name).filter(|value| !value.is_null()), field.absent) {
            (Some(value), _) => value.clone(),
            (None, Zero) => "0".into(),
            (None, _) => continue,
        };
        let place = field.stored.split('/').fold(&mut stored, |place, step| &mut place[step]);
        *place = value;
    }
    stored
}

/// Which of its values a target is about follows from which are there.
fn complete_target(source: &str, metric: &mut Value) {
    let target = &mut metric["target"];
    let has = |name: &str| target.get(name).is_some();
    let kind = match source {
        "object" if !has("averageValue") => "Value",
        "external" if has("value") => "Value",
        "resource" | "containerResource" if has("averageUtilization") => "Utilization",
        _ => "AverageValue",
    };
    // An object's value cannot be left out there, and zero would not be valid here.
    let is_zero = |value: &Value| {
        value.as_str().and_then(|text| Quantity::parse(text).ok()).is_some_and(|quantity| quantity.is_zero())
    };
    if source == "object" && kind == "AverageValue" && target.get("value").is_some_and(is_zero) {
        target.as_object_mut().map(|fields| fields.remove("value"));
    }
    target["type"] = kind.into();
}

/// Go finds a field whatever the case of its name, but rather the one that is spelt right.
fn member<'a>(fields: &'a Map<String, Value>, name: &str) -> Option<&'a Value> {
    let other = || fields.iter().find(|(own, _)| own.eq_ignore_ascii_case(name)).map(|(_, value)| value);
    fields.get(name).or_else(other)
}

/// What the annotation says of stored metrics.
pub fn write(types: &Types, form: &Form, metrics: &[Value]) -> String {
    let mut out = Vec::new();
    write_list(metrics, &mut out, |metric, out| {
        let mut told = Object::begin(out);
        json::write(&metric["type"], told.field("type"));
        for (source, fields) in &form.sources {
            if let Some(stored) = metric.get(*source) {
                write_source(types, fields, stored, told.field(source));
            }
        }
        told.end();
    });
    text(out)
}

fn write_source(types: &Types, fields: &[Field], stored: &Value, out: &mut Vec<u8>) {
    let mut told = Object::begin(out);
    for field in fields {
        let value = field.stored.split('/').try_fold(stored, |value, step| value.get(step));
        match (value.filter(|value| !value.is_null()), field.absent) {
            (Some(value), _) => write_value(types, field, value, told.field(field.name)),
            (None, Nothing) => {}
            (None, Text) => told.field(field.name).extend_from_slice(b"\"\""),
            (None, Zero) => told.field(field.name).extend_from_slice(b"\"0\""),
            (None, Reference) => told.field(field.name).extend_from_slice(b"{\"kind\":\"\",\"name\":\"\"}"),
        }
    }
    told.end();
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

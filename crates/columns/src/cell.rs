//! The sources of cells.

// upstream: pkg/printers/internalversion/printers.go

use atoll_meta::time::Timestamp;
use serde_json::Value;

use crate::Column;
use crate::fields::{at, length, list, number, text};
use crate::format::{labels, selector, since};

/// A cell. Paths lead into the object, as in `spec.replicas`.
#[derive(Clone, Copy, Debug)]
pub enum Cell {
    /// The text at a path.
    Text(&'static str),
    /// The text at a path, or a default if it is absent or empty.
    TextOr(&'static str, &'static str),
    /// The text at a path, or a default if it is absent.
    Given(&'static str, &'static str),
    Number(&'static str),
    Flag(&'static str, bool),
    /// The number of elements of a list or map.
    Length(&'static str),
    /// The time since a timestamp.
    Since(&'static str),
    /// The time since a timestamp, or a default if it is absent.
    SinceOr(&'static str, &'static str),
    /// A map of labels.
    Labels(&'static str),
    /// A label selector.
    Selector(&'static str),
    /// The names of the containers of the pod spec at a path.
    ContainerNames(&'static str),
    ContainerImages(&'static str),
    Special(fn(&Value, Timestamp) -> Value),
}

impl Cell {
    pub fn of(&self, object: &Value, now: Timestamp) -> Value {
        match *self {
            Cell::Text(path) => text(object, path).into(),
            Cell::TextOr(path, otherwise) => match text(object, path) {
                "" => otherwise.into(),
                text => text.into(),
            },
            Cell::Given(path, otherwise) => {
                at(object, path).and_then(Value::as_str).unwrap_or(otherwise).into()
            }
            Cell::Number(path) => number(object, path).into(),
            Cell::Flag(path, otherwise) => {
                at(object, path).and_then(Value::as_bool).unwrap_or(otherwise).into()
            }
            Cell::Length(path) => length(object, path).into(),
            Cell::Since(path) => since(text(object, path), now).into(),
            Cell::SinceOr(path, otherwise) => match text(object, path) {
                "" => otherwise.into(),
                time => since(time, now).into(),
            },
            Cell::Labels(path) => labels(object, path).into(),
            Cell::Selector(path) => match selector(at(object, path)) {
                Some(text) if text.is_empty() => "<none>".into(),
                Some(text) => text.into(),
                None => "<error>".into(),
            },
            Cell::ContainerNames(path) => of_containers(object, path, "name"),
            Cell::ContainerImages(path) => of_containers(object, path, "image"),
            Cell::Special(cell) => cell(object, now),
        }
    }
}

fn of_containers(object: &Value, path: &str, field: &str) -> Value {
    let containers = at(object, path).map_or(&[][..], |spec| list(spec, "containers"));
    containers.iter().map(|container| text(container, field)).collect::<Vec<_>>().join(",").into()
}

impl Column {
    /// A column of text that is always shown.
    pub const fn new(name: &'static str, cell: Cell, description: &'static str) -> Self {
        Column { name, kind: "string", format: "", description, priority: 0, cell }
    }

    pub const fn integer(mut self) -> Self {
        self.kind = "integer";
        self
    }

    pub const fn boolean(mut self) -> Self {
        self.kind = "boolean";
        self
    }

    pub const fn date(mut self) -> Self {
        self.kind = "date";
        self
    }

    /// Marks the column as the name of objects.
    pub const fn naming(mut self) -> Self {
        self.format = "name";
        self
    }

    /// Limits the column to wide output.
    pub const fn wide(mut self) -> Self {
        self.priority = 1;
        self
    }
}

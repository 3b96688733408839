//! Tables of objects. The cells come from `atoll_columns`.

// upstream: staging/src/k8s.io/apiserver/pkg/endpoints/handlers/response.go
// upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/registry/customresource/tableconvertor/tableconvertor.go

use atoll_columns::{Column, Printer};
use atoll_meta::time::Timestamp;
use atoll_meta::{json, object};
use atoll_registry::definitions::CustomVersion;
use atoll_registry::{Clock, SystemClock};
use bytes::Bytes;
use serde_json::Value;

use super::metadata;
use crate::negotiate::{Include, Meta};

/// The annotation of the bookmark that ends the initial events: its object is always included.
pub const INITIAL_EVENTS_END: &str = "k8s.io/initial-events-end";

/// A table that is being rendered.
pub struct Table<'a> {
    printer: Columns<'a>,
    version: Meta,
    include: Include,
    now: Timestamp,
    rows: Vec<Row>,
}

/// The source of the columns.
#[derive(Clone, Copy)]
enum Columns<'a> {
    Known(&'static Printer),
    /// Columns of a CustomResourceDefinition.
    Custom(&'a CustomVersion),
}

struct Row {
    object: Value,
    /// The object, and the JSON from which its metadata is taken.
    whole: Bytes,
    metadata: Bytes,
}

impl Row {
    fn new(whole: Bytes) -> Row {
        let (object, metadata) = atoll_registry::views::printed(whole.clone());
        Row { object, whole, metadata }
    }
}

/// Renders a table of one object; `headers` includes the column definitions.
pub fn of_object(
    stored: &[u8],
    custom: Option<&CustomVersion>,
    version: Meta,
    include: Include,
    headers: bool,
    skew: i64,
) -> Bytes {
    let row = Row::new(Bytes::copy_from_slice(stored));
    let parsed = &row.object;
    let (group, _) = object::split_api_version(object::api_version(parsed)).unwrap_or_default();
    let mut table = Table::new(group, object::kind(parsed), custom, version, include, skew);
    let mut metadata = Vec::with_capacity(48);
    metadata.push(b'{');
    let revision = object::resource_version(parsed);
    if !revision.is_empty() {
        metadata.extend_from_slice(b"\"resourceVersion\":");
        json::write_string(revision, &mut metadata);
    }
    metadata.push(b'}');
    table.rows.push(row);
    table.finish(&metadata, headers)
}

impl<'a> Table<'a> {
    /// `skew` is the number of seconds by which the server's clock is ahead of the machine's.
    pub fn new(
        group: &str,
        kind: &str,
        custom: Option<&'a CustomVersion>,
        version: Meta,
        include: Include,
        skew: i64,
    ) -> Self {
        let printer = match custom {
            Some(custom) => Columns::Custom(custom),
            None => Columns::Known(atoll_columns::printer(group, kind)),
        };
        Table { printer, version, include, now: now(skew), rows: Vec::new() }
    }

    pub fn push(&mut self, stored: Bytes) {
        self.rows.push(Row::new(stored));
    }

    /// Returns the table; `metadata` is the list's, as JSON.
    pub fn finish(mut self, metadata: &[u8], headers: bool) -> Bytes {
        let mut out = Vec::with_capacity(1024 + 512 * self.rows.len());
        out.extend_from_slice(b"{\"kind\":\"Table\",\"apiVersion\":\"");
        out.extend_from_slice(self.version.api_version().as_bytes());
        out.extend_from_slice(b"\",\"metadata\":");
        out.extend_from_slice(metadata);
        out.extend_from_slice(b",\"columnDefinitions\":");
        match self.printer {
            Columns::Known(printer) if headers || printer.always_headed => {
                write_list(printer.columns, &mut out, write_column);
            }
            Columns::Custom(custom) if headers => write_custom_columns(custom, &mut out),
            _ => out.extend_from_slice(b"null"),
        }
        out.extend_from_slice(b",\"rows\":");
        let mut is_null = false;
        if let Columns::Known(printer) = self.printer {
            if let Some(order) = printer.order {
                self.rows.sort_by(|one, other| order(&one.object, &other.object));
            }
            is_null = self.rows.is_empty() && printer.null_when_empty;
        }
        match is_null {
            true => out.extend_from_slice(b"null"),
            false => write_list(&self.rows, &mut out, |row, out| self.write_row(row, out)),
        }
        out.push(b'}');
        Bytes::from(out)
    }

    fn write_row(&self, row: &Row, out: &mut Vec<u8>) {
        let object = &row.object;
        out.extend_from_slice(b"{\"cells\":");
        let (cells, conditions) = match self.printer {
            Columns::Known(printer) => (printer.cells(object, self.now), (printer.conditions)(object)),
            Columns::Custom(custom) => {
                let name = Value::from(object::name(object));
                let cells = custom.columns().iter().map(|column| column.cell(object, self.now));
                ([name].into_iter().chain(cells).collect(), None)
            }
        };
        write_list(&cells, out, json::write);
        if let Some(conditions) = conditions {
            out.extend_from_slice(b",\"conditions\":");
            json::write(&conditions, out);
        }
        out.extend_from_slice(b",\"object\":");
        let ends_initial_events = object::annotation(object, INITIAL_EVENTS_END) == Some("true");
        match self.include {
            Include::Object => out.extend_from_slice(&row.whole),
            Include::None if !ends_initial_events => out.extend_from_slice(b"null"),
            _ => metadata::write(&row.metadata, self.version, out),
        }
        out.push(b'}');
    }
}

fn write_column(column: &Column, out: &mut Vec<u8>) {
    let texts = [column.name, column.kind, column.format, column.description];
    write_heading(texts, column.priority.into(), out);
}

fn write_heading(texts: [&str; 4], priority: i32, out: &mut Vec<u8>) {
    let names = ["{\"name\":", ",\"type\":", ",\"format\":", ",\"description\":"];
    for (before, text) in names.iter().zip(texts) {
        out.extend_from_slice(before.as_bytes());
        json::write_string(text, out);
    }
    out.extend_from_slice(format!(",\"priority\":{priority}}}").as_bytes());
}

/// Writes the columns of a definition after the name column, which all kinds have. An age column without
/// description gets the default one.
fn write_custom_columns(custom: &CustomVersion, out: &mut Vec<u8>) {
    let known = atoll_columns::printer("", "ServiceAccount").columns;
    let described = |name: &str| known.iter().find(|column| column.name == name);
    out.push(b'[');
    if let Some(name) = described("Name") {
        write_column(name, out);
    }
    for column in custom.columns() {
        out.push(b',');
        let age = || described("Age").map_or("", |age| age.description);
        let description = column.description.as_deref().unwrap_or_else(age);
        write_heading([&column.name, &column.kind, &column.format, description], column.priority, out);
    }
    out.push(b']');
}

fn write_list<T>(items: &[T], out: &mut Vec<u8>, mut write: impl FnMut(&T, &mut Vec<u8>)) {
    out.push(b'[');
    for (position, item) in items.iter().enumerate() {
        if position > 0 {
            out.push(b',');
        }
        write(item, out);
    }
    out.push(b']');
}

fn now(skew: i64) -> Timestamp {
    let now = SystemClock.now();
    Timestamp::new(now.seconds + skew, now.nanos)
}

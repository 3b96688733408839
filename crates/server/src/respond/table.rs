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
use crate::inflight::{NoRoom, OutputMemory, TextBuffer, make_text};
use crate::negotiate::{Include, Meta};

/// The annotation of the bookmark that ends the initial events: its object is always included.
pub const INITIAL_EVENTS_END: &str = "k8s.io/initial-events-end";

/// The form of a table.
pub struct Table<'a> {
    printer: Columns<'a>,
    version: Meta,
    include: Include,
    now: Timestamp,
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

/// Renders a table of one object; `headers` includes the column definitions. `memory` need not contain the
/// parsed object.
pub fn of_object(
    stored: &[u8],
    custom: Option<&CustomVersion>,
    version: Meta,
    include: Include,
    headers: bool,
    skew: i64,
    memory: &mut OutputMemory,
) -> Result<Bytes, NoRoom> {
    let row = Row::new(Bytes::copy_from_slice(stored));
    let parsed = &row.object;
    let (group, _) = object::split_api_version(object::api_version(parsed)).unwrap_or_default();
    let table = Table::new(group, object::kind(parsed), custom, version, include, skew);
    let mut metadata = Vec::with_capacity(48);
    metadata.push(b'{');
    let revision = object::resource_version(parsed);
    if !revision.is_empty() {
        metadata.extend_from_slice(b"\"resourceVersion\":");
        json::write_string(revision, &mut metadata);
    }
    metadata.push(b'}');
    table.make_with(&metadata, headers, memory, |out| {
        out.push(b'[')?;
        table.write_row(&row, out)?;
        out.push(b']')
    })
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
        Table { printer, version, include, now: now(skew) }
    }

    /// Makes the table of objects; `metadata` is the list's, as JSON. Objects are parsed one after another.
    pub fn make<I: Iterator<Item = Bytes>>(
        &self,
        objects: impl Fn() -> I,
        metadata: &[u8],
        headers: bool,
        memory: &mut OutputMemory,
    ) -> Result<Bytes, NoRoom> {
        match self.printer {
            Columns::Known(Printer { order: Some(order), .. }) => {
                let mut rows = Vec::new();
                for stored in objects() {
                    memory.take_parsed(&stored)?;
                    rows.push(Row::new(stored));
                }
                rows.sort_by(|one, other| order(&one.object, &other.object));
                self.make_with(metadata, headers, memory, |out| {
                    self.write_rows(rows.iter(), out, |row, out| self.write_row(row, out))
                })
            }
            _ => self.make_with(metadata, headers, memory, |out| {
                self.write_rows(objects(), out, |stored, out| {
                    let parsed = out.memory().take_parsed(&stored)?;
                    self.write_row(&Row::new(stored), out)?;
                    out.memory().give_back(parsed);
                    Ok(())
                })
            }),
        }
    }

    fn make_with(
        &self,
        metadata: &[u8],
        headers: bool,
        memory: &mut OutputMemory,
        mut write_rows: impl FnMut(&mut TextBuffer<'_>) -> Result<(), NoRoom>,
    ) -> Result<Bytes, NoRoom> {
        let mut head = Vec::with_capacity(1024);
        head.extend_from_slice(b"{\"kind\":\"Table\",\"apiVersion\":\"");
        head.extend_from_slice(self.version.api_version().as_bytes());
        head.extend_from_slice(b"\",\"metadata\":");
        head.extend_from_slice(metadata);
        head.extend_from_slice(b",\"columnDefinitions\":");
        match self.printer {
            Columns::Known(printer) if headers || printer.always_headed => {
                write_list(printer.columns, &mut head, write_column);
            }
            Columns::Custom(custom) if headers => write_custom_columns(custom, &mut head),
            _ => head.extend_from_slice(b"null"),
        }
        head.extend_from_slice(b",\"rows\":");
        let table = make_text(memory, 2 * head.len(), |out| {
            out.extend(&head)?;
            write_rows(out)?;
            out.push(b'}')
        });
        table.map(Bytes::from)
    }

    fn write_rows<T>(
        &self,
        rows: impl Iterator<Item = T>,
        out: &mut TextBuffer<'_>,
        mut write: impl FnMut(T, &mut TextBuffer<'_>) -> Result<(), NoRoom>,
    ) -> Result<(), NoRoom> {
        let mut rows = rows.peekable();
        if let Columns::Known(printer) = self.printer
            && printer.null_when_empty
            && rows.peek().is_none()
        {
            return out.extend(b"null");
        }
        let mut separator = b'[';
        for row in rows {
            out.push(separator)?;
            write(row, out)?;
            separator = b',';
        }
        if separator == b'[' {
            out.push(b'[')?;
        }
        out.push(b']')
    }

    fn write_row(&self, row: &Row, out: &mut TextBuffer<'_>) -> Result<(), NoRoom> {
        let object = &row.object;
        out.extend(b"{\"cells\":")?;
        let mut part = Vec::new();
        match self.printer {
            Columns::Known(printer) => {
                write_list(&printer.cells(object, self.now), &mut part, json::write);
                if let Some(conditions) = (printer.conditions)(object) {
                    part.extend_from_slice(b",\"conditions\":");
                    json::write(&conditions, &mut part);
                }
                out.extend(&part)?;
            }
            Columns::Custom(custom) => {
                // Many columns may show the same large field, so each cell is counted before the next is made.
                part.push(b'[');
                json::write_string(object::name(object), &mut part);
                for column in custom.columns() {
                    part.push(b',');
                    json::write(&column.cell(object, self.now), &mut part);
                    out.extend(&part)?;
                    part.clear();
                }
                part.push(b']');
                out.extend(&part)?;
            }
        }
        out.extend(b",\"object\":")?;
        let ends_initial_events = object::annotation(object, INITIAL_EVENTS_END) == Some("true");
        match self.include {
            Include::Object => out.extend(&row.whole)?,
            Include::None if !ends_initial_events => out.extend(b"null")?,
            _ => {
                part.clear();
                metadata::write(&row.metadata, self.version, &mut part);
                out.extend(&part)?;
            }
        }
        out.push(b'}')
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

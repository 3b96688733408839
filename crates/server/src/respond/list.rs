//! Lists. JSON lists are assembled in chunks while they are sent, so that little of a long list is in memory
//! twice.

mod chunk;
mod slices;

use std::borrow::Cow;
use std::io::Write;
use std::sync::Arc;
use std::task::{Context, Poll};

use atoll_meta::{Status, json};
use atoll_registry::{Listing, Row};
use atoll_watch::{Object, ObjectCursor};
use bytes::{Buf, Bytes};
use flate2::write::GzEncoder;
use http::{HeaderValue, Response, StatusCode, header};

pub use self::chunk::Chunk;
use self::slices::{SliceBuffer, Source};
use super::table::Table;
use super::{GZIP_FROM, accepts_gzip, gzip, metadata, protobuf};
use crate::body::Body;
use crate::chain::Call;
use crate::inflight::{LARGE, NoRoom, OutputMemory, SMALL_OUTPUT};
use crate::negotiate::{Form, Media, Meta, Output};

/// Maximum size of a chunk: encrypted and framed, it is sent at once.
const MAX_CHUNK: usize = (256 << 10) - 1024;
/// Typical number of slices of a chunk: two for each of many small objects.
const SLICES: usize = 512;
/// Follows kind and apiVersion in every typed object.
const METADATA: &[u8] = b"\"metadata\":{";
/// Bytes that an item, and the end of the list, may need besides the object's own JSON, without its origin.
const ITEM_OVERHEAD: usize = 8;

pub struct ListBody {
    head: Vec<u8>,
    objects: ObjectCursor,
    items: Items,
    done: bool,
    /// Whether the last chunk is still being sent.
    sending: bool,
    gzip: Option<GzEncoder<Vec<u8>>>,
}

/// Writes items.
struct Items {
    item: Item,
    /// Whether items contain their workspace.
    origin: bool,
    first: bool,
    /// The start of the last item, up to its metadata: most items of a list start alike.
    opening: Vec<u8>,
    /// Length of the omitted prefix of `opening`.
    omitted: usize,
}

/// The part of an object that an item contains.
enum Item {
    /// Items of built-in lists omit kind and apiVersion.
    Typed,
    Untyped,
    Metadata(Meta),
}

/// Renders a list of `row`; `token` continues it. Large lists that cannot be assembled while they are sent
/// are rendered on blocking threads.
pub async fn render(
    row: &Row,
    listing: Listing,
    token: Option<&str>,
    call: &Call,
) -> Result<Response<Body>, Status> {
    let renderer = ListRenderer {
        output: call.output,
        origin: call.workspace.scope().is_none(),
        zips: accepts_gzip(&call.headers),
    };
    // An error about the form is short, and a list in chunks is not in memory yet.
    if renderer.is_chunked() || matches!(renderer.output.form, Form::Metadata(_)) {
        return Ok(super::whole(|memory| renderer.render(row, listing, token, memory)));
    }
    let size = size(&listing.objects, usize::MAX);
    if size < LARGE {
        let mut memory = OutputMemory::fixed(SMALL_OUTPUT);
        // A response that is much longer than its JSON is large as well.
        if let Ok(response) = renderer.render(row, listing.clone(), token, &mut memory) {
            return call.response_limits.reserve(response);
        }
    }
    let (row, token) = (row.clone(), token.map(str::to_string));
    let work = move |memory: &mut OutputMemory| {
        Ok(super::zipped(renderer.render(&row, listing, token.as_deref(), memory)?, renderer.zips))
    };
    call.response_limits.serialize(size, work).await
}

/// Parameters of rendering a list.
#[derive(Clone, Copy)]
struct ListRenderer {
    output: Output,
    /// Whether items contain their workspace.
    origin: bool,
    zips: bool,
}

impl ListRenderer {
    fn is_chunked(&self) -> bool {
        let is_list = matches!(self.output.form, Form::Whole | Form::MetadataList(_));
        is_list && self.output.media == Media::Json { pretty: false }
    }

    fn render(
        &self,
        row: &Row,
        mut listing: Listing,
        token: Option<&str>,
        memory: &mut OutputMemory,
    ) -> Result<Response<Body>, NoRoom> {
        if row.may_convert() {
            let shown: Vec<_> = listing.objects.iter().map(|object| row.to_served(object.clone())).collect();
            listing.objects = shown.into();
        }
        let output = self.output;
        match (output.form, output.media) {
            (Form::Metadata(_), _) => {
                let kind = row.list_kind();
                let message = format!(
                    "you requested PartialObjectMetadata, but the requested object is a list ({})",
                    metadata::go_name(&row.group, &kind, row.type_id.is_some())
                );
                Ok(super::status(&Status::not_acceptable_form(message), output.refusal()))
            }
            (Form::Table(version, include), _) => {
                let head = list_metadata(&listing, token);
                let custom = row.custom.as_deref();
                let table = Table::new(&row.group, &row.kind, custom, version, include, output.skew);
                let objects = || self.shown(&listing.objects);
                super::encoded(StatusCode::OK, table.make(objects, &head, true, memory)?, output, memory)
            }
            (form, Media::Protobuf) => {
                let head = list_metadata(&listing, token);
                let size = size(&listing.objects, usize::MAX);
                let (mut list, kind, api_version) = match (form, row.type_id) {
                    (Form::MetadataList(version), _) => {
                        let list = protobuf::ProtobufList::of_metadata(version, size / 2);
                        (list, "PartialObjectMetadataList".to_string(), version.api_version().to_string())
                    }
                    (_, Some(id)) => {
                        (protobuf::ProtobufList::of_objects(id, size), row.list_kind(), row.api_version())
                    }
                    // Such a kind is refused before anything is read.
                    (_, None) => {
                        return Ok(super::status(&Status::not_acceptable_form(""), output.refusal()));
                    }
                };
                self.shown(&listing.objects).for_each(|json| list.push(&json));
                let body = Body::from(list.finish(&api_version, &kind, &head));
                Ok(super::with_type(StatusCode::OK, output.media.content_type(), body))
            }
            (form, _) => self.as_json(row, listing, token, form, memory),
        }
    }

    fn shown<'a>(&self, objects: &'a ObjectCursor) -> impl Iterator<Item = Bytes> + use<'a> {
        let origin = self.origin;
        objects.iter().map(move |object| if origin { object.json_with_origin() } else { object.json() })
    }

    fn as_json(
        &self,
        row: &Row,
        listing: Listing,
        token: Option<&str>,
        form: Form,
        memory: &mut OutputMemory,
    ) -> Result<Response<Body>, NoRoom> {
        let output = self.output;
        let (item, kind, api_version) = match (form, row.type_id) {
            (Form::MetadataList(version), _) => {
                let kind = "PartialObjectMetadataList".to_string();
                (Item::Metadata(version), kind, version.api_version().to_string())
            }
            (_, Some(_)) => (Item::Typed, row.list_kind(), row.api_version()),
            (_, None) => (Item::Untyped, row.list_kind(), row.api_version()),
        };
        let mut head = Vec::with_capacity(256);
        head.extend_from_slice(b"{\"kind\":");
        json::write_string(&kind, &mut head);
        head.extend_from_slice(b",\"apiVersion\":");
        json::write_string(&api_version, &mut head);
        head.extend_from_slice(b",\"metadata\":");
        let is_custom = row.custom.is_some() && matches!(item, Item::Untyped);
        head.extend_from_slice(&list_metadata(&listing, token.or(is_custom.then_some(""))));
        head.extend_from_slice(b",\"items\":");
        if listing.objects.is_empty() && matches!(item, Item::Metadata(_)) {
            head.extend_from_slice(b"null}");
            return super::encoded(StatusCode::OK, Bytes::from(head), output, memory);
        }
        head.push(b'[');
        let is_chunked = self.is_chunked();
        let size = size(&listing.objects, if is_chunked { GZIP_FROM } else { usize::MAX });
        let items = Items::new(item, self.origin);
        let mut body = ListBody::new(head, listing.objects, items);
        if size < GZIP_FROM || !is_chunked {
            memory.take(size)?;
            return super::encoded(StatusCode::OK, Bytes::from(body.into_bytes(size)), output, memory);
        }
        body.gzip = self.zips.then(gzip);
        let body = Body::List(Box::new(body));
        let mut response = super::with_type(StatusCode::OK, output.media.content_type(), body);
        if self.zips {
            response.headers_mut().insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
            response.headers_mut().insert(header::VARY, HeaderValue::from_static("Accept-Encoding"));
        }
        Ok(response)
    }
}

/// Returns the size of the JSON of all objects; the exact value only if it is less than `enough`.
fn size(objects: &ObjectCursor, enough: usize) -> usize {
    let mut size = 0;
    for object in objects.iter() {
        size += object.size();
        if size >= enough {
            break;
        }
    }
    size
}

fn list_metadata(listing: &Listing, token: Option<&str>) -> Vec<u8> {
    // Objects that are not stored have no revision.
    if listing.revision == 0 {
        return b"{}".to_vec();
    }
    let mut metadata = format!("{{\"resourceVersion\":\"{}\"", listing.revision).into_bytes();
    if let Some(token) = token {
        metadata.extend_from_slice(b",\"continue\":");
        json::write_string(token, &mut metadata);
    }
    if let Some(remaining) = listing.remaining {
        metadata.extend_from_slice(format!(",\"remainingItemCount\":{remaining}").as_bytes());
    }
    metadata.push(b'}');
    metadata
}

impl ListBody {
    fn new(head: Vec<u8>, objects: ObjectCursor, items: Items) -> Self {
        ListBody { head, objects, items, done: false, sending: false, gzip: None }
    }

    /// Returns the next chunk, `None` at the end. After each chunk the task yields, so that the chunk is sent
    /// before the next one is assembled.
    pub fn poll_chunk(&mut self, context: &mut Context<'_>) -> Poll<Option<Chunk>> {
        if std::mem::take(&mut self.sending) {
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        let chunk = self.next_chunk();
        // Nothing comes between the last chunk and the end.
        self.sending = !self.done;
        Poll::Ready(chunk)
    }

    pub fn is_done(&self) -> bool {
        self.done
    }

    fn next_chunk(&mut self) -> Option<Chunk> {
        while !self.done {
            let slices = self.assemble();
            let Some(encoder) = &mut self.gzip else { return Some(Chunk::Slices(Box::new(slices))) };
            let mut slices = slices;
            while slices.has_remaining() {
                let chunk = slices.chunk();
                // Writing to memory cannot fail.
                let _ = encoder.write_all(chunk);
                let length = chunk.len();
                slices.advance(length);
            }
            let zipped = match self.done {
                true => self.gzip.take()?.finish().ok()?,
                false => std::mem::take(encoder.get_mut()),
            };
            if !zipped.is_empty() {
                return Some(Chunk::Bytes(Bytes::from(zipped)));
            }
        }
        None
    }

    /// Assembles the next chunk.
    fn assemble(&mut self) -> SliceBuffer {
        let source = Source { head: std::mem::take(&mut self.head), objects: self.objects.clone() };
        let (mut passed, mut last) = (0, None);
        let (items, done) = (&mut self.items, &mut self.done);
        let buffer = SliceBuffer::new(source, |source| {
            let mut slices: Vec<Cow<'_, [u8]>> = Vec::with_capacity(SLICES);
            let mut size = source.head.len();
            if size > 0 {
                slices.push(Cow::Borrowed(&source.head));
            }
            let mut before = None;
            for next in source.objects.iter() {
                let fits = size + next.size() + ITEM_OVERHEAD <= MAX_CHUNK;
                if !fits && size > 0 {
                    last = before.map(|object: &Arc<Object>| object.key.clone());
                    return slices;
                }
                size += next.size() + ITEM_OVERHEAD;
                items.write(next, |slice| slices.push(slice));
                (passed, before) = (passed + 1, Some(next));
            }
            slices.push(Cow::Borrowed(b"]}\n"));
            *done = true;
            slices
        });
        if let Some(last) = last {
            self.objects.advance(passed, &last);
        }
        buffer
    }

    fn into_bytes(mut self, size: usize) -> Vec<u8> {
        let mut whole = std::mem::take(&mut self.head);
        whole.reserve(size + 16);
        for object in self.objects.iter() {
            self.items.write(object, |slice| whole.extend_from_slice(&slice));
        }
        whole.extend_from_slice(b"]}");
        whole
    }
}

impl Items {
    fn new(item: Item, origin: bool) -> Self {
        Items { item, origin, first: true, opening: Vec::new(), omitted: 0 }
    }

    /// Passes the slices of an item to `put`.
    fn write<'a>(&mut self, object: &'a Object, mut put: impl FnMut(Cow<'a, [u8]>)) {
        let is_first = std::mem::take(&mut self.first);
        let separator: &[u8] = match (&self.item, is_first) {
            (Item::Typed, true) => b"{",
            (Item::Typed, false) => b",{",
            (_, true) => b"",
            (_, false) => b",",
        };
        if !separator.is_empty() {
            put(Cow::Borrowed(separator));
        }
        if let Item::Metadata(version) = self.item {
            let mut shown = Vec::new();
            let with_origin = self.origin.then(|| object.json_with_origin());
            metadata::write(with_origin.as_deref().unwrap_or(&object.json_cow()), version, &mut shown);
            return put(Cow::Owned(shown));
        }
        if self.origin {
            let json = object.json_with_origin();
            let start = if matches!(self.item, Item::Typed) { self.prefix_len(&json) } else { 0 };
            return put(Cow::Owned(json[start..].to_vec()));
        }
        // Kind and apiVersion are in the first slice.
        for (number, slice) in object.slices().enumerate() {
            let starts = number == 0 && matches!(self.item, Item::Typed);
            let start = if starts { self.prefix_len(slice) } else { 0 };
            put(Cow::Borrowed(&slice[start..]));
        }
    }

    /// The same as [`json::prefix_len`], but reuses the result for objects that start alike.
    fn prefix_len(&mut self, json: &[u8]) -> usize {
        if self.opening.is_empty() || !json.starts_with(&self.opening) {
            self.omitted = json::prefix_len(json);
            self.opening.clear();
            // Only a prefix up to the metadata's name has the same length in other objects.
            if let Some(behind) = json[self.omitted..].strip_prefix(METADATA) {
                self.opening.extend_from_slice(&json[..json.len() - behind.len()]);
            }
        }
        self.omitted
    }
}

#[cfg(test)]
mod tests;

//! A list. As JSON it is put together in pieces while it is sent: however long it is, little of it is in memory
//! twice.

use std::io::Write;
use std::sync::Arc;

use atoll_meta::{Status, json};
use atoll_registry::{Listing, Row};
use atoll_watch::Object;
use bytes::Bytes;
use flate2::write::GzEncoder;
use http::{HeaderValue, Response, StatusCode, header};

use super::table::Table;
use super::{GZIP_FROM, accepts_gzip, gzip, metadata, protobuf};
use crate::body::Body;
use crate::chain::Call;
use crate::negotiate::{Form, Media, Meta};
use crate::workspace::Workspace;

/// Pieces are about this long: several TLS records, few system calls.
const CHUNK: usize = 128 << 10;
/// What an item, and the end of the list, may need besides the object's own JSON; an origin comes on top.
const ROOM: usize = 8;

pub struct ListBody {
    head: Vec<u8>,
    objects: std::vec::IntoIter<Arc<Object>>,
    item: Item,
    /// Items say which workspace they are from.
    origin: bool,
    first: bool,
    done: bool,
    gzip: Option<GzEncoder<Vec<u8>>>,
}

/// What is shown of an item.
enum Item {
    /// Items of built-in lists do not repeat kind and version.
    Typed,
    Untyped,
    Metadata(Meta),
}

/// The answer to a list of `row`; `token` continues it.
pub async fn answer(row: &Row, mut listing: Listing, token: Option<&str>, call: &Call) -> Response<Body> {
    if row.may_convert() {
        listing.objects = listing.objects.into_iter().map(|object| row.shown(object)).collect();
    }
    let output = call.output;
    let origin = call.workspace == Workspace::All;
    match (output.form, output.media) {
        (Form::Metadata(_), _) => {
            let kind = row.list_kind();
            let message = format!(
                "you requested PartialObjectMetadata, but the requested object is a list ({})",
                metadata::go_name(&row.group, &kind, row.type_id.is_some())
            );
            super::status(&Status::not_acceptable_form(message), output.refusal())
        }
        (Form::Table(version, include), _) => {
            let head = list_metadata(&listing, token);
            let custom = row.custom.as_deref();
            let mut table = Table::new(&row.group, &row.kind, custom, version, include, output.skew);
            each(listing.objects, origin, |json| table.push(json)).await;
            super::encoded(StatusCode::OK, table.finish(&head, true), output)
        }
        (form, Media::Protobuf) => {
            let head = list_metadata(&listing, token);
            let size = size(&listing);
            let (mut list, kind, api_version) = match (form, row.type_id) {
                (Form::MetadataList(version), _) => {
                    let list = protobuf::List::of_metadata(version, size / 2);
                    (list, "PartialObjectMetadataList".to_string(), version.api_version().to_string())
                }
                (_, Some(id)) => (protobuf::List::of_objects(id, size), row.list_kind(), row.api_version()),
                // Such a kind is refused before anything is read.
                (_, None) => return super::status(&Status::not_acceptable_form(""), output.refusal()),
            };
            each(listing.objects, origin, |json| list.push(&json)).await;
            let body = Body::from(list.finish(&api_version, &kind, &head));
            super::with_type(StatusCode::OK, output.media.content_type(), body)
        }
        (form, _) => as_json(row, listing, token, call, form),
    }
}

fn size(listing: &Listing) -> usize {
    listing.objects.iter().map(|object| object.size()).sum()
}

/// Does something with each object that takes a while, and lets others have their turn in between.
async fn each(objects: Vec<Arc<Object>>, origin: bool, mut act: impl FnMut(Bytes)) {
    let mut done = 0;
    for object in objects {
        done += object.size();
        act(if origin { object.json_with_origin() } else { object.json() });
        if done >= CHUNK {
            done = 0;
            tokio::task::yield_now().await;
        }
    }
}

fn as_json(row: &Row, listing: Listing, token: Option<&str>, call: &Call, form: Form) -> Response<Body> {
    let output = call.output;
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
        return super::encoded(StatusCode::OK, Bytes::from(head), output);
    }
    head.push(b'[');
    let size = size(&listing);
    let mut body = ListBody {
        head,
        objects: listing.objects.into_iter(),
        item,
        origin: call.workspace == Workspace::All,
        first: true,
        done: false,
        gzip: None,
    };
    if size < CHUNK || output.media != (Media::Json { pretty: false }) {
        return super::encoded(StatusCode::OK, Bytes::from(body.whole(size)), output);
    }
    let zipped = size >= GZIP_FROM && accepts_gzip(&call.headers);
    body.gzip = zipped.then(gzip);
    let body = Body::List(Box::new(body));
    let mut response = super::with_type(StatusCode::OK, output.media.content_type(), body);
    if zipped {
        response.headers_mut().insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        response.headers_mut().insert(header::VARY, HeaderValue::from_static("Accept-Encoding"));
    }
    response
}

fn list_metadata(listing: &Listing, token: Option<&str>) -> Vec<u8> {
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
    /// The next piece, `None` at the end.
    pub fn next_chunk(&mut self) -> Option<Bytes> {
        while !self.done {
            let piece = self.piece();
            let piece = match &mut self.gzip {
                None => piece,
                Some(encoder) => {
                    // Writing into memory cannot fail.
                    let _ = encoder.write_all(&piece);
                    match self.done {
                        true => self.gzip.take()?.finish().ok()?,
                        false => std::mem::take(encoder.get_mut()),
                    }
                }
            };
            if !piece.is_empty() {
                return Some(Bytes::from(piece));
            }
        }
        None
    }

    fn piece(&mut self) -> Vec<u8> {
        let mut piece = std::mem::take(&mut self.head);
        piece.reserve(CHUNK.saturating_sub(piece.len()));
        loop {
            let Some(next) = self.objects.as_slice().first() else {
                piece.extend_from_slice(b"]}\n");
                self.done = true;
                return piece;
            };
            // What does not fit waits for the next piece: growing would copy all that is in this one.
            let fits = piece.len() + next.size() + ROOM <= piece.capacity();
            if !fits && !piece.is_empty() {
                return piece;
            }
            if let Some(object) = self.objects.next() {
                self.item(&object, &mut piece);
            }
        }
    }

    fn whole(mut self, size: usize) -> Vec<u8> {
        let mut whole = std::mem::take(&mut self.head);
        whole.reserve(size + 16);
        while let Some(object) = self.objects.next() {
            self.item(&object, &mut whole);
        }
        whole.extend_from_slice(b"]}");
        whole
    }

    fn item(&mut self, object: &Object, piece: &mut Vec<u8>) {
        if !std::mem::take(&mut self.first) {
            piece.push(b',');
        }
        let with_origin = self.origin.then(|| object.json_with_origin());
        let whole = object.whole();
        let json = with_origin.as_deref().unwrap_or(&whole);
        match self.item {
            Item::Typed => {
                piece.push(b'{');
                piece.extend_from_slice(&json[json::prefix_len(json)..]);
            }
            Item::Untyped => piece.extend_from_slice(json),
            Item::Metadata(version) => metadata::write(json, version, piece),
        }
    }
}

#[cfg(test)]
mod tests {
    use atoll_store::Key;
    use atoll_watch::Facts;

    use super::*;

    fn body(sizes: &[usize]) -> ListBody {
        let object = |(number, size): (usize, &usize)| {
            let data = "x".repeat(*size);
            let stored =
                format!(r#"{{"kind":"K","apiVersion":"v1","metadata":{{"name":"{number}"}},"d":"{data}"}}"#);
            let key = Key::object("", "things", "root", "n", &number.to_string());
            Arc::new(Object::new(key, 7, stored.as_bytes(), Facts::none()))
        };
        ListBody {
            head: b"{\"items\":[".to_vec(),
            objects: sizes.iter().enumerate().map(object).collect::<Vec<_>>().into_iter(),
            item: Item::Typed,
            origin: false,
            first: true,
            done: false,
            gzip: None,
        }
    }

    #[test]
    fn pieces_make_up_the_list_and_never_grow() {
        let most = CHUNK - 100;
        for sizes in [
            vec![],
            vec![1000; 500],
            vec![most, most, 10, most],
            vec![10, 3 * CHUNK, 10],
            (0..300).map(|number| number * 17 % 5000).collect(),
        ] {
            let mut pieces = Vec::new();
            let mut list = body(&sizes);
            while let Some(piece) = list.next_chunk() {
                let whole_object = sizes.iter().any(|size| piece.len() > *size && *size >= most);
                assert!(piece.len() <= CHUNK || whole_object, "{} bytes", piece.len());
                pieces.extend_from_slice(&piece);
            }
            let mut whole = body(&sizes).whole(0);
            whole.push(b'\n');
            assert_eq!(pieces, whole);
            let list: serde_json::Value = serde_json::from_slice(&pieces).unwrap();
            let items = list["items"].as_array().unwrap();
            let lengths: Vec<usize> = items.iter().map(|item| item["d"].as_str().unwrap().len()).collect();
            assert_eq!(lengths, sizes);
            assert!(items.iter().all(|item| item["metadata"]["resourceVersion"] == "7"));
        }
    }
}

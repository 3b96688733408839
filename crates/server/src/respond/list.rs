//! A list, put together in pieces while it is sent: however long it is, little of it is in memory twice.

use std::io::Write;
use std::sync::Arc;

use atoll_meta::json;
use atoll_registry::{Listing, Row};
use atoll_watch::Object;
use bytes::Bytes;
use flate2::write::GzEncoder;
use http::{HeaderValue, Response, StatusCode, header};

use super::{GZIP_FROM, accepts_gzip, gzip};
use crate::body::Body;
use crate::chain::Call;
use crate::negotiate::Output;
use crate::workspace::Workspace;

/// Pieces are about this long: several TLS records, few system calls.
const CHUNK: usize = 128 << 10;
/// What an item, and the end of the list, may need besides the object's own JSON; an origin comes on top.
const ROOM: usize = 8;

pub struct ListBody {
    head: Vec<u8>,
    objects: std::vec::IntoIter<Arc<Object>>,
    /// Items of built-in lists do not repeat kind and version.
    typed: bool,
    /// Items say which workspace they are from.
    origin: bool,
    first: bool,
    done: bool,
    gzip: Option<GzEncoder<Vec<u8>>>,
}

/// The answer to a list of `row`; `token` continues it.
pub fn answer(row: &Row, listing: Listing, token: Option<&str>, call: &Call) -> Response<Body> {
    let (output, headers) = (call.output, &call.headers);
    let size: usize = listing.objects.iter().map(|object| object.json.len()).sum();
    let mut body = ListBody {
        head: head(row, &listing, token),
        objects: listing.objects.into_iter(),
        typed: row.type_id.is_some(),
        origin: call.workspace == Workspace::All,
        first: true,
        done: false,
        gzip: None,
    };
    if size < CHUNK || output != (Output::Json { pretty: false }) {
        return super::object(StatusCode::OK, Bytes::from(body.whole(size)), output);
    }
    let zipped = size >= GZIP_FROM && accepts_gzip(headers);
    body.gzip = zipped.then(gzip);
    let mut response = super::with_type(StatusCode::OK, output.content_type(), Body::List(Box::new(body)));
    if zipped {
        response.headers_mut().insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        response.headers_mut().insert(header::VARY, HeaderValue::from_static("Accept-Encoding"));
    }
    response
}

fn head(row: &Row, listing: &Listing, token: Option<&str>) -> Vec<u8> {
    let mut head = Vec::with_capacity(256);
    head.extend_from_slice(b"{\"kind\":");
    json::write_string(&format!("{}List", row.kind), &mut head);
    head.extend_from_slice(b",\"apiVersion\":");
    json::write_string(&row.api_version(), &mut head);
    head.extend_from_slice(
        format!(",\"metadata\":{{\"resourceVersion\":\"{}\"", listing.revision).as_bytes(),
    );
    if let Some(token) = token {
        head.extend_from_slice(b",\"continue\":");
        json::write_string(token, &mut head);
    }
    if let Some(remaining) = listing.remaining {
        head.extend_from_slice(format!(",\"remainingItemCount\":{remaining}").as_bytes());
    }
    head.extend_from_slice(b"},\"items\":[");
    head
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
            let fits = piece.len() + next.json.len() + ROOM <= piece.capacity();
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
        let with_origin;
        let json = match self.origin {
            true => {
                with_origin = object.json_with_origin();
                &with_origin
            }
            false => &object.json,
        };
        if self.typed {
            piece.push(b'{');
            piece.extend_from_slice(&json[json::prefix_len(json)..]);
        } else {
            piece.extend_from_slice(json);
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
            typed: true,
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

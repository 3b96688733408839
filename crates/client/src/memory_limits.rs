//! Limits on the memory that a server may use in its clients. The API server of a member cluster may be
//! hostile: responses are read only up to these limits, and the memory they use is charged to a [`Budget`]. A
//! client without a budget trusts its server.

mod budget;

use atoll_meta::Status;
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use serde_json::Value;

use crate::BoxError;
use crate::connect_error::Cause;

pub use budget::{Budget, BudgetUsage, Budgets, Charge};

/// Largest response. An object has at most about 3 MiB (kube-apiserver accepts no larger request, and etcd
/// stores 1.5 MiB by default); discovery and OpenAPI documents of clusters with hundreds of
/// CustomResourceDefinitions have a few MiB. Only pages of lists can be larger, and those are requested again
/// with a smaller limit.
pub const MAX_RESPONSE: usize = 16 << 20;
/// Largest response of a trusted server, whose objects and short lists may have any size.
pub const MAX_TRUSTED_RESPONSE: usize = 1 << 30;
/// Largest line of a watch: one object with its event type.
pub const MAX_WATCH_LINE: usize = 8 << 20;
/// Largest error response: a Status, or an HTML page of a proxy.
pub const MAX_ERROR_RESPONSE: usize = 1 << 20;
/// Largest response as parsed values, which take up to ninety times the memory of their JSON.
pub const MAX_PARSED: usize = 64 << 20;
/// Memory limit of one cluster: two pages being read, watches, and the syncer's state of nodes, Pods and
/// placed objects. Enough for 100,000 Pods and 20,000 placed objects.
pub const CLUSTER: usize = 256 << 20;

/// Responses smaller than this are not measured before they are parsed.
const SMALL: usize = 64 << 10;
/// Longest error message of a server.
pub const MAX_MESSAGE: usize = 4096;

/// Reason why a body could not be read.
pub enum ReadError {
    /// The body exceeds the limit; this is its beginning.
    TooLong(Bytes),
    Refused(Status),
    Broken(BoxError),
}

/// Reads a body of at most `limit` bytes.
pub async fn read<B>(mut body: B, limit: usize, charge: &mut Charge) -> Result<Bytes, ReadError>
where
    B: http_body::Body<Data = Bytes> + Unpin,
    B::Error: Into<BoxError>,
{
    let mut read = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.map_err(|error| ReadError::Broken(error.into()))?.into_data() else { continue };
        if data.len() > limit - read.len() {
            return Err(ReadError::TooLong(read.freeze()));
        }
        charge.grow(data.len()).map_err(ReadError::Refused)?;
        read.extend_from_slice(&data);
    }
    Ok(read.freeze())
}

/// Whether a response was refused because of its size, so that a smaller part can be requested.
pub fn is_too_large(status: &Status) -> bool {
    status.has_cause(Cause::AnswerTooLarge.name())
}

/// Memory of a map node with eleven entries. Nodes of sorted input are half full.
const NODE: usize = 640;
const ENTRY: usize = NODE / 6;
/// Memory of a value in a list, whose capacity may be twice its length.
const ITEM: usize = 64;
/// Memory of a string in addition to its bytes.
const TEXT: usize = 16;

/// Returns an upper estimate of the memory that JSON takes when parsed.
pub fn parsed_size(json: &[u8]) -> usize {
    if json.len() < SMALL {
        return json.len();
    }
    let mut size = json.len();
    // A map's first node is counted at its first entry; whitespace is not an entry.
    let mut opened = false;
    let mut rest = json.iter();
    while let Some(byte) = rest.next() {
        if byte.is_ascii_whitespace() {
            continue;
        }
        if std::mem::take(&mut opened) && *byte != b'}' {
            size += NODE;
        }
        match byte {
            b',' | b'[' => size += ITEM,
            b'{' => {
                size += ITEM;
                opened = true;
            }
            b':' => size += ENTRY,
            b'"' => {
                size += TEXT;
                while let Some(byte) = rest.next() {
                    match byte {
                        b'"' => break,
                        b'\\' => {
                            rest.next();
                        }
                        _ => {}
                    }
                }
            }
            _ => {}
        }
    }
    size
}

/// Estimates the memory of a value.
pub fn value_size(value: &Value) -> usize {
    ITEM + match value {
        Value::String(text) => TEXT + text.len(),
        Value::Array(items) => items.iter().map(value_size).sum(),
        Value::Object(fields) if fields.is_empty() => 0,
        Value::Object(fields) => {
            let entry = |(name, value): (&String, &Value)| ENTRY + TEXT + name.len() + value_size(value);
            NODE + fields.iter().map(entry).sum::<usize>()
        }
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::Full;
    use serde_json::json;

    use super::*;

    #[tokio::test]
    async fn bodies_are_read_up_to_their_limit() {
        let mut charge = Charge::new(Some(Budget::new(10)));
        let body = |bytes: &'static [u8]| Full::new(Bytes::from_static(bytes));
        assert!(matches!(read(body(b"12345"), 5, &mut charge).await, Ok(read) if read == "12345"));
        assert!(matches!(read(body(b"123456"), 5, &mut charge).await, Err(ReadError::TooLong(_))));
        assert!(matches!(read(body(b"123456"), 100, &mut charge).await, Err(ReadError::Refused(_))));
        // An endless body of single bytes.
        let mut charge = Charge::default();
        assert!(
            matches!(read(Endless, 1000, &mut charge).await, Err(ReadError::TooLong(first)) if first.len() == 1000)
        );
    }

    struct Endless;

    impl http_body::Body for Endless {
        type Data = Bytes;
        type Error = BoxError;

        fn poll_frame(
            self: std::pin::Pin<&mut Self>,
            _: &mut std::task::Context<'_>,
        ) -> std::task::Poll<Option<Result<http_body::Frame<Bytes>, BoxError>>> {
            std::task::Poll::Ready(Some(Ok(http_body::Frame::data(Bytes::from_static(b"1")))))
        }
    }

    #[test]
    fn parsed_size_is_an_upper_estimate() {
        let least = |json: &str, each: usize| {
            let count = (1 << 20) / json.len();
            let text = format!("[{}0]", format!("{json},").repeat(count));
            let size = parsed_size(text.as_bytes());
            assert!(size > count * each, "{json}: {size} for {count}");
        };
        least("0", 32);
        least("{}", 32);
        least("[]", 32);
        least(r#"{"a":0}"#, 632);
        least("[{ \"a\" : 0 }]", 632 + ENTRY);
        least(r#"{"k" :0,"l" :0}"#, 632 + 2 * ENTRY);
        least(r#""a""#, 32 + 24);
        // A string takes its own length, whatever characters it contains.
        let long = format!("\"{}\"", r#"a, {b: \"[\\"#.repeat(1 << 18));
        assert!(parsed_size(long.as_bytes()) < long.len() + 100);
        assert_eq!(parsed_size(b"{}"), 2);
        let value = json!({ "a": [0, "b", { "c": null }, {}] });
        let text = format!("[{}0]", format!("{value},").repeat(10_000));
        let (measured, counted) = (parsed_size(text.as_bytes()), 10_000 * value_size(&value));
        assert!(measured >= counted && measured < counted * 2, "{measured} {counted}");
    }
}

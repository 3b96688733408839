//! Conversion of results to HTTP responses.

// upstream: staging/src/k8s.io/apiserver/pkg/endpoints/handlers/responsewriters/writers.go

pub mod list;
pub mod metadata;
mod pretty;
pub mod protobuf;
pub mod table;
mod yaml;

use std::io::Write;

use atoll_meta::{Status, json};
use atoll_registry::Row;
use atoll_registry::definitions::CustomVersion;
use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use serde_json::Value;

use crate::body::Body;
use crate::chain::Call;
use crate::inflight::{LARGE, NoRoom, OutputMemory, SMALL_OUTPUT};
use crate::negotiate::{Form, Media, Output};

/// Minimum size of compressed responses.
pub const GZIP_FROM: usize = 128 << 10;

/// Renders a stored object of a row in the negotiated form and encoding. Large objects are rendered on
/// blocking threads.
pub async fn stored_object(
    row: &Row,
    code: StatusCode,
    stored: Bytes,
    call: &Call,
) -> Result<Response<Body>, Status> {
    let (output, zips) = (call.output, accepts_gzip(&call.headers));
    let is_copied = output.form == Form::Whole && output.media == Media::Json { pretty: false } && !zips;
    if stored.len() < LARGE || is_copied {
        let mut memory = OutputMemory::fixed(SMALL_OUTPUT);
        let response = render(row.custom.as_deref(), code, stored.clone(), output, &mut memory);
        // A response that is much longer than its JSON is large as well.
        if let Ok(response) = response {
            return call.response_limits.reserve(response);
        }
    }
    let (custom, size) = (row.custom.clone(), stored.len());
    let work = move |memory: &mut OutputMemory| {
        Ok(zipped(render(custom.as_deref(), code, stored, output, memory)?, zips))
    };
    call.response_limits.serialize(size, work).await
}

/// Renders a Scale.
pub fn scale(code: StatusCode, scale: &Value, output: Output) -> Response<Body> {
    object(code, Bytes::from(json::to_vec(scale)), output)
}

/// Renders an object of a built-in kind.
pub fn object(code: StatusCode, stored: Bytes, output: Output) -> Response<Body> {
    whole(|memory| render(None, code, stored, output, memory))
}

/// Makes a response that is never long.
fn whole(make: impl FnOnce(&mut OutputMemory) -> Result<Response<Body>, NoRoom>) -> Response<Body> {
    make(&mut OutputMemory::unlimited()).unwrap_or_else(|NoRoom| Response::new(Body::empty()))
}

fn render(
    custom: Option<&CustomVersion>,
    code: StatusCode,
    stored: Bytes,
    output: Output,
    memory: &mut OutputMemory,
) -> Result<Response<Body>, NoRoom> {
    let rendered = match output.form {
        Form::Whole => stored,
        Form::Metadata(version) => metadata::of(&stored, version),
        Form::MetadataList(_) => {
            let message = format!(
                "you requested PartialObjectMetadataList, but the requested object is not a list ({})",
                metadata::go_type(&stored)
            );
            return Ok(status(&Status::not_acceptable_form(message), output.refusal()));
        }
        Form::Table(version, include) => {
            memory.take_parsed(&stored)?;
            table::of_object(&stored, custom, version, include, true, output.skew, memory)?
        }
    };
    encoded(code, rendered, output, memory)
}

/// Renders a document that is not an object.
pub fn document(json: Bytes, media: Media) -> Response<Body> {
    whole(|memory| encoded(StatusCode::OK, json, Output::whole(media), memory))
}

/// Encodes JSON in the negotiated media type.
fn encoded(
    code: StatusCode,
    json: Bytes,
    output: Output,
    memory: &mut OutputMemory,
) -> Result<Response<Body>, NoRoom> {
    let body = match output.media {
        Media::Json { pretty: false } => Body::from(line(json)),
        Media::Json { pretty: true } => Body::from(pretty::indent(&json, memory)?),
        Media::Yaml => Body::from(yaml::of_json(&json, memory)?),
        Media::Protobuf => match protobuf::enveloped(&json) {
            Some(message) => Body::from(message),
            // Kinds without protobuf were refused before, so JSON is acceptable.
            None => return encoded(code, json, Output::COMPACT, memory),
        },
    };
    Ok(with_type(code, output.media.content_type(), body))
}

/// Appends a line break, for terminals. JSON in a buffer with room for it and without other references is not
/// copied.
fn line(json: Bytes) -> Bytes {
    let json = match json.try_into_mut() {
        Ok(mut own) if own.capacity() > own.len() => {
            own.extend_from_slice(b"\n");
            return own.freeze();
        }
        Ok(own) => own.freeze(),
        Err(shared) => shared,
    };
    let mut line = Vec::with_capacity(json.len() + 1);
    line.extend_from_slice(&json);
    line.push(b'\n');
    Bytes::from(line)
}

/// Renders a value that is not stored.
pub fn value(code: StatusCode, value: &Value, output: Output) -> Response<Body> {
    object(code, Bytes::from(json::to_vec(value)), output)
}

pub fn json(value: &Value) -> Response<Body> {
    self::value(StatusCode::OK, value, Output::COMPACT)
}

/// Renders a `Status`, which has no other form.
pub fn status(status: &Status, output: Output) -> Response<Body> {
    let code = StatusCode::from_u16(status.code()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = whole(|memory| encoded(code, Bytes::from(status.to_json()), output, memory));
    if let Some(seconds) = status.retry_after().filter(|seconds| *seconds > 0) {
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}

/// Renders an authorization error, with nosniff as upstream.
pub fn forbidden(status: &Status, output: Output) -> Response<Body> {
    let mut response = self::status(status, output);
    response.headers_mut().insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

/// The response for unknown paths.
pub fn not_found_page() -> Response<Body> {
    let mut response = with_type(
        StatusCode::NOT_FOUND,
        "text/plain; charset=utf-8",
        Body::from("404 page not found\n".to_string()),
    );
    response.headers_mut().insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

pub fn with_type(code: StatusCode, content_type: &'static str, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() = code;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

/// A response that upgrades the connection.
pub fn upgrade(response: Response<String>) -> Response<Body> {
    response.map(|_| Body::empty())
}

pub fn accepts_gzip(headers: &HeaderMap) -> bool {
    let accepted =
        headers.get(header::ACCEPT_ENCODING).and_then(|value| value.to_str().ok()).unwrap_or_default();
    accepted.split(',').any(|coding| coding.split(';').next().unwrap_or_default().trim() == "gzip")
}

/// Fastest compression, as upstream.
pub fn gzip() -> GzEncoder<Vec<u8>> {
    GzEncoder::new(Vec::new(), Compression::new(1))
}

/// Compresses a large body if the client accepts it.
pub fn compress(response: Response<Body>, request: &HeaderMap) -> Response<Body> {
    zipped(response, accepts_gzip(request))
}

/// The same if it is known whether the client accepts it.
fn zipped(mut response: Response<Body>, zips: bool) -> Response<Body> {
    let Body::Full(Some(bytes)) = response.body() else { return response };
    let is_done = response.headers().contains_key(header::CONTENT_ENCODING);
    if bytes.len() < GZIP_FROM || !zips || is_done {
        return response;
    }
    let Some(zipped) = gzipped(bytes) else { return response };
    *response.body_mut() = Body::from(zipped);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    headers.insert(header::VARY, HeaderValue::from_static("Accept-Encoding"));
    response
}

pub fn gzipped(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut encoder = gzip();
    encoder.write_all(bytes).ok()?;
    encoder.finish().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_end_with_a_break() {
        let shared = Bytes::from_static(b"{}");
        let mut roomy = Vec::with_capacity(10);
        roomy.extend_from_slice(b"{}");
        let address = roomy.as_ptr();
        for json in [shared.clone(), Bytes::from(b"{}".to_vec()), Bytes::from(roomy)] {
            let is_roomy = json.as_ptr() == address;
            let line = line(json);
            assert_eq!(line, "{}\n");
            assert!(!is_roomy || line.as_ptr() == address);
        }
    }
}

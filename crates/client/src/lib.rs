//! A client of the Kubernetes API, for a server in the same process or a remote one.
//!
//! ```text
//!   controllers ─► Client (objects, lists, watches) ─► Transport ─┬─ the server's own handler, no socket
//!                                                                 └─ HTTPS to any API server
//! ```

pub mod cluster_api;
pub mod connect_error;
pub mod connected_clusters;
pub mod dialing;
#[cfg(feature = "https")]
pub mod https;
#[cfg(feature = "kubeconfig")]
pub mod kubeconfig;
mod lines;
pub mod memory_limits;
pub mod path;
mod watch;

use std::error::Error;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use atoll_meta::{Status, json, text};
use bytes::Bytes;
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::combinators::UnsyncBoxBody;
use serde_json::Value;

use connect_error::Cause;
use memory_limits::{Budget, Charge, ReadError};

pub use lines::Lines;
pub use watch::{Watch, WatchEvent};

pub type BoxError = Box<dyn Error + Send + Sync>;
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;
pub type ResponseBody = UnsyncBoxBody<Bytes, BoxError>;

/// Longest time that reading a complete response may take. A response that never ends must not stop the
/// controller that reads it.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(300);

/// Accept header for complete objects.
const JSON: &str = "application/json";
/// Accept header for the metadata of an object.
const METADATA: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";

/// Accept header for the resources of all groups in one document.
const DISCOVERY: &str =
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json";

/// Accept header for the metadata of the objects in a list.
const METADATA_LIST: &str = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";

/// Sends a request to a server and returns its response.
pub trait Transport: Send + Sync + 'static {
    fn send(&self, request: Request<Bytes>) -> BoxFuture<'_, Result<Response<ResponseBody>, BoxError>>;
}

/// Transport that prefixes every path.
struct PathPrefix {
    transport: Arc<dyn Transport>,
    path: String,
}

impl Transport for PathPrefix {
    fn send(&self, request: Request<Bytes>) -> BoxFuture<'_, Result<Response<ResponseBody>, BoxError>> {
        let (mut parts, body) = request.into_parts();
        match format!("{}{}", self.path, parts.uri).parse() {
            Ok(uri) => parts.uri = uri,
            Err(error) => return Box::pin(async move { Err(BoxError::from(error)) }),
        }
        self.transport.send(Request::from_parts(parts, body))
    }
}

#[derive(Clone)]
pub struct Client {
    transport: Arc<dyn Transport>,
    /// Memory budget for responses. Without one the server is trusted, and only pages of lists are limited.
    budget: Option<Arc<Budget>>,
}

/// Format of a patch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PatchType {
    Json,
    Merge,
    /// Merge patch that merges lists of built-in kinds by their merge keys.
    Strategic,
    /// Server-side apply; the path must contain the field manager.
    Apply,
}

impl PatchType {
    fn content_type(self) -> &'static str {
        match self {
            PatchType::Json => "application/json-patch+json",
            PatchType::Merge => "application/merge-patch+json",
            PatchType::Strategic => "application/strategic-merge-patch+json",
            PatchType::Apply => "application/apply-patch+yaml",
        }
    }
}

/// Lets a client be wrapped as a transport.
impl Transport for Client {
    fn send(&self, request: Request<Bytes>) -> BoxFuture<'_, Result<Response<ResponseBody>, BoxError>> {
        self.transport.send(request)
    }
}

impl Client {
    pub fn new(transport: Arc<dyn Transport>) -> Self {
        Client { transport, budget: None }
    }

    /// Charges responses to a memory budget.
    #[must_use]
    pub fn charged_to(self, budget: Option<Arc<Budget>>) -> Client {
        Client { budget, ..self }
    }

    pub fn budget(&self) -> Option<&Arc<Budget>> {
        self.budget.as_ref()
    }

    /// Returns a client whose paths are relative to `path`.
    #[must_use]
    pub fn below(&self, path: &str) -> Client {
        let below =
            PathPrefix { transport: self.transport.clone(), path: path.trim_end_matches('/').to_string() };
        Client { transport: Arc::new(below), budget: self.budget.clone() }
    }

    pub async fn get(&self, path: &str) -> Result<Value, Status> {
        self.call(Method::GET, path, "", None).await
    }

    /// Reads the metadata of an object.
    pub async fn get_metadata(&self, path: &str) -> Result<Value, Status> {
        self.read_response(path, self.send(Method::GET, path, METADATA, "", None).await?).await
    }

    /// Reads the metadata of all objects in a list.
    pub async fn list_metadata(&self, path: &str) -> Result<Value, Status> {
        self.read_response(path, self.send(Method::GET, path, METADATA_LIST, "", None).await?).await
    }

    /// Reads a discovery document, with the resources of all groups if the server supports that.
    pub async fn get_discovery(&self, path: &str) -> Result<Value, Status> {
        self.read_response(path, self.send(Method::GET, path, DISCOVERY, "", None).await?).await
    }

    pub async fn create(&self, path: &str, object: &Value) -> Result<Value, Status> {
        self.call(Method::POST, path, "application/json", Some(object)).await
    }

    pub async fn update(&self, path: &str, object: &Value) -> Result<Value, Status> {
        self.call(Method::PUT, path, "application/json", Some(object)).await
    }

    pub async fn patch(&self, path: &str, patch_type: PatchType, patch: &Value) -> Result<Value, Status> {
        self.call(Method::PATCH, path, patch_type.content_type(), Some(patch)).await
    }

    pub async fn delete(&self, path: &str) -> Result<Value, Status> {
        self.call(Method::DELETE, path, "", None).await
    }

    /// Deletes an object with DeleteOptions.
    pub async fn delete_with(&self, path: &str, options: &Value) -> Result<Value, Status> {
        self.call(Method::DELETE, path, JSON, Some(options)).await
    }

    /// Starts a watch; `path` must contain `watch=true`.
    pub async fn watch(&self, path: &str) -> Result<Watch, Status> {
        self.watch_as(path, JSON).await
    }

    /// Starts a watch of the objects' metadata.
    pub async fn watch_metadata(&self, path: &str) -> Result<Watch, Status> {
        self.watch_as(path, METADATA).await
    }

    /// Starts a stream of lines.
    pub async fn lines(&self, path: &str) -> Result<Lines, Status> {
        self.lines_as(path, JSON).await
    }

    async fn watch_as(&self, path: &str, form: &'static str) -> Result<Watch, Status> {
        Ok(Watch::new(self.lines_as(path, form).await?))
    }

    async fn lines_as(&self, path: &str, form: &'static str) -> Result<Lines, Status> {
        let response = self.send(Method::GET, path, form, "", None).await?;
        if response.status().is_success() {
            return Ok(Lines::new(response.into_body(), Charge::new(self.budget.clone())));
        }
        Err(self
            .read_response(path, response)
            .await
            .err()
            .unwrap_or_else(|| Status::internal_error("the server did not start the stream")))
    }

    async fn call(
        &self,
        method: Method,
        path: &str,
        content_type: &str,
        body: Option<&Value>,
    ) -> Result<Value, Status> {
        self.read_response(path, self.send(method, path, JSON, content_type, body).await?).await
    }

    async fn send(
        &self,
        method: Method,
        path: &str,
        form: &'static str,
        content_type: &str,
        body: Option<&Value>,
    ) -> Result<Response<ResponseBody>, Status> {
        let mut request = Request::builder().method(method).uri(path).header(header::ACCEPT, form);
        if body.is_some() {
            request = request.header(header::CONTENT_TYPE, content_type);
        }
        let body = body.map(json::to_vec).unwrap_or_default();
        let request =
            request.body(Bytes::from(body)).map_err(|error| Status::bad_request(error.to_string()))?;
        self.transport.send(request).await.map_err(|error| connect_error::to_status(&error))
    }

    /// Reads the complete response. A failure Status is returned as an error.
    async fn read_response(&self, path: &str, response: Response<ResponseBody>) -> Result<Value, Status> {
        if !response.status().is_success() {
            return Err(self.error_status(response).await);
        }
        // A trusted server may have objects of any size, but not many of them in one response.
        let is_limited = self.budget.is_some() || is_page(path);
        let most = if is_limited { memory_limits::MAX_RESPONSE } else { memory_limits::MAX_TRUSTED_RESPONSE };
        let mut charge = Charge::new(self.budget.clone());
        let reading = memory_limits::read(response.into_body(), most, &mut charge);
        let bytes = match tokio::time::timeout(RESPONSE_TIMEOUT, reading).await {
            Err(_) => {
                let seconds = RESPONSE_TIMEOUT.as_secs();
                let what = format!("a response did not end within {seconds} seconds");
                return Err(connect_error::unavailable(Cause::TimedOut, &what));
            }
            Ok(read) => read,
        };
        let bytes = match bytes {
            Ok(bytes) => bytes,
            Err(ReadError::TooLong(_)) => {
                return Err(too_large(&format!("a response has more than {} MiB", most >> 20)));
            }
            Err(ReadError::Refused(status)) => return Err(status),
            Err(ReadError::Broken(error)) => return Err(connect_error::to_status(&error)),
        };
        if is_limited {
            let size = memory_limits::parsed_size(&bytes);
            if size > memory_limits::MAX_PARSED {
                return Err(too_large(&format!(
                    "a response would take more than {} MiB of memory",
                    memory_limits::MAX_PARSED >> 20
                )));
            }
            charge.grow(size)?;
        }
        Ok(json::parse(&bytes).map(|parsed| parsed.value).unwrap_or_default())
    }

    /// Reads an error response, up to a size limit.
    async fn error_status(&self, response: Response<ResponseBody>) -> Status {
        let code = response.status();
        let after = response.headers().get(header::RETRY_AFTER).and_then(|value| value.to_str().ok());
        let after: Option<u32> = after.and_then(|value| value.parse().ok());
        let mut charge = Charge::new(self.budget.clone());
        let bytes =
            match memory_limits::read(response.into_body(), memory_limits::MAX_ERROR_RESPONSE, &mut charge)
                .await
            {
                Ok(bytes) | Err(ReadError::TooLong(bytes)) => bytes,
                Err(ReadError::Refused(status)) => return status,
                Err(ReadError::Broken(error)) => return connect_error::to_status(&error),
            };
        let size = memory_limits::parsed_size(&bytes);
        let value = match size > memory_limits::MAX_PARSED || charge.grow(size).is_err() {
            true => Value::Null,
            false => json::parse(&bytes).map(|parsed| parsed.value).unwrap_or_default(),
        };
        match Status::from_value(&value) {
            // The message is stored and shown above, so it is bounded.
            Some(status) if self.budget.is_some() => status.bounded(memory_limits::MAX_MESSAGE),
            Some(status) => status,
            None => status_without_body(code, after, &bytes),
        }
    }
}

/// Whether a path requests a page of a list with more than one object, so that a smaller page can be
/// requested.
fn is_page(path: &str) -> bool {
    let query = path.split_once('?').map_or("", |(_, query)| query);
    let limit = query.split('&').find_map(|part| part.strip_prefix("limit="));
    limit.is_some_and(|limit| limit != "1")
}

fn too_large(what: &str) -> Status {
    connect_error::unavailable(Cause::AnswerTooLarge, what)
}

/// Converts an error response without a Status.
fn status_without_body(code: StatusCode, after: Option<u32>, bytes: &[u8]) -> Status {
    let text = String::from_utf8_lossy(bytes);
    let text = text::clean(text.trim(), memory_limits::MAX_MESSAGE);
    match code {
        // The response to unknown paths is an HTML page.
        StatusCode::NOT_FOUND => Status::not_found_generic(),
        // An overloaded server responds with a single line of text.
        StatusCode::TOO_MANY_REQUESTS => Status::too_many_requests(text, after.unwrap_or(1)),
        _ => Status::internal_error(format!("{code}: {text}")),
    }
}

#[cfg(test)]
mod tests;

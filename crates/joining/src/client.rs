//! A client whose failures say what to do next, for the commands.

use std::sync::Arc;
use std::time::Duration;

use atoll_client::connect_error::{Cause, ConnectError};
use atoll_client::dialing::TenantAddresses;
use atoll_client::https::{Endpoint, Https};
use atoll_client::kubeconfig::Context;
use atoll_client::memory_limits::{self, Charge, ReadError};
use atoll_client::{BoxError, ResponseBody, Transport};
use atoll_meta::{Status, json};
use bytes::Bytes;
use http::{Method, Request, Response, StatusCode, Uri, header};
use serde_json::Value;

use crate::{Failure, invocation};

const JSON: &str = "application/json";

pub struct Client {
    /// Scheme, host and port.
    pub origin: String,
    /// The path in the server's address: the workspace.
    pub base: String,
    transport: Https,
    /// Maximum size of a response in bytes, and of its parsed values in memory.
    pub max_response: [usize; 2],
}

/// Large enough for the lists of a control plane, which are not always paged.
const MAX_RESPONSE: [usize; 2] = [256 << 20, 4 << 30];

/// The failure of a request.
pub enum Problem {
    /// The server refused the request.
    Refused(Status),
    /// The server is not an Atoll control plane.
    NotAtoll(Failure),
    /// The server cannot be reached, or its certificate is not valid.
    Unreached(Cause, Failure),
    Failed(Failure),
}

impl Problem {
    /// Whether the server refused the request with this reason.
    pub fn is(&self, reason: &str) -> bool {
        matches!(self, Problem::Refused(status) if status.reason() == reason)
    }
}

/// Timeout for opening a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Timeout for the whole response, equal to the servers' own request timeout.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(60);

impl Client {
    pub fn new(context: &Context) -> Result<Self, String> {
        // User information in a URL may be a password, and the address appears in messages.
        if context.server.contains('@') {
            return Err("the address of the server has a user in it; put credentials under users".into());
        }
        let uri: Uri = context.server.parse().map_err(|error| format!("{:?}: {error}", context.server))?;
        let authority = uri.authority().ok_or_else(|| format!("{:?} has no host", context.server))?;
        let origin = format!("https://{authority}");
        if context.insecure {
            return Err(
                "this context skips TLS verification; give it certificate-authority-data instead".into()
            );
        }
        let trusted = context.authority_pem.clone();
        let endpoint = Endpoint {
            server: origin.clone(),
            authority_pem: trusted.ok_or("this context has no certificate-authority-data")?,
            certificate_pem: context.certificate_pem.clone(),
            key_pem: context.key_pem.clone(),
            token: context.token.clone(),
        };
        Ok(Client {
            origin,
            base: uri.path().trim_end_matches('/').to_string(),
            transport: Https::new(&endpoint)?.with_connect_timeout(CONNECT_TIMEOUT),
            max_response: MAX_RESPONSE,
        })
    }

    /// Restricts connections to the addresses that are allowed if a tenant has chosen the server's address.
    #[must_use]
    pub fn for_tenant(self, addresses: Arc<TenantAddresses>) -> Client {
        Client { transport: self.transport.for_tenant(addresses), ..self }
    }

    /// Sends a request and reads the whole response as JSON.
    pub async fn call(&self, method: Method, path: &str, body: Option<&Value>) -> Result<Value, Problem> {
        self.call_as(method, path, JSON, body).await
    }

    /// The same for a response of another media type, such as a table.
    pub async fn call_as(
        &self,
        method: Method,
        path: &str,
        accept: &str,
        body: Option<&Value>,
    ) -> Result<Value, Problem> {
        self.request_json(method, path, [accept, JSON], body).await
    }

    /// Patches an object with a patch of the given content type.
    pub async fn patch(&self, path: &str, content_type: &str, patch: &Value) -> Result<Value, Problem> {
        self.request_json(Method::PATCH, path, [JSON, content_type], Some(patch)).await
    }

    async fn request_json(
        &self,
        method: Method,
        path: &str,
        [accept, content_type]: [&str; 2],
        body: Option<&Value>,
    ) -> Result<Value, Problem> {
        let body = Bytes::from(body.map(json::to_vec).unwrap_or_default());
        let exchanged = async {
            let response = self.exchange(method, path, accept, content_type, body).await?;
            let status = response.status();
            let [bytes, values] = self.max_response;
            match memory_limits::read(response.into_body(), bytes, &mut Charge::default()).await {
                Ok(read) if memory_limits::parsed_size(&read) <= values => Ok((status, read)),
                Ok(_) | Err(ReadError::TooLong(_)) => Err(self.too_large()),
                Err(ReadError::Broken(error)) => Err(self.connection_lost(&error)),
                Err(ReadError::Refused(status)) => Err(Problem::Refused(status)),
            }
        };
        let (status, bytes) = match tokio::time::timeout(RESPONSE_TIMEOUT, exchanged).await {
            Ok(exchanged) => exchanged?,
            Err(_) => return Err(self.timed_out()),
        };
        let value = json::parse(&bytes).map(|parsed| parsed.value).unwrap_or_default();
        match status.is_success() {
            true => Ok(value),
            false => Err(self.refusal(path, status, &value)),
        }
    }

    fn too_large(&self) -> Problem {
        let what = format!("the response of {} is too large", self.origin);
        let next = "check which object is so large, and whether a proxy responds instead of the server";
        Problem::Unreached(Cause::AnswerTooLarge, Failure::new(what, next))
    }

    fn connection_lost(&self, error: &dyn std::fmt::Display) -> Problem {
        let problem = unreachable(&self.origin, &format!("the connection broke: {error}"));
        Problem::Unreached(Cause::Unreachable, problem)
    }

    fn timed_out(&self) -> Problem {
        Problem::Unreached(Cause::TimedOut, unreachable(&self.origin, "the server does not respond"))
    }

    /// The failure that a response without a success code means.
    pub fn refusal(&self, path: &str, status: StatusCode, answer: &Value) -> Problem {
        match Status::from_value(answer) {
            Some(refusal) => Problem::Refused(refusal),
            // Atoll refuses unknown paths in workspaces with a Status; kube-apiserver responds with a list of
            // its paths.
            None if status == StatusCode::NOT_FOUND => Problem::NotAtoll(Failure::new(
                format!("{} is not an Atoll control plane: it has no {path}", self.origin),
                "choose a context of one with --context",
            )),
            None => Problem::from(format!("{}{path} returned {status}", self.origin)),
        }
    }

    /// Sends a request and returns the response for the caller to read as a stream.
    pub async fn send(
        &self,
        method: Method,
        path: &str,
        content_type: &str,
        body: Bytes,
    ) -> Result<Response<ResponseBody>, Problem> {
        self.exchange(method, path, JSON, content_type, body).await
    }

    async fn exchange(
        &self,
        method: Method,
        path: &str,
        accept: &str,
        content_type: &str,
        body: Bytes,
    ) -> Result<Response<ResponseBody>, Problem> {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(header::ACCEPT, accept)
            .header(header::CONTENT_TYPE, content_type)
            .body(body)
            .map_err(|error| format!("{path:?}: {error}"))?;
        self.transport.send(request).await.map_err(|error| self.unanswered(error))
    }

    /// The failure for a request without a response.
    fn unanswered(&self, error: BoxError) -> Problem {
        let ConnectError { cause, what, .. } = match error.downcast::<ConnectError>() {
            Ok(error) => *error,
            Err(error) => return self.connection_lost(&error),
        };
        let failure = match cause {
            Cause::CertificateExpired
            | Cause::CertificateNotYetValid
            | Cause::CertificateUntrusted
            | Cause::CertificateForAnotherName => Failure::new(
                format!("{} is not the server of this kubeconfig: {what}", self.origin),
                "if its data directory was recreated, use the admin.kubeconfig in it; otherwise choose another \
                 context with --context",
            ),
            _ => unreachable(&self.origin, &what),
        };
        Problem::Unreached(cause, failure)
    }
}

fn unreachable(origin: &str, problem: &str) -> Failure {
    Failure::new(
        format!("cannot reach {origin}: {problem}"),
        format!(
            "is the server running? Start it with: {} start; or choose another context with --context",
            invocation()
        ),
    )
}

impl From<String> for Problem {
    fn from(problem: String) -> Problem {
        Problem::Failed(problem.into())
    }
}

impl From<Problem> for Failure {
    fn from(problem: Problem) -> Failure {
        match problem {
            Problem::Refused(status) => Failure::refused(&status),
            Problem::NotAtoll(failure) | Problem::Unreached(_, failure) | Problem::Failed(failure) => failure,
        }
    }
}

impl From<Problem> for String {
    fn from(problem: Problem) -> String {
        Failure::from(problem).into()
    }
}

//! A connection that a test keeps.

use bytes::Bytes;
use http::{Method, Request, Response, header};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};

use crate::client::{Client, JSON, RequestContent};
use crate::response::ApiResponse;

/// A connection that is reused for several requests.
pub struct KeptConnection {
    pub(crate) client: Client,
    pub(crate) sender: Sender,
}

pub(crate) enum Sender {
    One(http1::SendRequest<Full<Bytes>>),
    Two(http2::SendRequest<Full<Bytes>>),
}

impl KeptConnection {
    /// Sends a request and returns the response with an unread body.
    pub async fn send(
        &mut self,
        method: Method,
        path: &str,
        body: RequestContent,
    ) -> hyper::Result<Response<Incoming>> {
        let path = format!("{}{path}", self.client.base());
        let request = match self.sender {
            Sender::One(_) => Request::builder().uri(path).header(header::HOST, self.client.authority()),
            Sender::Two(_) => Request::builder().uri(format!("https://{}{path}", self.client.authority())),
        };
        let mut request = request.method(method);
        if let Some(accept) = self.client.accept {
            request = request.header(header::ACCEPT, accept);
        }
        if let Some(token) = &self.client.endpoint().token {
            request = request.header(header::AUTHORIZATION, format!("Bearer {token}"));
        }
        for (name, value) in &self.client.headers {
            request = request.header(name, value);
        }
        let (media, content) = match body {
            RequestContent::None => (None, Bytes::new()),
            RequestContent::Json(value) => (Some(JSON), Bytes::from(value.to_string())),
            RequestContent::Raw(media, content) => (Some(media), content),
            RequestContent::Bytes(content) => (None, content),
        };
        if let Some(media) = media {
            request = request.header(header::CONTENT_TYPE, media);
        }
        let request = request.body(Full::new(content));
        let request = request.unwrap_or_else(|error| panic!("not a request: {error}"));
        self.ready().await?;
        match &mut self.sender {
            Sender::One(sender) => sender.send_request(request).await,
            Sender::Two(sender) => sender.send_request(request).await,
        }
    }

    pub async fn request(
        &mut self,
        method: Method,
        path: &str,
        body: RequestContent,
    ) -> hyper::Result<ApiResponse> {
        let (parts, body) = self.send(method, path, body).await?.into_parts();
        let body = body.collect().await?.to_bytes();
        Ok(ApiResponse { status: parts.status.as_u16(), headers: parts.headers, body })
    }

    pub async fn get_accepting(&mut self, path: &str, accept: &'static str) -> hyper::Result<ApiResponse> {
        let usual = self.client.accept.replace(accept);
        let answer = self.request(Method::GET, path, RequestContent::None).await;
        self.client.accept = usual;
        answer
    }

    pub(crate) fn is_ready(&self) -> bool {
        match &self.sender {
            Sender::One(sender) => sender.is_ready(),
            Sender::Two(sender) => sender.is_ready(),
        }
    }

    /// Waits until another request can be sent. Fails if the connection was closed.
    pub(crate) async fn ready(&mut self) -> hyper::Result<()> {
        match &mut self.sender {
            Sender::One(sender) => sender.ready().await,
            Sender::Two(sender) => sender.ready().await,
        }
    }
}

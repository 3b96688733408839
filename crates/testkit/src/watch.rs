//! A watch, read event by event.

use bytes::BytesMut;
use http::{HeaderMap, Method, Response};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use serde_json::Value;

use crate::client::{Client, ClientError, RequestContent};
use crate::connection::KeptConnection;
use crate::response::revision;
use crate::wait::within;

pub struct Watch {
    response: Response<Incoming>,
    pending: BytesMut,
    /// Keeps the connection open.
    connection: Option<KeptConnection>,
}

/// The next item of a watch.
#[derive(Debug)]
pub enum Next {
    Event(Event),
    /// The server ended the watch regularly.
    End,
    /// The connection broke.
    Broken(String),
}

#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    pub kind: String,
    pub object: Value,
}

impl Event {
    #[track_caller]
    pub fn revision(&self) -> u64 {
        revision(&self.object)
    }

    pub fn name(&self) -> &str {
        self.object["metadata"]["name"].as_str().unwrap_or_default()
    }

    pub fn value(&self) -> &str {
        self.object["data"]["value"].as_str().unwrap_or_default()
    }
}

impl Watch {
    /// Opens a watch on a new connection. The server must accept it.
    pub async fn open(client: &Client, path: &str) -> Watch {
        let watch = Watch::begin(client, path).await.unwrap_or_else(|error| panic!("{path}: {error}"));
        watch.accepted().await.unwrap_or_else(|refusal| panic!("{path}: {refusal}"))
    }

    /// Opens a watch on a connection that the caller keeps.
    pub async fn on(connection: &mut KeptConnection, path: &str) -> Result<Watch, String> {
        let sending = connection.send(Method::GET, path, RequestContent::None);
        let response = within("a watch begins", sending).await.map_err(|error| error.to_string())?;
        Watch { response, pending: BytesMut::new(), connection: None }.accepted().await
    }

    /// Opens a watch on a new connection, which the server may refuse.
    pub async fn begin(client: &Client, path: &str) -> Result<Watch, ClientError> {
        let connection = within("the server accepts a connection", client.http1()).await;
        let mut connection = connection.map_err(ClientError::Unreachable)?;
        let sending = connection.send(Method::GET, path, RequestContent::None);
        let response = within("a watch begins", sending).await.map_err(ClientError::Interrupted)?;
        Ok(Watch { response, pending: BytesMut::new(), connection: Some(connection) })
    }

    async fn accepted(self) -> Result<Watch, String> {
        let status = self.response.status();
        if status == 200 {
            return Ok(self);
        }
        // The connection must stay open while the body is read.
        let Watch { response, connection, .. } = self;
        let text = response.into_body().collect().await.map(|body| body.to_bytes()).unwrap_or_default();
        drop(connection);
        Err(format!("{status}: {}", String::from_utf8_lossy(&text)))
    }

    pub fn status(&self) -> u16 {
        self.response.status().as_u16()
    }

    pub fn headers(&self) -> &HeaderMap {
        self.response.headers()
    }

    pub async fn next(&mut self) -> Next {
        match within("the watch has an event", self.next_line()).await {
            Ok(Some(mut event)) => {
                let kind = event["type"].as_str().expect("the type of an event").to_string();
                Next::Event(Event { kind, object: event["object"].take() })
            }
            Ok(None) => Next::End,
            Err(problem) => Next::Broken(problem),
        }
    }

    /// Returns the next event. Panics if the watch ends.
    pub async fn event(&mut self) -> Event {
        match self.next().await {
            Next::Event(event) => event,
            other => panic!("an event was expected, not {other:?}"),
        }
    }

    /// Returns the next line of the stream. Panics if the stream ends.
    pub async fn line(&mut self) -> Value {
        match within("the stream has a line", self.next_line()).await {
            Ok(Some(line)) => line,
            over => panic!("a line was expected, not {over:?}"),
        }
    }

    /// Returns the next line without a timeout, `None` when the server has ended the stream, or why the
    /// connection broke.
    pub async fn next_line(&mut self) -> Result<Option<Value>, String> {
        loop {
            if let Some(end) = self.pending.iter().position(|byte| *byte == b'\n') {
                let line = self.pending.split_to(end + 1);
                let value = serde_json::from_slice(&line);
                return value.map(Some).map_err(|_| format!("not JSON: {}", String::from_utf8_lossy(&line)));
            }
            match self.response.body_mut().frame().await {
                Some(Ok(frame)) => self.pending.extend_from_slice(&frame.into_data().unwrap_or_default()),
                Some(Err(error)) => return Err(error.to_string()),
                None if self.pending.is_empty() => return Ok(None),
                None => return Err("the end came in the middle of an event".into()),
            }
        }
    }
}

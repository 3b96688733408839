//! A watch, read event by event.

use bytes::BytesMut;
use http::Method;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use serde_json::Value;

use super::access::{Access, Body, Http, revision};
use super::within;

pub struct Watch {
    body: Incoming,
    pending: BytesMut,
    /// Keeps the connection open.
    _connection: Option<Http>,
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
    pub async fn open(access: &Access, path: &str) -> Watch {
        let mut http = within("the server accepts a connection", access.http1()).await.unwrap();
        let mut watch = Watch::on(&mut http, path).await.unwrap();
        watch._connection = Some(http);
        watch
    }

    /// Opens a watch on a connection that the caller keeps.
    pub async fn on(http: &mut Http, path: &str) -> Result<Watch, String> {
        let sending = http.send(Method::GET, path, Body::None);
        let response = within("a watch begins", sending).await.map_err(|error| error.to_string())?;
        if response.status() != 200 {
            let status = response.status();
            let text = response.into_body().collect().await.map(|body| body.to_bytes()).unwrap_or_default();
            return Err(format!("{status}: {}", String::from_utf8_lossy(&text)));
        }
        Ok(Watch { body: response.into_body(), pending: BytesMut::new(), _connection: None })
    }

    pub async fn next(&mut self) -> Next {
        within("the watch has an event", self.read()).await
    }

    /// Returns the next event. Panics if the watch ends.
    pub async fn event(&mut self) -> Event {
        match self.next().await {
            Next::Event(event) => event,
            other => panic!("an event was expected, not {other:?}"),
        }
    }

    async fn read(&mut self) -> Next {
        match self.read_line().await {
            Ok(mut event) => {
                let kind = event["type"].as_str().unwrap().to_string();
                Next::Event(Event { kind, object: event["object"].take() })
            }
            Err(over) => over,
        }
    }

    /// Returns the next line of the stream.
    pub async fn line(&mut self) -> Value {
        match within("the stream has a line", self.read_line()).await {
            Ok(line) => line,
            Err(over) => panic!("a line was expected, not {over:?}"),
        }
    }

    async fn read_line(&mut self) -> Result<Value, Next> {
        loop {
            if let Some(end) = self.pending.iter().position(|byte| *byte == b'\n') {
                let line = self.pending.split_to(end + 1);
                return Ok(serde_json::from_slice(&line).unwrap());
            }
            match self.body.frame().await {
                Some(Ok(frame)) => self.pending.extend_from_slice(&frame.into_data().unwrap_or_default()),
                Some(Err(error)) => return Err(Next::Broken(error.to_string())),
                None if self.pending.is_empty() => return Err(Next::End),
                None => return Err(Next::Broken("the end came in the middle of an event".into())),
            }
        }
    }
}

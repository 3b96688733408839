//! Bytes on a TLS connection, for requests that no regular client sends.

use std::io;

use atoll_testkit::Client;
use atoll_testkit::wait::within;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

pub struct Raw {
    pub stream: TlsStream<TcpStream>,
    host: String,
    received: Vec<u8>,
}

/// The status line and headers of a response.
#[derive(Debug)]
pub struct Head {
    pub status: u16,
    pub text: String,
}

impl Raw {
    pub async fn open(client: &Client) -> Raw {
        Raw::open_with_protocol(client, "http/1.1").await
    }

    pub async fn open_with_protocol(client: &Client, protocol: &str) -> Raw {
        let stream = within("the server accepts a connection", client.stream(&[protocol])).await.unwrap();
        Raw { stream, host: client.authority().to_string(), received: Vec::new() }
    }

    /// Sends all of `bytes`. Fails if the server has closed the connection.
    pub async fn send(&mut self, bytes: impl AsRef<[u8]>) -> io::Result<()> {
        let sending = async {
            self.stream.write_all(bytes.as_ref()).await?;
            self.stream.flush().await
        };
        within("the server reads what is sent", sending).await
    }

    /// Returns a request line and headers, followed by `lines`.
    pub fn head(&self, method: &str, path: &str, lines: &str) -> String {
        format!("{method} {path} HTTP/1.1\r\nHost: {}\r\nAccept: application/json\r\n{lines}\r\n", self.host)
    }

    /// Returns the head of the next response, or `None` if the connection ends first.
    pub async fn answer(&mut self) -> Option<Head> {
        loop {
            if let Some(end) = self.received.windows(4).position(|window| window == b"\r\n\r\n") {
                let text = String::from_utf8_lossy(&self.received[..end]).into_owned();
                self.received.drain(..end + 4);
                let status = text.split(' ').nth(1).and_then(|code| code.parse().ok());
                return Some(Head {
                    status: status.unwrap_or_else(|| panic!("no status in {text:?}")),
                    text,
                });
            }
            if !within("the server answers", self.receive()).await {
                return None;
            }
        }
    }

    /// Reads until the server closes the connection.
    pub async fn rest(&mut self) -> Vec<u8> {
        while within("the server closes the connection", self.receive()).await {}
        std::mem::take(&mut self.received)
    }

    /// Returns whether anything was received before the end. A TLS connection that is closed without a
    /// notification has ended as well.
    async fn receive(&mut self) -> bool {
        let mut piece = [0; 16 << 10];
        match self.stream.read(&mut piece).await {
            Ok(0) | Err(_) => false,
            Ok(count) => {
                self.received.extend_from_slice(&piece[..count]);
                true
            }
        }
    }
}

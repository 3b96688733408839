//! A keep-alive connection that sends prepared requests and parses only the framing of responses.

use std::net::SocketAddr;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, IpAddr, ServerName};
use rustls::{CipherSuite, ClientConfig, RootCertStore, SupportedCipherSuite};
use tokio::net::TcpStream;

use crate::error::{BenchError, BenchResult};
use crate::framing::{Framing, HttpResponse};
use crate::secure::TlsStream;

/// Address of a server, with the credentials and TLS settings to connect to it.
#[derive(Clone)]
pub struct Target {
    pub address: SocketAddr,
    pub token: String,
    tls: Arc<ClientConfig>,
}

pub struct Connection {
    stream: TlsStream,
    framing: Framing,
}

impl Target {
    /// Creates a target. `ca_certificate` is the server's CA certificate in PEM.
    pub fn new(address: SocketAddr, token: &str, ca_certificate: &[u8]) -> BenchResult<Self> {
        let unreadable = |error: &dyn std::fmt::Display| {
            BenchError::Start(format!("cannot read the server's CA: {error}"))
        };
        let mut roots = RootCertStore::empty();
        let certificate =
            CertificateDer::from_pem_slice(ca_certificate).map_err(|error| unreadable(&error))?;
        roots.add(certificate).map_err(|error| unreadable(&error))?;
        Self::with_roots(address, token, roots)
    }

    /// Creates a target that trusts no CA, for use before the server's CA is known.
    pub fn without_ca(address: SocketAddr) -> BenchResult<Self> {
        Self::with_roots(address, "", RootCertStore::empty())
    }

    fn with_roots(address: SocketAddr, token: &str, roots: RootCertStore) -> BenchResult<Self> {
        let mut provider = rustls::crypto::aws_lc_rs::default_provider();
        // Prefer the cipher suite of Go's client, which most Kubernetes clients use. Otherwise the two
        // servers would choose different cipher suites, which would distort the comparison.
        let wanted = |suite: &SupportedCipherSuite| suite.suite() == CipherSuite::TLS13_AES_128_GCM_SHA256;
        provider.cipher_suites.sort_by_key(|suite| !wanted(suite));
        let mut tls = ClientConfig::builder_with_provider(Arc::new(provider))
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(|error| BenchError::Start(error.to_string()))?
            .with_root_certificates(roots)
            .with_no_client_auth();
        tls.alpn_protocols = vec![b"http/1.1".to_vec()];
        tls.enable_secret_extraction = true;
        Ok(Target { address, token: token.to_string(), tls: Arc::new(tls) })
    }

    pub async fn connect(&self) -> BenchResult<Connection> {
        let failed =
            |error: String| BenchError::Connection(format!("cannot connect to {}: {error}", self.address));
        let socket = TcpStream::connect(self.address).await.map_err(|error| failed(error.to_string()))?;
        socket.set_nodelay(true).map_err(|error| failed(error.to_string()))?;
        let name = ServerName::IpAddress(IpAddr::from(self.address.ip()));
        let stream = TlsStream::connect(socket, self.tls.clone(), name).await.map_err(failed)?;
        Ok(Connection { stream, framing: Framing::default() })
    }

    /// Returns the bytes of a request with a JSON body.
    pub fn request(&self, method: &str, path: &str, body: &str) -> Vec<u8> {
        self.request_of("application/json", method, path, body)
    }

    /// Returns the bytes of a request with a body of the given media type.
    pub fn request_of(&self, media_type: &str, method: &str, path: &str, body: &str) -> Vec<u8> {
        let (address, token) = (self.address, &self.token);
        let mut request = format!(
            "{method} {path} HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {token}\r\n\
             Accept: application/json\r\nUser-Agent: atoll-bench\r\n"
        );
        if !body.is_empty() {
            let length = body.len();
            request.push_str(&format!("Content-Type: {media_type}\r\nContent-Length: {length}\r\n"));
        }
        request.push_str("\r\n");
        request.push_str(body);
        request.into_bytes()
    }

    /// Sends a request on a new connection. Returns the body, or an error if the status is not 2xx.
    pub async fn call(&self, method: &str, path: &str, body: &str) -> BenchResult<Vec<u8>> {
        let (answer, body) = self.try_call(method, path, body).await?;
        if (200..300).contains(&answer.status) {
            Ok(body)
        } else {
            Err(unexpected_response(method, path, answer, &body))
        }
    }

    pub async fn try_call(
        &self,
        method: &str,
        path: &str,
        body: &str,
    ) -> BenchResult<(HttpResponse, Vec<u8>)> {
        self.connect().await?.exchange_with_body(&self.request(method, path, body)).await
    }
}

/// Returns the error for an unexpected response.
pub fn unexpected_response(method: &str, path: &str, answer: HttpResponse, body: &[u8]) -> BenchError {
    let shown = String::from_utf8_lossy(&body[..body.len().min(500)]);
    BenchError::Response(format!("{method} {path} returned {}: {shown}", answer.status))
}

impl Connection {
    /// Sends a request and reads its response without keeping the body.
    pub async fn exchange(&mut self, request: &[u8]) -> BenchResult<HttpResponse> {
        self.send(request).await?;
        self.receive(|_| ()).await
    }

    /// Sends a request and returns its response with the body.
    pub async fn exchange_with_body(&mut self, request: &[u8]) -> BenchResult<(HttpResponse, Vec<u8>)> {
        self.send(request).await?;
        let mut body = Vec::new();
        let answer = self.receive(|piece| body.extend_from_slice(piece)).await?;
        Ok((answer, body))
    }

    pub async fn send(&mut self, request: &[u8]) -> BenchResult<()> {
        self.stream.write(request).await.map_err(|error| lost(&error))
    }

    /// Reads the next response and passes each piece of its body to `body`.
    pub async fn receive(&mut self, mut body: impl FnMut(&[u8])) -> BenchResult<HttpResponse> {
        loop {
            if let Some(answer) = self.receive_some(&mut body).await? {
                return Ok(answer);
            }
        }
    }

    /// Reads the next piece of a response. Returns `None` if the response is not complete.
    pub async fn receive_some(&mut self, mut body: impl FnMut(&[u8])) -> BenchResult<Option<HttpResponse>> {
        let mut fed = Ok(None);
        let framing = &mut self.framing;
        let piece = |piece: &[u8]| match &fed {
            Ok(None) => fed = framing.feed(piece, &mut body),
            Ok(Some(_)) => fed = Err(format!("{} bytes follow the end of a response", piece.len())),
            Err(_) => {}
        };
        let open = self.stream.read(piece).await.map_err(|error| lost(&error))?;
        match fed.map_err(BenchError::Response)? {
            None if !open => Err(lost("the server closed the connection")),
            answer => Ok(answer),
        }
    }

    /// Returns the status of the response that is being read, or 0 before its head is complete.
    pub fn status(&self) -> u16 {
        self.framing.status()
    }

    pub fn cipher(&self) -> String {
        self.stream.cipher()
    }
}

fn lost(cause: &str) -> BenchError {
    BenchError::Connection(format!("connection lost: {cause}"))
}

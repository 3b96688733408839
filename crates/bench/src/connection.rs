//! One keep-alive connection: requests go out as bytes that were made before, answers are hardly looked at.

use std::net::SocketAddr;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, IpAddr, ServerName};
use rustls::{CipherSuite, ClientConfig, RootCertStore, SupportedCipherSuite};
use tokio::net::TcpStream;

use crate::error::{BenchError, Outcome};
use crate::framing::{Answer, Framing};
use crate::secure::Secure;

/// Where a server is and how to be let in.
#[derive(Clone)]
pub struct Target {
    pub address: SocketAddr,
    pub token: String,
    tls: Arc<ClientConfig>,
}

pub struct Connection {
    stream: Secure,
    framing: Framing,
}

impl Target {
    /// `authority` is the certificate, in PEM, that signed the server's.
    pub fn new(address: SocketAddr, token: &str, authority: &[u8]) -> Outcome<Self> {
        let unreadable =
            |error: &dyn std::fmt::Display| BenchError::Start(format!("the server's CA: {error}"));
        let mut roots = RootCertStore::empty();
        let certificate = CertificateDer::from_pem_slice(authority).map_err(|error| unreadable(&error))?;
        roots.add(certificate).map_err(|error| unreadable(&error))?;
        Self::trusting(address, token, roots)
    }

    /// A target that trusts nobody, until it is known whom to trust.
    pub fn none(address: SocketAddr) -> Outcome<Self> {
        Self::trusting(address, "", RootCertStore::empty())
    }

    fn trusting(address: SocketAddr, token: &str, roots: RootCertStore) -> Outcome<Self> {
        let mut provider = rustls::crypto::aws_lc_rs::default_provider();
        // As Go's client asks, which is what most clients of Kubernetes are: else the two servers would choose
        // different ciphers, and that would be measured.
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

    pub async fn connect(&self) -> Outcome<Connection> {
        let failed =
            |error: String| BenchError::Connection(format!("cannot connect to {}: {error}", self.address));
        let socket = TcpStream::connect(self.address).await.map_err(|error| failed(error.to_string()))?;
        socket.set_nodelay(true).map_err(|error| failed(error.to_string()))?;
        let name = ServerName::IpAddress(IpAddr::from(self.address.ip()));
        let stream = Secure::connect(socket, self.tls.clone(), name).await.map_err(failed)?;
        Ok(Connection { stream, framing: Framing::default() })
    }

    /// The bytes of a request. A body is JSON.
    pub fn request(&self, method: &str, path: &str, body: &str) -> Vec<u8> {
        self.request_of("application/json", method, path, body)
    }

    /// The bytes of a request with a body of another type.
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

    /// One request on a connection of its own, answered with a success.
    pub async fn call(&self, method: &str, path: &str, body: &str) -> Outcome<Vec<u8>> {
        let (answer, body) = self.try_call(method, path, body).await?;
        if (200..300).contains(&answer.status) { Ok(body) } else { Err(refused(method, path, answer, &body)) }
    }

    pub async fn try_call(&self, method: &str, path: &str, body: &str) -> Outcome<(Answer, Vec<u8>)> {
        self.connect().await?.whole(&self.request(method, path, body)).await
    }
}

/// An answer that is not the one that was to be measured.
pub fn refused(method: &str, path: &str, answer: Answer, body: &[u8]) -> BenchError {
    let shown = String::from_utf8_lossy(&body[..body.len().min(500)]);
    BenchError::Answer(format!("{method} {path} was answered {}: {shown}", answer.status))
}

impl Connection {
    /// Sends a request and waits for the end of its answer, without keeping it.
    pub async fn exchange(&mut self, request: &[u8]) -> Outcome<Answer> {
        self.send(request).await?;
        self.receive(|_| ()).await
    }

    /// Sends a request and keeps its answer.
    pub async fn whole(&mut self, request: &[u8]) -> Outcome<(Answer, Vec<u8>)> {
        self.send(request).await?;
        let mut body = Vec::new();
        let answer = self.receive(|piece| body.extend_from_slice(piece)).await?;
        Ok((answer, body))
    }

    pub async fn send(&mut self, request: &[u8]) -> Outcome<()> {
        self.stream.write(request).await.map_err(|error| lost(&error))
    }

    /// The next answer; `body` sees each piece of it.
    pub async fn receive(&mut self, mut body: impl FnMut(&[u8])) -> Outcome<Answer> {
        loop {
            if let Some(answer) = self.receive_some(&mut body).await? {
                return Ok(answer);
            }
        }
    }

    /// What has come of an answer; `None` if more is to come.
    pub async fn receive_some(&mut self, mut body: impl FnMut(&[u8])) -> Outcome<Option<Answer>> {
        let mut fed = Ok(None);
        let framing = &mut self.framing;
        let piece = |piece: &[u8]| match &fed {
            Ok(None) => fed = framing.feed(piece, &mut body),
            Ok(Some(_)) => fed = Err(format!("{} bytes follow an answer that has ended", piece.len())),
            Err(_) => {}
        };
        let open = self.stream.read(piece).await.map_err(|error| lost(&error))?;
        match fed.map_err(BenchError::Answer)? {
            None if !open => Err(lost("the server closed it")),
            answer => Ok(answer),
        }
    }

    /// The status of the answer that is coming in; 0 as long as its head is not there.
    pub fn status(&self) -> u16 {
        self.framing.status()
    }

    pub fn cipher(&self) -> String {
        self.stream.cipher()
    }
}

fn lost(cause: &str) -> BenchError {
    BenchError::Connection(format!("a connection was lost: {cause}"))
}

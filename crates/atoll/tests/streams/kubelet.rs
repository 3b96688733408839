//! A kubelet built with `atoll-streams`, with a few built-in commands.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex};

use atoll_authn::authority::Authority;
use atoll_streams::port_forward;
use atoll_streams::remote_command::{self, ExecStatus, PendingSession, StreamOptions, TerminalSize};
use bytes::Bytes;
use futures_util::stream;
use http::{Request, Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use percent_encoding::percent_decode_str;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use time::OffsetDateTime;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;

type Body = UnsyncBoxBody<Bytes, Infallible>;

/// A request that the kubelet received.
#[derive(Clone, Debug)]
pub struct ReceivedRequest {
    pub method: String,
    pub target: String,
    pub headers: http::HeaderMap,
    /// The user of the client certificate.
    pub user: String,
}

pub struct Kubelet {
    pub address: SocketAddr,
    received: Arc<Mutex<Vec<ReceivedRequest>>>,
    /// The number of logs that are being followed.
    followed: watch::Sender<usize>,
    /// The number of running commands.
    running: watch::Sender<usize>,
    /// The address to which the ports of all Pods are forwarded.
    service: Mutex<Option<SocketAddr>>,
}

impl Kubelet {
    /// Starts a kubelet with a certificate of the authority in `directory`. It accepts only that authority's
    /// clients.
    pub async fn start(directory: &Path) -> Arc<Kubelet> {
        let now = OffsetDateTime::now_utc();
        let authority = Authority::open(directory, now).unwrap();
        let hour = std::time::Duration::from_secs(3600);
        let identity = authority.serving(&[], &[[127, 0, 0, 1].into()], now, hour).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(authority.certificate_pem.as_bytes()).unwrap()).unwrap();
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_client_cert_verifier(verifier.build().unwrap())
            .with_single_cert(vec![identity.certificate_der().unwrap()], identity.key_der().unwrap())
            .unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let kubelet = Arc::new(Kubelet {
            address: listener.local_addr().unwrap(),
            received: Arc::default(),
            followed: watch::channel(0).0,
            running: watch::channel(0).0,
            service: Mutex::default(),
        });
        tokio::spawn(kubelet.clone().serve(listener, TlsAcceptor::from(Arc::new(config))));
        kubelet
    }

    /// Sets the address to which ports of Pods are forwarded.
    pub fn forward_to(&self, service: SocketAddr) {
        *self.service.lock().unwrap() = Some(service);
    }

    pub fn received(&self) -> Vec<ReceivedRequest> {
        self.received.lock().unwrap().clone()
    }

    /// Returns the last request whose target begins with `start`.
    pub fn last(&self, start: &str) -> ReceivedRequest {
        self.received().into_iter().rfind(|received| received.target.starts_with(start)).unwrap()
    }

    pub fn followed(&self) -> watch::Receiver<usize> {
        self.followed.subscribe()
    }

    pub fn running(&self) -> watch::Receiver<usize> {
        self.running.subscribe()
    }

    async fn serve(self: Arc<Self>, listener: TcpListener, acceptor: TlsAcceptor) {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let (kubelet, acceptor) = (self.clone(), acceptor.clone());
            tokio::spawn(async move {
                let Ok(stream) = acceptor.accept(stream).await else { return };
                let certificate = stream.get_ref().1.peer_certificates().unwrap()[0].clone();
                let holder = atoll_authn::certificate::holder(&certificate).unwrap().unwrap();
                let user = format!("{} {}", holder.user.name, holder.user.groups.join(","));
                let service = service_fn(|request| {
                    let (kubelet, user) = (kubelet.clone(), user.clone());
                    async move { Ok::<_, Infallible>(kubelet.answer(request, user)) }
                });
                let http = hyper::server::conn::http1::Builder::new();
                // A client may disconnect.
                let _ = http.serve_connection(TokioIo::new(stream), service).with_upgrades().await;
            });
        }
    }

    fn answer(self: Arc<Self>, mut request: Request<Incoming>, user: String) -> Response<Body> {
        let target = request.uri().to_string();
        let (method, headers) = (request.method().to_string(), request.headers().clone());
        self.received.lock().unwrap().push(ReceivedRequest { method, target, headers, user });
        let path = request.uri().path().to_string();
        let query = request.uri().query().unwrap_or_default().to_string();
        let parts: Vec<&str> = path.split('/').skip(1).collect();
        let full = |text: String| Full::new(Bytes::from(text)).boxed_unsync();
        match parts[..] {
            [_, _, "missing", ..] => {
                let mut response = Response::new(full("pod does not exist".into()));
                *response.status_mut() = StatusCode::NOT_FOUND;
                response
            }
            ["exec" | "attach", _, _, container] => {
                let options = StreamOptions::from_query(&query).unwrap();
                let command =
                    if parts[0] == "attach" { vec!["attach".into()] } else { command_words(&query) };
                let name = container.to_string();
                match remote_command::accept(&mut request, options) {
                    Err(refusal) => refusal.map(full),
                    Ok((response, opening)) => {
                        tokio::spawn(self.run(opening, command, name));
                        response.map(full)
                    }
                }
            }
            ["containerLogs", _, _, container] => {
                let line = format!("log of {container}: {query}\n");
                match query.contains("follow=true") {
                    false => Response::new(full(line)),
                    true => Response::new(self.follow(line)),
                }
            }
            ["portForward", _, _] => match port_forward::accept(&mut request) {
                Err(refusal) => refusal.map(full),
                Ok((response, opening)) => {
                    tokio::spawn(self.forward(opening));
                    response.map(full)
                }
            },
            _ => Response::new(full(format!("kubelet: {path}\n"))),
        }
    }

    /// Sends a line, and then nothing until the client disconnects.
    fn follow(self: Arc<Self>, line: String) -> Body {
        let following = CountGuard::new(&self.followed);
        let frames = stream::unfold((Some(line), following), |(line, following)| async move {
            match line {
                Some(line) => Some((Ok(Frame::data(Bytes::from(line))), (None, following))),
                None => std::future::pending().await,
            }
        });
        StreamBody::new(frames).boxed_unsync()
    }

    async fn run(self: Arc<Self>, opening: PendingSession, command: Vec<String>, container: String) {
        let _running = CountGuard::new(&self.running);
        let mut session = opening.session().await.unwrap();
        let closed = session.closed();
        let (mut stdin, mut stdout, mut stderr, mut resize) =
            (session.stdin.take(), session.stdout.take(), session.stderr.take(), session.resize.take());
        let words: Vec<&str> = command.iter().map(String::as_str).collect();
        let acting = async {
            match words[..] {
                ["attach"] | ["cat"] => {
                    let (input, output) = (stdin.as_mut().unwrap(), stdout.as_mut().unwrap());
                    if words == ["attach"] {
                        output.write(format!("attached to {container}\n")).await?;
                    }
                    while let Some(piece) = input.next().await {
                        output.write(piece).await?;
                    }
                    Ok(ExecStatus::Success)
                }
                ["both", ref rest @ ..] => {
                    stdout.as_mut().unwrap().write(format!("out {}\n", rest.join("|"))).await?;
                    stderr.as_mut().unwrap().write("err\n").await?;
                    Ok(ExecStatus::exit(3))
                }
                ["big", bytes] => {
                    stdout.as_mut().unwrap().write(vec![b'x'; bytes.parse().unwrap()]).await?;
                    Ok(ExecStatus::Success)
                }
                ["size"] => {
                    let TerminalSize { width, height } = resize.as_mut().unwrap().next().await.unwrap();
                    stdout.as_mut().unwrap().write(format!("{width}x{height}\n")).await?;
                    Ok(ExecStatus::Success)
                }
                ["wait"] => {
                    stdout.as_mut().unwrap().write("waiting\n").await?;
                    std::future::pending().await
                }
                _ => Ok(ExecStatus::Failure(format!("error executing command in container: no {words:?}"))),
            }
        };
        let outcome: std::io::Result<ExecStatus> = tokio::select! {
            outcome = acting => outcome,
            () = closed => return,
        };
        drop((stdin, stdout, stderr, resize));
        if let Ok(outcome) = outcome {
            session.end(&outcome).await;
        }
    }

    async fn forward(self: Arc<Self>, opening: port_forward::PendingForwards) {
        let _running = CountGuard::new(&self.running);
        let mut forwards = opening.forwards().await.unwrap();
        while let Some(forward) = forwards.next().await {
            let service = *self.service.lock().unwrap();
            tokio::spawn(async move {
                match (forward.port, service) {
                    (80, Some(service)) => {
                        forward.relay(TcpStream::connect(service).await.unwrap()).await;
                    }
                    (port, _) => forward.fail(&format!("no listener at port {port}")).await,
                }
            });
        }
    }
}

/// Returns the command and arguments of a query.
fn command_words(query: &str) -> Vec<String> {
    let words = query.split('&').filter_map(|pair| pair.strip_prefix("command="));
    words
        .map(|word| percent_decode_str(&word.replace('+', " ")).decode_utf8().unwrap().into_owned())
        .collect()
}

/// Counts up on creation and down on drop.
struct CountGuard(watch::Sender<usize>);

impl CountGuard {
    fn new(count: &watch::Sender<usize>) -> CountGuard {
        count.send_modify(|count| *count += 1);
        CountGuard(count.clone())
    }
}

impl Drop for CountGuard {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count -= 1);
    }
}

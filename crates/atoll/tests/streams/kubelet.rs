//! A kubelet made of `atoll-streams`, with a few commands of its own.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex};

use atoll_authn::authority::Authority;
use atoll_streams::port_forward;
use atoll_streams::remote_command::{self, Opening, Options, Outcome, TerminalSize};
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

/// A request that the kubelet got.
#[derive(Clone, Debug)]
pub struct Seen {
    pub method: String,
    pub target: String,
    pub headers: http::HeaderMap,
    /// Whose certificate it came with.
    pub user: String,
}

pub struct Kubelet {
    pub address: SocketAddr,
    seen: Arc<Mutex<Vec<Seen>>>,
    /// How many logs are being followed.
    followed: watch::Sender<usize>,
    /// How many commands are running.
    running: watch::Sender<usize>,
    /// Where the ports of all Pods lead.
    service: Mutex<Option<SocketAddr>>,
}

impl Kubelet {
    /// With a certificate of the authority in `directory`, and for its clients only.
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
            seen: Arc::default(),
            followed: watch::channel(0).0,
            running: watch::channel(0).0,
            service: Mutex::default(),
        });
        tokio::spawn(kubelet.clone().serve(listener, TlsAcceptor::from(Arc::new(config))));
        kubelet
    }

    /// What ports of Pods lead to from now on.
    pub fn forward_to(&self, service: SocketAddr) {
        *self.service.lock().unwrap() = Some(service);
    }

    pub fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }

    /// The last request whose target begins like this.
    pub fn last(&self, start: &str) -> Seen {
        self.seen().into_iter().rfind(|seen| seen.target.starts_with(start)).unwrap()
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
                // A client that goes away is no matter.
                let _ = http.serve_connection(TokioIo::new(stream), service).with_upgrades().await;
            });
        }
    }

    fn answer(self: Arc<Self>, mut request: Request<Incoming>, user: String) -> Response<Body> {
        let target = request.uri().to_string();
        let (method, headers) = (request.method().to_string(), request.headers().clone());
        self.seen.lock().unwrap().push(Seen { method, target, headers, user });
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
                let options = Options::from_query(&query).unwrap();
                let command = if parts[0] == "attach" { vec!["attach".into()] } else { command(&query) };
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

    /// A line, and then nothing until the client goes away.
    fn follow(self: Arc<Self>, line: String) -> Body {
        let following = Counted::new(&self.followed);
        let frames = stream::unfold((Some(line), following), |(line, following)| async move {
            match line {
                Some(line) => Some((Ok(Frame::data(Bytes::from(line))), (None, following))),
                None => std::future::pending().await,
            }
        });
        StreamBody::new(frames).boxed_unsync()
    }

    async fn run(self: Arc<Self>, opening: Opening, command: Vec<String>, container: String) {
        let _running = Counted::new(&self.running);
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
                    Ok(Outcome::Success)
                }
                ["both", ref rest @ ..] => {
                    stdout.as_mut().unwrap().write(format!("out {}\n", rest.join("|"))).await?;
                    stderr.as_mut().unwrap().write("err\n").await?;
                    Ok(Outcome::exit(3))
                }
                ["big", bytes] => {
                    stdout.as_mut().unwrap().write(vec![b'x'; bytes.parse().unwrap()]).await?;
                    Ok(Outcome::Success)
                }
                ["size"] => {
                    let TerminalSize { width, height } = resize.as_mut().unwrap().next().await.unwrap();
                    stdout.as_mut().unwrap().write(format!("{width}x{height}\n")).await?;
                    Ok(Outcome::Success)
                }
                ["wait"] => {
                    stdout.as_mut().unwrap().write("waiting\n").await?;
                    std::future::pending().await
                }
                _ => Ok(Outcome::Failure(format!("error executing command in container: no {words:?}"))),
            }
        };
        let outcome: std::io::Result<Outcome> = tokio::select! {
            outcome = acting => outcome,
            () = closed => return,
        };
        drop((stdin, stdout, stderr, resize));
        if let Ok(outcome) = outcome {
            session.end(&outcome).await;
        }
    }

    async fn forward(self: Arc<Self>, opening: port_forward::Opening) {
        let _running = Counted::new(&self.running);
        let mut forwards = opening.forwards().await.unwrap();
        while let Some(forward) = forwards.next().await {
            let service = *self.service.lock().unwrap();
            tokio::spawn(async move {
                match (forward.port, service) {
                    (80, Some(service)) => {
                        forward.relay(TcpStream::connect(service).await.unwrap()).await;
                    }
                    (port, _) => forward.fail(&format!("nobody listens at {port}")).await,
                }
            });
        }
    }
}

/// The words of a command.
fn command(query: &str) -> Vec<String> {
    let words = query.split('&').filter_map(|pair| pair.strip_prefix("command="));
    words
        .map(|word| percent_decode_str(&word.replace('+', " ")).decode_utf8().unwrap().into_owned())
        .collect()
}

/// Counts for as long as it lives.
struct Counted(watch::Sender<usize>);

impl Counted {
    fn new(count: &watch::Sender<usize>) -> Counted {
        count.send_modify(|count| *count += 1);
        Counted(count.clone())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count -= 1);
    }
}

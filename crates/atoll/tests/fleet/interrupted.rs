//! Joining and removing are interrupted at every step: repeating the same command continues, and nothing is
//! lost or left behind. Alternately a request and its response are lost. A normal run takes every third step,
//! `ATOLL_EVERY_STEP=1` all of them.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use atoll_testkit::wait::eventually;
use atoll_testkit::{Atoll, atoll};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use crate::harness::{CLUSTERS, TestFleet, cluster, join_command, secret_path};
use crate::leaving::is_clean;
use crate::support::{CONFIG_MAPS, config_map, config_map_with};

/// The number of repetitions that a command may need: an interruption may also hit the syncer.
const ATTEMPTS: usize = 5;
/// More chunks than any of the commands sends.
const ALL: usize = 100_000;

/// TCP proxies to servers. All connections are closed when a number of chunks were sent.
struct Proxies {
    /// The number of chunks until all connections are closed.
    remaining: AtomicUsize,
    /// 1 if the last chunk is still delivered, so that its response is lost.
    loses_response: AtomicUsize,
    cuts: watch::Sender<()>,
}

impl Proxies {
    fn new() -> Arc<Proxies> {
        Arc::new(Proxies { remaining: ALL.into(), loses_response: 0.into(), cuts: watch::Sender::new(()) })
    }

    /// Starts a proxy to a server and returns its address.
    async fn start_proxy(self: &Arc<Self>, target: SocketAddr) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let proxies = self.clone();
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let proxies = proxies.clone();
                tokio::spawn(async move {
                    let Ok(server) = TcpStream::connect(target).await else { return };
                    proxies.forward(client, server).await;
                });
            }
        });
        address
    }

    async fn forward(&self, client: TcpStream, server: TcpStream) {
        let mut cut = self.cuts.subscribe();
        let (mut from_client, mut to_client) = client.into_split();
        let (mut from_server, mut to_server) = server.into_split();
        let up = async {
            let mut chunk = vec![0; 64 << 10];
            loop {
                let length = from_client.read(&mut chunk).await.unwrap_or(0);
                if length == 0 {
                    return;
                }
                let remaining = self.remaining.fetch_sub(1, Ordering::Relaxed);
                let is_last = remaining == 1;
                if is_last {
                    self.remaining.store(ALL, Ordering::Relaxed);
                }
                if is_last && self.loses_response.load(Ordering::Relaxed) == 0 {
                    self.cuts.send_replace(());
                    return;
                }
                let sent = to_server.write_all(&chunk[..length]).await;
                if is_last {
                    self.cuts.send_replace(());
                }
                if is_last || sent.is_err() {
                    return;
                }
            }
        };
        let down = async {
            let _ = tokio::io::copy(&mut from_server, &mut to_client).await;
        };
        tokio::select! {
            () = up => {}
            () = down => {}
            _ = cut.changed() => {}
        }
    }

    /// Closes all connections once after this many more chunks.
    fn cut_after(&self, chunks: usize, loses_response: bool) {
        self.loses_response.store(loses_response.into(), Ordering::Relaxed);
        self.remaining.store(chunks, Ordering::Relaxed);
    }

    /// Returns the number of chunks sent since the counter was reset, and resets it.
    fn take_sent(&self) -> usize {
        ALL - self.remaining.swap(ALL, Ordering::Relaxed)
    }
}

/// Writes a kubeconfig that leads through a proxy.
async fn proxied_kubeconfig(
    proxies: &Arc<Proxies>,
    kubeconfig: &Path,
    directory: &Path,
    name: &str,
) -> PathBuf {
    let text = std::fs::read_to_string(kubeconfig).unwrap();
    let (_, behind) = text.split_once("https://").unwrap();
    let end = behind.find(|letter: char| !letter.is_ascii_digit() && !".:".contains(letter)).unwrap();
    let target: SocketAddr = behind[..end].parse().unwrap();
    let address = proxies.start_proxy(target).await;
    let path = directory.join(name);
    std::fs::write(&path, text.replace(&target.to_string(), &address.to_string())).unwrap();
    path
}

#[tokio::test(flavor = "multi_thread")]
async fn interrupted_join_and_remove_continue_when_repeated() {
    let (fleet, east) = (TestFleet { above: Atoll::start() }, cluster());
    let (admin, below) = (fleet.admin(), east.admin());
    let directory = tempfile::tempdir().unwrap();
    let proxies = Proxies::new();
    let above = proxied_kubeconfig(&proxies, &fleet.above.kubeconfig(), directory.path(), "above").await;
    let kubeconfig = proxied_kubeconfig(&proxies, &east.kubeconfig(), directory.path(), "east").await;
    let run = async |line: String| {
        let mut command = atoll(&line.split(' ').collect::<Vec<_>>());
        command.env("KUBECONFIG", &above).stdin(Stdio::null());
        tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap()
    };
    below.post(CONFIG_MAPS, config_map_with("foreign", "1")).await.expect(201);
    admin.post(CONFIG_MAPS, config_map_with("a", "1")).await.expect(201);

    let join = join_command("east", &kubeconfig, "");
    let remove = "cluster remove east --yes".to_string();
    let stride = if std::env::var_os("ATOLL_EVERY_STEP").is_some() { 1 } else { 3 };
    let mut step = 0;
    // The first round is not interrupted and counts the chunks that each command sends.
    let (mut joins, mut removals) = (0, 0);
    loop {
        if step > 0 {
            proxies.cut_after(step, step / stride % 2 == 0);
            run(join.clone()).await;
        }
        proxies.take_sent();
        let mut output = run(join.clone()).await;
        for _ in 0..ATTEMPTS {
            if output.status.success() {
                break;
            }
            output = run(join.clone()).await;
        }
        let printed = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "after step {step}: {printed}");
        joins = joins.max(if step == 0 { proxies.take_sent() } else { 0 });
        let known = admin.get(CLUSTERS).await.expect(200);
        assert_eq!(known["items"].as_array().map(Vec::len), Some(1), "{known}");

        let placed = run("place cm/a --on east".to_string()).await;
        assert!(placed.status.success(), "{}", String::from_utf8_lossy(&placed.stderr));
        eventually("the ConfigMap exists below", async || below.get(&config_map("a")).await.status == 200)
            .await;

        proxies.take_sent();
        if step > 0 {
            proxies.cut_after(step, step / stride % 2 == 1);
        }
        let mut output = run(remove.clone()).await;
        removals = removals.max(if step == 0 { proxies.take_sent() } else { 0 });
        for _ in 0..ATTEMPTS {
            let is_registered = admin.get(&format!("{CLUSTERS}/east")).await.status == 200;
            let has_secret = admin.get(&secret_path("east")).await.status == 200;
            if output.status.success() || !is_registered && !has_secret {
                break;
            }
            output = run(remove.clone()).await;
        }
        proxies.take_sent();
        let printed = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(admin.get(&format!("{CLUSTERS}/east")).await.status, 404, "after step {step}: {printed}");
        assert_eq!(admin.get(&secret_path("east")).await.status, 404, "after step {step}: {printed}");
        assert_eq!(below.get(&config_map("a")).await.status, 404, "after step {step}");
        assert_eq!(below.get(&config_map("foreign")).await.status, 200, "after step {step}");
        let stays = admin.get(&config_map("a")).await.expect(200);
        assert_eq!(stays["metadata"]["annotations"]["atoll.dev/placement"], serde_json::Value::Null);
        eventually("all traces of joining are removed from the cluster", async || is_clean(&below).await)
            .await;
        step += stride;
        if step > joins.max(removals) {
            break;
        }
    }
    assert!(joins > 5 && removals > 5, "{joins} {removals}");
}

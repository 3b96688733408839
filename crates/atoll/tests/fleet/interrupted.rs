//! Joining and removing break off, at every step: the same command again goes on, and nothing is lost or left.
//! Every other time a request is lost, and every other time its answer. A normal run takes every third step,
//! `ATOLL_EVERY_STEP=1` all of them.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use crate::leaving::is_clean;
use crate::support::process::{Atoll, atoll};
use crate::support::{CONFIG_MAPS, config_map, config_map_with, eventually};
use crate::world::{CLUSTERS, World, cluster, joining, secret};

/// How often a command may have to be repeated: a cut may also hit whoever syncs.
const ATTEMPTS: usize = 5;
/// More than any of the commands sends.
const ALL: usize = 100_000;

/// Ways to servers that break off, all of them, when so much more was sent.
struct Wires {
    /// How many pieces may still be sent.
    left: AtomicUsize,
    /// Whether the piece that is one too many still arrives, and its answer is what is lost.
    is_answer: AtomicUsize,
    cuts: watch::Sender<()>,
}

impl Wires {
    fn new() -> Arc<Wires> {
        Arc::new(Wires { left: ALL.into(), is_answer: 0.into(), cuts: watch::Sender::new(()) })
    }

    /// The way to a server.
    async fn lead(self: &Arc<Self>, target: SocketAddr) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let wires = self.clone();
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let wires = wires.clone();
                tokio::spawn(async move {
                    let Ok(server) = TcpStream::connect(target).await else { return };
                    wires.carry(client, server).await;
                });
            }
        });
        address
    }

    async fn carry(&self, client: TcpStream, server: TcpStream) {
        let mut cut = self.cuts.subscribe();
        let (mut from_client, mut to_client) = client.into_split();
        let (mut from_server, mut to_server) = server.into_split();
        let up = async {
            let mut piece = vec![0; 64 << 10];
            loop {
                let length = from_client.read(&mut piece).await.unwrap_or(0);
                if length == 0 {
                    return;
                }
                let left = self.left.fetch_sub(1, Ordering::Relaxed);
                let is_last = left == 1;
                if is_last {
                    self.left.store(ALL, Ordering::Relaxed);
                }
                if is_last && self.is_answer.load(Ordering::Relaxed) == 0 {
                    self.cuts.send_replace(());
                    return;
                }
                let sent = to_server.write_all(&piece[..length]).await;
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

    /// From now on, so many pieces are sent; then everything breaks off once.
    fn cut_after(&self, pieces: usize, is_answer: bool) {
        self.is_answer.store(is_answer.into(), Ordering::Relaxed);
        self.left.store(pieces, Ordering::Relaxed);
    }

    /// How many were sent since all were allowed.
    fn sent(&self) -> usize {
        ALL - self.left.swap(ALL, Ordering::Relaxed)
    }
}

/// A kubeconfig that leads over wires.
async fn led(wires: &Arc<Wires>, kubeconfig: &Path, directory: &Path, name: &str) -> PathBuf {
    let text = std::fs::read_to_string(kubeconfig).unwrap();
    let (_, behind) = text.split_once("https://").unwrap();
    let end = behind.find(|letter: char| !letter.is_ascii_digit() && !".:".contains(letter)).unwrap();
    let target: SocketAddr = behind[..end].parse().unwrap();
    let address = wires.lead(target).await;
    let path = directory.join(name);
    std::fs::write(&path, text.replace(&target.to_string(), &address.to_string())).unwrap();
    path
}

#[tokio::test(flavor = "multi_thread")]
async fn whatever_breaks_off_goes_on_with_the_same_command() {
    let (world, east) = (World { above: Atoll::start() }, cluster());
    let (admin, below) = (world.admin(), east.admin());
    let directory = tempfile::tempdir().unwrap();
    let wires = Wires::new();
    let above = led(&wires, &world.above.admin_kubeconfig(), directory.path(), "above").await;
    let kubeconfig = led(&wires, &east.kubeconfig(), directory.path(), "east").await;
    let run = async |line: String| {
        let mut command = atoll(&line.split(' ').collect::<Vec<_>>());
        command.env("KUBECONFIG", &above).stdin(Stdio::null());
        tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap()
    };
    below.post(CONFIG_MAPS, config_map_with("foreign", "1")).await.expect(201);
    admin.post(CONFIG_MAPS, config_map_with("a", "1")).await.expect(201);

    let join = joining("east", &kubeconfig, "");
    let remove = "cluster remove east --yes".to_string();
    let stride = if std::env::var_os("ATOLL_EVERY_STEP").is_some() { 1 } else { 3 };
    let mut step = 0;
    // How much each of them sends is seen when nothing breaks off, at the beginning.
    let (mut joins, mut removals) = (0, 0);
    loop {
        if step > 0 {
            wires.cut_after(step, step / stride % 2 == 0);
            run(join.clone()).await;
        }
        wires.sent();
        let mut output = run(join.clone()).await;
        for _ in 0..ATTEMPTS {
            if output.status.success() {
                break;
            }
            output = run(join.clone()).await;
        }
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "after step {step}: {said}");
        joins = joins.max(if step == 0 { wires.sent() } else { 0 });
        let known = admin.get(CLUSTERS).await.expect(200);
        assert_eq!(known["items"].as_array().map(Vec::len), Some(1), "{known}");

        let placed = run("place cm/a --on east".to_string()).await;
        assert!(placed.status.success(), "{}", String::from_utf8_lossy(&placed.stderr));
        eventually("it has arrived", async || below.get(&config_map("a")).await.status == 200).await;

        wires.sent();
        if step > 0 {
            wires.cut_after(step, step / stride % 2 == 1);
        }
        let mut output = run(remove.clone()).await;
        removals = removals.max(if step == 0 { wires.sent() } else { 0 });
        for _ in 0..ATTEMPTS {
            let is_known = admin.get(&format!("{CLUSTERS}/east")).await.status == 200;
            let is_left = admin.get(&secret("east")).await.status == 200;
            if output.status.success() || !is_known && !is_left {
                break;
            }
            output = run(remove.clone()).await;
        }
        wires.sent();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(admin.get(&format!("{CLUSTERS}/east")).await.status, 404, "after step {step}: {said}");
        assert_eq!(admin.get(&secret("east")).await.status, 404, "after step {step}: {said}");
        assert_eq!(below.get(&config_map("a")).await.status, 404, "after step {step}");
        assert_eq!(below.get(&config_map("foreign")).await.status, 200, "after step {step}");
        let stays = admin.get(&config_map("a")).await.expect(200);
        assert_eq!(stays["metadata"]["annotations"]["atoll.dev/placement"], serde_json::Value::Null);
        eventually("the cluster is as it was", async || is_clean(&below).await).await;
        step += stride;
        if step > joins.max(removals) {
            break;
        }
    }
    assert!(joins > 5 && removals > 5, "{joins} {removals}");
}

//! Clients of the application: new connections, no retries, to the endpoints that the workspace shows.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use atoll_testkit::wait::eventually;
use atoll_testkit::{Client, Watch};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;

use crate::application::SLICES;

/// A request that takes longer has failed.
const TIMEOUT: Duration = Duration::from_secs(10);

#[derive(Default)]
struct Known {
    /// Ready endpoints by the name of their slice.
    ready: Mutex<HashMap<String, Vec<SocketAddr>>>,
    failures: Mutex<Vec<String>>,
    requests: AtomicUsize,
    /// The fewest available replicas, with the Deployment at that moment.
    fewest: Mutex<Option<(i64, String)>>,
    is_finished: AtomicBool,
}

pub struct Clients {
    known: Arc<Known>,
    tasks: Vec<JoinHandle<()>>,
    began: Instant,
    /// Requests a second.
    rate: u32,
    /// The number of replicas that must always be available.
    least: i64,
}

impl Clients {
    /// Starts sending so many requests a second, and follows the number of available replicas, once enough of them are.
    pub async fn start(admin: &Client, deployment: &str, rate: u32, least: i64) -> Clients {
        // Endpoints may be known before the status of the Deployment is written.
        eventually("enough replicas are available", async || {
            let web = admin.get(deployment).await.expect(200);
            web["status"]["availableReplicas"].as_i64().unwrap_or(0) >= least
        })
        .await;
        let (known, began) = (Arc::new(Known::default()), Instant::now());
        let slices = admin.get(SLICES).await.expect(200);
        for slice in slices["items"].as_array().unwrap() {
            known.set(slice);
        }
        let revision = slices["metadata"]["resourceVersion"].as_str().unwrap();
        let watch = Watch::open(admin, &format!("{SLICES}&watch=true&resourceVersion={revision}")).await;
        let tasks = vec![
            tokio::spawn(follow_slices(known.clone(), watch)),
            tokio::spawn(follow_replicas(known.clone(), admin.clone(), deployment.to_string())),
            tokio::spawn(send(known.clone(), began, Duration::from_secs(1) / rate)),
        ];
        Clients { known, tasks, began, rate, least }
    }

    /// Stops, and checks that no request has failed.
    pub async fn finish(self, meanwhile: &str) {
        self.known.is_finished.store(true, Ordering::Relaxed);
        let elapsed = self.began.elapsed();
        let [slices, replicas, sending] = <[JoinHandle<()>; 3]>::try_from(self.tasks).unwrap();
        sending.await.unwrap();
        slices.abort();
        replicas.await.unwrap();
        let requests = self.known.requests.load(Ordering::Relaxed);
        let (fewest, then) = self.known.fewest.lock().unwrap().clone().unwrap();
        let failures = self.known.failures.lock().unwrap().clone();
        println!(
            "{requests} requests in {elapsed:?} while {meanwhile}, at least {fewest} replicas available"
        );
        assert!(failures.is_empty(), "{} requests failed while {meanwhile}: {failures:#?}", failures.len());
        assert!(fewest >= self.least, "{fewest} replicas were available while {meanwhile}: {then}");
        // The rate was kept, as far as a busy machine allows it.
        let expected = u64::from(self.rate) * elapsed.as_secs() * 9 / 10;
        assert!(requests as u64 >= expected, "{requests} in {elapsed:?}");
    }
}

impl Known {
    fn set(&self, slice: &Value) {
        let name = slice["metadata"]["name"].as_str().unwrap().to_string();
        let port = u16::try_from(slice["ports"][0]["port"].as_u64().unwrap()).unwrap();
        let endpoints = slice["endpoints"].as_array().unwrap().iter();
        let ready = endpoints.filter(|endpoint| endpoint["conditions"]["ready"] == true);
        let ready = ready.map(|endpoint| {
            SocketAddr::new(endpoint["addresses"][0].as_str().unwrap().parse().unwrap(), port)
        });
        self.ready.lock().unwrap().insert(name, ready.collect());
    }

    fn pick(&self, number: usize) -> Option<SocketAddr> {
        let ready = self.ready.lock().unwrap();
        let mut all: Vec<SocketAddr> = ready.values().flatten().copied().collect();
        all.sort();
        let place = number.checked_rem(all.len())?;
        Some(all[place])
    }
}

async fn follow_slices(known: Arc<Known>, mut watch: Watch) {
    loop {
        let event = watch.event().await;
        match event.kind.as_str() {
            "DELETED" => drop(known.ready.lock().unwrap().remove(event.name())),
            "ADDED" | "MODIFIED" => known.set(&event.object),
            kind => panic!("unexpected event {kind} {}", event.object),
        }
    }
}

async fn follow_replicas(known: Arc<Known>, admin: Client, deployment: String) {
    let mut ticks = tokio::time::interval(Duration::from_millis(50));
    while !known.is_finished.load(Ordering::Relaxed) {
        ticks.tick().await;
        let web = admin.get(&deployment).await.expect(200);
        let available = web["status"]["availableReplicas"].as_i64().unwrap_or(0);
        {
            let mut fewest = known.fewest.lock().unwrap();
            if fewest.as_ref().is_none_or(|(fewest, _)| available < *fewest) {
                *fewest = Some((available, format!("{} {}", web["metadata"]["annotations"], web["status"])));
            }
        }
    }
}

async fn send(known: Arc<Known>, began: Instant, interval: Duration) {
    // Ticks that were missed are made up for.
    let mut ticks = tokio::time::interval(interval);
    let mut sent = tokio::task::JoinSet::new();
    let mut number = 0;
    while !known.is_finished.load(Ordering::Relaxed) {
        ticks.tick().await;
        number += 1;
        let (known, address) = (known.clone(), known.pick(number));
        sent.spawn(async move {
            let at = began.elapsed();
            let outcome = match address {
                Some(address) => match tokio::time::timeout(TIMEOUT, request(address)).await {
                    Ok(outcome) => outcome.map_err(|error| format!("{address}: {error}")),
                    Err(_) => Err(format!("{address}: no response")),
                },
                None => Err("no endpoint is ready".to_string()),
            };
            known.requests.fetch_add(1, Ordering::Relaxed);
            if let Err(failure) = outcome {
                known.failures.lock().unwrap().push(format!("after {at:?}, {failure}"));
            }
        });
        while sent.try_join_next().is_some() {}
    }
    while sent.join_next().await.is_some() {}
}

async fn request(address: SocketAddr) -> Result<(), String> {
    let exchange = async {
        let mut stream = TcpStream::connect(address).await?;
        stream.write_all(b"GET / HTTP/1.0\r\n\r\n").await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        Ok::<String, std::io::Error>(answer)
    };
    let answer = exchange.await.map_err(|error| error.to_string())?;
    let is_complete = answer.starts_with("HTTP/1.") && answer.contains(" 200 ") && answer.ends_with("web\n");
    if is_complete { Ok(()) } else { Err(format!("{answer:?}")) }
}

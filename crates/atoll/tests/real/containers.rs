//! Containers of an application in a cluster.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use atoll_testkit::RealCluster;
use atoll_testkit::wait::eventually;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::application::Site;

/// Returns all containers of an application by Pod, with ids and restart counts. Those that are not completed
/// must be running.
pub async fn running_containers(site: &Site<'_>) -> BTreeMap<String, Vec<(String, i64)>> {
    let pods = site.below.get(&site.collection("pods")).await.expect(200);
    let pods = pods["items"].as_array().unwrap().iter();
    pods.map(|pod| {
        let containers = pod["status"]["containerStatuses"].as_array().unwrap().iter().map(|container| {
            let is_done = pod["status"]["phase"] == "Succeeded";
            assert!(is_done || container["state"]["running"].is_object(), "{container}");
            let id = container["containerID"].as_str().unwrap().to_string();
            (id, container["restartCount"].as_i64().unwrap())
        });
        let name = pod["metadata"]["name"].as_str().unwrap();
        (format!("{name} {}", pod["metadata"]["uid"]), containers.collect())
    })
    .collect()
}

/// Waits until the application responds through its Service, from a Pod of its Deployment.
pub async fn wait_until_reachable(site: &Site<'_>, cluster: &RealCluster) {
    let service = site.below.get(&site.path("services/web")).await.expect(200);
    let port = service["spec"]["ports"][0]["nodePort"].as_u64().unwrap();
    let node = cluster.url().strip_prefix("https://").and_then(|url| url.rsplit_once(':')).unwrap().0;
    let address: SocketAddr = format!("{node}:{port}").parse().unwrap();
    eventually("the Service answers", async || {
        request(address)
            .await
            .is_ok_and(|answer| answer.trim_end().lines().last().is_some_and(is_of_deployment))
    })
    .await;
}

fn is_of_deployment(name: &str) -> bool {
    name.starts_with("web-")
}

async fn request(address: SocketAddr) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(address).await?;
    stream.write_all(b"GET /cgi-bin/name HTTP/1.0\r\n\r\n").await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    Ok(answer)
}

//! Pages that Pods return through the proxy are streamed and do not accumulate in the server's memory.

use std::io::Write;
use std::net::{IpAddr, UdpSocket};

use atoll_testkit::Setup;
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::support::raw::Raw;

const PODS: &str = "/api/v1/namespaces/default/pods";
const PARAGRAPH: &str = "<p class=\"a\">text</p>\n";
/// More than any limit for bodies that are read completely.
const PARAGRAPHS: usize = (40 << 20) / PARAGRAPH.len();
const LINK: &str = "<a href=\"/next\">";
/// The number of clients that read only the head of a response.
const READERS: usize = 8;
/// The most memory that the server may use for all of them.
const MEMORY: u64 = 64 << 20;

/// Returns a local address that is not loopback, because the server does not connect to Pods there. No packet
/// is sent.
pub fn own_address() -> Option<IpAddr> {
    let socket = UdpSocket::bind("0.0.0.0:0").ok()?;
    // An address for documentation, routed like any other.
    socket.connect("192.0.2.99:9").ok()?;
    socket.local_addr().ok().map(|address| address.ip()).filter(|address| !address.is_loopback())
}

fn gzipped_page() -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    for _ in 0..PARAGRAPHS {
        encoder.write_all(PARAGRAPH.as_bytes()).unwrap();
    }
    encoder.write_all(LINK.as_bytes()).unwrap();
    encoder.finish().unwrap()
}

/// Answers each request with a page, compressed if the path says so, as fast as the client reads.
async fn serve(listener: TcpListener) {
    let zipped = std::sync::Arc::new(gzipped_page());
    while let Ok((stream, _)) = listener.accept().await {
        tokio::spawn(answer(stream, zipped.clone()));
    }
}

async fn answer(mut stream: TcpStream, zipped: std::sync::Arc<Vec<u8>>) -> std::io::Result<()> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await?);
    }
    let head = String::from_utf8_lossy(&head).into_owned();
    let lines = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nConnection: close\r\n";
    if head.starts_with("GET /zipped") {
        let length = zipped.len();
        let lines = format!("{lines}Content-Encoding: gzip\r\nContent-Length: {length}\r\n\r\n");
        stream.write_all(lines.as_bytes()).await?;
        return stream.write_all(&zipped).await;
    }
    let length = PARAGRAPHS * PARAGRAPH.len() + LINK.len();
    stream.write_all(format!("{lines}Content-Length: {length}\r\n\r\n").as_bytes()).await?;
    let many = PARAGRAPH.repeat(1000);
    for _ in 0..PARAGRAPHS / 1000 {
        stream.write_all(many.as_bytes()).await?;
    }
    stream.write_all(PARAGRAPH.repeat(PARAGRAPHS % 1000).as_bytes()).await?;
    stream.write_all(LINK.as_bytes()).await
}

#[tokio::test(flavor = "multi_thread")]
async fn proxied_pages_do_not_accumulate_in_memory() {
    let Some(address) = own_address() else {
        println!("skipped: this machine has no address but loopback");
        return;
    };
    let listener = TcpListener::bind((address, 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(serve(listener));
    let atoll = Setup::new().idle().flag("--disable-admission-plugins", "ServiceAccount").start();
    let admin = atoll.admin();
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "web" },
        "spec": { "containers": [{ "name": "main", "image": "x" }] },
    });
    admin.post(PODS, pod).await.expect(201);
    let status =
        json!({ "status": { "podIP": address.to_string(), "podIPs": [{ "ip": address.to_string() }] } });
    admin.merge(&format!("{PODS}/web/status"), status).await.expect(200);
    let proxy = format!("{PODS}/web:{port}/proxy");
    let link = format!("<a href=\"{proxy}/next\">");
    let before = atoll.resident();
    for path in ["plain", "zipped"] {
        let mut readers = Vec::new();
        for _ in 0..READERS {
            let mut raw = Raw::open(&admin).await;
            let head = raw.head("GET", &format!("{proxy}/{path}"), "Connection: close\r\n");
            raw.send(head).await.unwrap();
            let answer = raw.answer().await.unwrap();
            assert_eq!(answer.status, 200, "{}", answer.text);
            readers.push(raw);
        }
        // One client reads the rest: its page is complete, and its links lead through the proxy.
        let rest = readers.pop().unwrap().rest().await;
        let page = decompressed(path == "zipped", &dechunked(&rest));
        assert_eq!(page.len(), PARAGRAPHS * PARAGRAPH.len() + link.len(), "{path}");
        assert!(page.ends_with(link.as_bytes()), "{path}");
        let more = atoll.resident().saturating_sub(before);
        assert!(more < MEMORY, "{path}: {} MiB more in use for pages", more >> 20);
    }
}

fn decompressed(is_gzipped: bool, body: &[u8]) -> Vec<u8> {
    let mut page = Vec::new();
    match is_gzipped {
        true => std::io::Read::read_to_end(&mut GzDecoder::new(body), &mut page).unwrap(),
        false => std::io::Read::read_to_end(&mut &*body, &mut page).unwrap(),
    };
    page
}

/// Decodes a chunked body.
fn dechunked(mut body: &[u8]) -> Vec<u8> {
    let mut content = Vec::new();
    loop {
        let end = body.windows(2).position(|window| window == b"\r\n").unwrap();
        let length = usize::from_str_radix(std::str::from_utf8(&body[..end]).unwrap(), 16).unwrap();
        if length == 0 {
            return content;
        }
        content.extend_from_slice(&body[end + 2..end + 2 + length]);
        body = &body[end + 2 + length + 2..];
    }
}

//! Connections that violate the protocol or are too slow.

use std::time::Duration;

use atoll_testkit::wait::within;
use atoll_testkit::{Atoll, Setup};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::health_check::HealthCheck;
use crate::support::raw::Raw;

/// The time that a client may take for its headers in these tests: enough for correct clients on a busy
/// machine.
const HEADER_TIMEOUT: Duration = Duration::from_secs(10);

fn with_short_header_timeout() -> Atoll {
    Setup::new().flag("--controllers", false).flag("--header-timeout", HEADER_TIMEOUT.as_secs()).start()
}

#[tokio::test(flavor = "multi_thread")]
async fn too_many_and_too_large_headers_are_rejected() {
    let atoll = Atoll::start_bare();
    let health_check = HealthCheck::before(&atoll).await;
    let admin = atoll.admin();
    let many: String = (0..5000).map(|number| format!("X-Header-{number}: x\r\n")).collect();
    let large = format!("X-Header: {}\r\n", "x".repeat(1 << 20));
    for lines in [many, large] {
        let mut raw = Raw::open(&admin).await;
        let head = raw.head("GET", "/readyz", &lines);
        // The server may respond before it has read the whole head.
        let _ = raw.send(head).await;
        assert_eq!(raw.answer().await.unwrap().status, 431);
        raw.rest().await;
    }
    // Headers of a usual browser or proxy are accepted.
    let mut raw = Raw::open(&admin).await;
    let some: String = (0..60).map(|number| format!("X-Header-{number}: {}\r\n", "x".repeat(200))).collect();
    let head = raw.head("GET", "/readyz", &some);
    raw.send(head).await.unwrap();
    assert_eq!(raw.answer().await.unwrap().status, 200);
    drop(raw);
    health_check.after().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn slow_clients_are_disconnected() {
    let atoll = with_short_header_timeout();
    let health_check = HealthCheck::before(&atoll).await;
    let mut trickling = tokio::task::JoinSet::new();
    for number in 0..40 {
        let admin = atoll.admin();
        trickling.spawn(async move {
            match number % 4 {
                // Bytes that are not a TLS handshake yet.
                0 => {
                    let mut stream = TcpStream::connect(admin.authority()).await.unwrap();
                    trickle(&mut stream, b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03").await;
                }
                // A handshake, and then nothing.
                1 => {
                    Raw::open(&admin).await.rest().await;
                }
                // The beginning of an HTTP/2 preface.
                2 => {
                    let mut raw = Raw::open(&admin).await;
                    trickle(&mut raw.stream, b"PRI").await;
                }
                // Endless headers.
                _ => {
                    let mut raw = Raw::open(&admin).await;
                    raw.send("GET /readyz HTTP/1.1\r\n").await.unwrap();
                    trickle(&mut raw.stream, b"X-A: b\r\n").await;
                }
            }
        });
    }
    within("all slow clients are disconnected", trickling.join_all()).await;
    health_check.after().await;
}

/// Sends `bytes` one at a time, repeatedly, until the peer closes.
async fn trickle(stream: &mut (impl AsyncReadExt + AsyncWriteExt + Unpin), bytes: &[u8]) {
    let mut answer = [0; 1024];
    let mut next = bytes.iter().cycle();
    let mut pace = tokio::time::interval(HEADER_TIMEOUT / 10);
    loop {
        tokio::select! {
            read = stream.read(&mut answer) => match read {
                Ok(0) | Err(_) => return,
                Ok(_) => {}
            },
            _ = pace.tick() => {
                let byte = next.next().copied().unwrap_or_default();
                if stream.write_all(&[byte]).await.is_err() || stream.flush().await.is_err() {
                    return;
                }
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn idle_connection_outlives_the_header_timeout() {
    let atoll = with_short_header_timeout();
    let mut raw = Raw::open(&atoll.admin()).await;
    let head = raw.head("GET", "/readyz", "");
    raw.send(&head).await.unwrap();
    assert_eq!(raw.answer().await.unwrap().status, 200);
    // Clients keep idle connections. Closing one costs the client a failed request.
    let idle = tokio::time::timeout(HEADER_TIMEOUT * 2, raw.rest()).await;
    assert!(idle.is_err(), "closed while the connection was idle");
}

#[tokio::test(flavor = "multi_thread")]
async fn half_closed_connections_are_closed() {
    let atoll = with_short_header_timeout();
    let health_check = HealthCheck::before(&atoll).await;
    let admin = atoll.admin();
    for _ in 0..10 {
        // After a complete request, with a TLS close notification.
        let mut raw = Raw::open(&admin).await;
        let head = raw.head("GET", "/readyz", "");
        raw.send(head).await.unwrap();
        raw.stream.shutdown().await.unwrap();
        raw.rest().await;

        // In the middle of a body.
        let mut raw = Raw::open(&admin).await;
        let head = raw.head("POST", "/api/v1/namespaces", "Content-Length: 100\r\n");
        raw.send(head).await.unwrap();
        raw.stream.shutdown().await.unwrap();
        raw.rest().await;

        // In the middle of headers, without a TLS close notification.
        let mut raw = Raw::open(&admin).await;
        raw.send("GET /readyz HTTP/1.1\r\nHost").await.unwrap();
        raw.stream.get_mut().0.shutdown().await.unwrap();
        raw.rest().await;

        // In the middle of a handshake.
        let mut stream = TcpStream::connect(admin.authority()).await.unwrap();
        stream.write_all(b"\x16\x03\x01\x02\x00\x01").await.unwrap();
        stream.shutdown().await.unwrap();
        let mut rest = Vec::new();
        let _ = within("the server closes too", stream.read_to_end(&mut rest)).await;

        // During a watch.
        let mut raw = Raw::open(&admin).await;
        let head = raw.head("GET", "/api/v1/namespaces?watch=1", "");
        raw.send(head).await.unwrap();
        assert_eq!(raw.answer().await.unwrap().status, 200);
        raw.stream.get_mut().0.shutdown().await.unwrap();
        raw.rest().await;
    }
    health_check.after().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn other_protocols_are_rejected() {
    let atoll = with_short_header_timeout();
    let health_check = HealthCheck::before(&atoll).await;
    let address = atoll.address;
    let mut noise = 0x9e37_79b9_u32;
    let mut garbage = || -> Vec<u8> {
        std::iter::repeat_with(|| {
            noise ^= noise << 13;
            noise ^= noise >> 17;
            noise ^= noise << 5;
            noise as u8
        })
        .take(4096)
        .collect()
    };
    let mut openings =
        vec![b"SSH-2.0-OpenSSH_9.0\r\n".to_vec(), vec![0; 4096], b"\x16\x03\x01\xff\xff".repeat(800)];
    openings.extend(std::iter::repeat_with(&mut garbage).take(50));
    for opening in &openings {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let _ = stream.write_all(opening).await;
        let mut rest = Vec::new();
        let _ = within("the server closes the connection", stream.read_to_end(&mut rest)).await;
    }
    // A client that uses http instead of https gets a clear error.
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(b"GET /readyz HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
    let mut rest = Vec::new();
    let _ = within("the server closes the connection", stream.read_to_end(&mut rest)).await;
    let response = String::from_utf8_lossy(&rest);
    assert!(response.starts_with("HTTP/1.0 400 Bad Request\r\n"), "{response:?}");
    assert!(response.ends_with("Client sent an HTTP request to an HTTPS server.\n"), "{response:?}");

    // The same inside TLS.
    let admin = atoll.admin();
    for opening in &openings {
        let mut raw = Raw::open(&admin).await;
        let _ = raw.send(opening).await;
        raw.rest().await;
        let mut raw = Raw::open_with_protocol(&admin, "h2").await;
        let _ = raw.send(opening).await;
        raw.rest().await;
    }
    health_check.after().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pipelined_requests_are_answered_in_order() {
    let atoll = Atoll::start_bare();
    let health_check = HealthCheck::before(&atoll).await;
    let mut raw = Raw::open(&atoll.admin()).await;
    let mut requests = String::new();
    for number in 0..200 {
        requests.push_str(&raw.head("HEAD", "/readyz", &format!("Audit-ID: number-{number}\r\n")));
    }
    raw.send(requests).await.unwrap();
    for number in 0..200 {
        let head = raw.answer().await.unwrap();
        assert_eq!(head.status, 200);
        assert!(head.text.contains(&format!("audit-id: number-{number}\r\n")), "{}", head.text);
    }
    drop(raw);
    health_check.after().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn request_smuggling_is_rejected() {
    let atoll = Atoll::start_bare();
    let admin = atoll.admin();
    let hidden = "GET /api/v1/namespaces/default HTTP/1.1\r\nHost: x\r\n\r\n";
    for lines in [
        format!("Content-Length: 4\r\nContent-Length: {}\r\n", hidden.len()),
        "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n".to_string(),
        "Transfer-Encoding: xchunked\r\n".to_string(),
        "Content-Length: +4\r\n".to_string(),
    ] {
        let mut raw = Raw::open(&admin).await;
        let request = raw.head("POST", "/api/v1/namespaces", &lines) + "0\r\n\r\n" + hidden;
        let _ = raw.send(request).await;
        let answers = String::from_utf8_lossy(&raw.rest().await).into_owned();
        assert!(!answers.contains("\"kind\":\"Namespace\""), "{lines:?} let a request through: {answers}");
    }
}

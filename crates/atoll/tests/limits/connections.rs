//! Connections that are not what they should be.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::unharmed::Unharmed;
use crate::support::process::{Atoll, Setup};
use crate::support::raw::Raw;
use crate::support::within;

/// How long a client may take over its headers in these tests.
const HEADER_TIMEOUT: Duration = Duration::from_secs(2);

fn impatient() -> Atoll {
    Setup::new().flag("--controllers", false).flag("--header-timeout", HEADER_TIMEOUT.as_secs()).start()
}

#[tokio::test(flavor = "multi_thread")]
async fn too_many_and_too_large_headers_are_refused() {
    let atoll = Atoll::start_bare();
    let unharmed = Unharmed::before(&atoll).await;
    let admin = atoll.admin();
    let many: String = (0..5000).map(|number| format!("X-Header-{number}: x\r\n")).collect();
    let large = format!("X-Header: {}\r\n", "x".repeat(1 << 20));
    for lines in [many, large] {
        let mut raw = Raw::open(&admin).await;
        let head = raw.head("GET", "/readyz", &lines);
        // It may answer before it has read it all.
        let _ = raw.send(head).await;
        assert_eq!(raw.answer().await.unwrap().status, 431);
        raw.rest().await;
    }
    // What a browser or a proxy sends is fine.
    let mut raw = Raw::open(&admin).await;
    let some: String = (0..60).map(|number| format!("X-Header-{number}: {}\r\n", "x".repeat(200))).collect();
    let head = raw.head("GET", "/readyz", &some);
    raw.send(head).await.unwrap();
    assert_eq!(raw.answer().await.unwrap().status, 200);
    drop(raw);
    unharmed.after().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_that_trickle_are_cut_off() {
    let atoll = impatient();
    let unharmed = Unharmed::before(&atoll).await;
    let mut trickling = tokio::task::JoinSet::new();
    for number in 0..40 {
        let admin = atoll.admin();
        trickling.spawn(async move {
            match number % 4 {
                // Bytes that are no TLS handshake yet.
                0 => {
                    let mut stream = TcpStream::connect(admin.authority()).await.unwrap();
                    trickle(&mut stream, b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03").await;
                }
                // A handshake, and then nothing at all.
                1 => {
                    Raw::open(&admin).await.rest().await;
                }
                // The beginning of what may become HTTP/2.
                2 => {
                    let mut raw = Raw::open(&admin).await;
                    trickle(&mut raw.stream, b"PRI").await;
                }
                // Headers without an end.
                _ => {
                    let mut raw = Raw::open(&admin).await;
                    raw.send("GET /readyz HTTP/1.1\r\n").await.unwrap();
                    trickle(&mut raw.stream, b"X-A: b\r\n").await;
                }
            }
        });
    }
    within("all of them are cut off", trickling.join_all()).await;
    unharmed.after().await;
}

/// Sends `bytes` one at a time, over and over, until the other side has closed.
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
async fn a_connection_that_was_used_may_rest_for_longer_than_headers_may_take() {
    let atoll = impatient();
    let mut raw = Raw::open(&atoll.admin()).await;
    let head = raw.head("GET", "/readyz", "");
    raw.send(&head).await.unwrap();
    assert_eq!(raw.answer().await.unwrap().status, 200);
    // Clients keep connections for a while; one that is closed under them costs them a failed request.
    let resting = tokio::time::timeout(HEADER_TIMEOUT * 2, raw.rest()).await;
    assert!(resting.is_err(), "closed while the client was resting");
}

#[tokio::test(flavor = "multi_thread")]
async fn half_closed_connections_end() {
    let atoll = impatient();
    let unharmed = Unharmed::before(&atoll).await;
    let admin = atoll.admin();
    for _ in 0..10 {
        // After a whole request, as TLS has it.
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

        // In the middle of headers, without a word from TLS.
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

        // While it is watching.
        let mut raw = Raw::open(&admin).await;
        let head = raw.head("GET", "/api/v1/namespaces?watch=1", "");
        raw.send(head).await.unwrap();
        assert_eq!(raw.answer().await.unwrap().status, 200);
        raw.stream.get_mut().0.shutdown().await.unwrap();
        raw.rest().await;
    }
    unharmed.after().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn other_protocols_on_the_port_are_turned_away() {
    let atoll = impatient();
    let unharmed = Unharmed::before(&atoll).await;
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
    // Someone who forgot the s in https is told so.
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(b"GET /readyz HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
    let mut rest = Vec::new();
    let _ = within("the server closes the connection", stream.read_to_end(&mut rest)).await;
    let told = String::from_utf8_lossy(&rest);
    assert!(told.starts_with("HTTP/1.0 400 Bad Request\r\n"), "{told:?}");
    assert!(told.ends_with("Client sent an HTTP request to an HTTPS server.\n"), "{told:?}");

    // The same inside TLS.
    let admin = atoll.admin();
    for opening in &openings {
        let mut raw = Raw::open(&admin).await;
        let _ = raw.send(opening).await;
        raw.rest().await;
        let mut raw = Raw::speaking(&admin, "h2").await;
        let _ = raw.send(opening).await;
        raw.rest().await;
    }
    unharmed.after().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pipelined_requests_are_answered_in_order() {
    let atoll = Atoll::start_bare();
    let unharmed = Unharmed::before(&atoll).await;
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
    unharmed.after().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_cannot_smuggle_a_second_request() {
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

//! SPDY connections, between well-behaved and misbehaving peers.

// Clippy recognizes only functions marked as tests as test code.
#![allow(clippy::unwrap_used)]

use std::time::Duration;

use atoll_streams::spdy::{Connection, Frame, HEAD, Head, Headers, Packer, Role, Unpacker, reset};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};

fn pair() -> (Connection, Connection) {
    let (client, server) = tokio::io::duplex(64 << 10);
    (Connection::new(client, Role::Client), Connection::new(server, Role::Server))
}

#[tokio::test]
async fn streams_are_bidirectional_and_close_individually() {
    let (client, mut server) = pair();
    let opened = tokio::spawn(async move {
        let mut stream = server.next().await.unwrap();
        assert_eq!(stream.headers.get("streamType"), Some("data"));
        let asked = stream.input.read_to_end(1 << 20).await;
        stream.output.write(asked).await.unwrap();
        stream.output.close();
        server
    });
    let mut stream = client.open(Headers::new([("streamType", "data")])).await.unwrap();
    let sent: Vec<u8> = (0..300_000_u32).map(|number| number as u8).collect();
    stream.output.write(sent.clone()).await.unwrap();
    stream.output.close();
    assert_eq!(stream.input.read_to_end(1 << 20).await, sent);
    let server = opened.await.unwrap();
    tokio::join!(server.close(), client.closed());
    assert!(client.open(Headers::default()).await.is_err());
}

#[tokio::test]
async fn a_reset_ends_only_its_stream() {
    let (client, mut server) = pair();
    let mut one = client.open(Headers::default()).await.unwrap();
    let mut other = client.open(Headers::default()).await.unwrap();
    let (server_stream, mut other_server_stream) =
        (server.next().await.unwrap(), server.next().await.unwrap());
    server_stream.output.reset();
    assert_eq!(one.input.next().await, None);
    one.output.closed_by_peer().await;
    assert!(one.output.write("more").await.is_err());
    other.output.write("still here").await.unwrap();
    assert_eq!(other_server_stream.input.next().await.unwrap(), "still here");
}

#[tokio::test]
async fn a_dropped_input_does_not_block_other_streams() {
    let (client, mut server) = pair();
    let mut ignored = client.open(Headers::default()).await.unwrap();
    let mut read = client.open(Headers::default()).await.unwrap();
    drop(server.next().await.unwrap().input);
    let mut wanted = server.next().await.unwrap();
    ignored.output.write(vec![0; 4 << 20]).await.unwrap();
    read.output.write("through").await.unwrap();
    assert_eq!(wanted.input.next().await.unwrap(), "through");
}

#[tokio::test]
async fn a_closed_connection_ends_all_streams() {
    let (client, mut server) = pair();
    let mut stream = client.open(Headers::default()).await.unwrap();
    let mut server_stream = server.next().await.unwrap();
    drop(client);
    assert_eq!(server_stream.input.next().await, None);
    server.closed().await;
    assert!(server.next().await.is_none());
    assert!(stream.output.write("lost").await.is_err());
}

/// A peer that sends frames directly.
struct Peer {
    stream: DuplexStream,
    packer: Packer,
    unpacker: Unpacker,
}

impl Peer {
    async fn send(&mut self, frame: Frame) {
        let mut bytes = Vec::new();
        frame.encode(&mut self.packer, &mut bytes);
        self.stream.write_all(&bytes).await.unwrap();
    }

    async fn receive(&mut self) -> Frame {
        let mut head = [0; HEAD];
        self.stream.read_exact(&mut head).await.unwrap();
        match Head::parse(head).unwrap() {
            Head::Data { stream, fin, length } => {
                let mut bytes = vec![0; length];
                self.stream.read_exact(&mut bytes).await.unwrap();
                Frame::Data { stream, fin, bytes: bytes.into() }
            }
            Head::Control { kind, flags, length } => {
                let mut bytes = vec![0; length];
                self.stream.read_exact(&mut bytes).await.unwrap();
                Frame::control(kind, flags, &bytes, &mut self.unpacker).unwrap()
            }
        }
    }
}

fn manual_peer() -> (Peer, Connection) {
    let (stream, server) = tokio::io::duplex(64 << 10);
    let peer = Peer { stream, packer: Packer::default(), unpacker: Unpacker::default() };
    (peer, Connection::new(server, Role::Server))
}

#[tokio::test]
async fn frames_get_the_expected_replies() {
    let (mut peer, mut server) = manual_peer();
    let open = |stream, fin| Frame::SynStream { stream, fin, headers: Headers::default() };
    let reply = |stream| Frame::SynReply { stream, fin: false, headers: Headers::default() };
    let refused = |stream, status| Frame::RstStream { stream, status };
    let cases = [
        (open(3, false), Some(reply(3))),
        (open(3, false), Some(refused(3, reset::PROTOCOL_ERROR))),
        (open(1, false), Some(refused(1, reset::PROTOCOL_ERROR))),
        (open(4, false), Some(refused(4, reset::PROTOCOL_ERROR))),
        (Frame::Settings(vec![(4, 1)]), None),
        (Frame::WindowUpdate { stream: 3, delta: 10 }, None),
        (Frame::Data { stream: 99, fin: true, bytes: "lost".into() }, None),
        (Frame::RstStream { stream: 99, status: 5 }, None),
        (Frame::Ping(2), None),
        (Frame::Ping(7), Some(Frame::Ping(7))),
        (open(5, true), Some(reply(5))),
    ];
    for (frame, answer) in cases {
        peer.send(frame).await;
        if let Some(answer) = answer {
            assert_eq!(peer.receive().await, answer);
        }
    }
    let (third, mut fifth) = (server.next().await.unwrap(), server.next().await.unwrap());
    assert_eq!((third.id, fifth.id), (3, 5));
    assert_eq!(fifth.input.next().await, None);
    drop(third);
    assert_eq!(peer.receive().await, Frame::Data { stream: 3, fin: true, bytes: "".into() });
    peer.send(Frame::GoAway { last: 0, status: 0 }).await;
    server.closed().await;
}

#[tokio::test]
async fn too_many_streams_are_refused() {
    let (mut peer, mut server) = manual_peer();
    let mut held = Vec::new();
    for stream in (1..).step_by(2) {
        peer.send(Frame::SynStream { stream, fin: false, headers: Headers::default() }).await;
        match peer.receive().await {
            Frame::SynReply { .. } => held.push(server.next().await.unwrap()),
            Frame::RstStream { status, .. } => {
                assert_eq!((held.len(), status), (1024, reset::REFUSED_STREAM));
                return;
            }
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn malformed_bytes_end_the_connection() {
    let cases: [&[u8]; 5] = [
        b"\0\0\0\0\0\0\0\0",
        b"GET / HTTP/1.1\r\n",
        b"\x80\x02\0\x06\0\0\0\x04\0\0\0\x01",
        b"\x80\x03\0\x01\0\xff\xff\xff",
        b"\x80\x03\0\x01\0\0\0\x0e\0\0\0\x01\0\0\0\0\0\0junk",
    ];
    for bytes in cases {
        let (mut peer, server) = manual_peer();
        peer.stream.write_all(bytes).await.unwrap();
        peer.stream.shutdown().await.unwrap();
        server.closed().await;
    }
}

#[tokio::test(start_paused = true)]
async fn opening_a_stream_times_out() {
    let (stream, _silent) = tokio::io::duplex(64 << 10);
    let client = Connection::new(stream, Role::Client);
    let error = client.open(Headers::default()).await.unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::TimedOut);
    // Closing times out, too.
    tokio::time::timeout(Duration::from_secs(60), client.close()).await.unwrap();
}

#[test]
fn arbitrary_bytes_do_not_panic() {
    use atoll_streams::websocket;
    // A deterministic generator.
    let mut state = 7_u64;
    let mut next = move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as u8
    };
    for round in 0..20_000_u32 {
        let length = usize::from(next() % 64);
        let bytes: Vec<u8> = (0..length).map(|_| next()).collect();
        let kind = (round % 12) as u16;
        let _ = Frame::control(kind, next(), &bytes, &mut Unpacker::default());
        if let Some(head) = bytes.first_chunk() {
            let _ = Head::parse(*head);
        }
        for role in [websocket::Role::Client, websocket::Role::Server] {
            if let Ok(Some((_, used))) = websocket::Head::parse(&bytes, role) {
                assert!(used <= bytes.len());
            }
        }
    }
}

//! A response that an agent ends early is not taken for a whole one, whatever the reason of the reset.

// Clippy treats only functions marked as tests as test code.
#![allow(clippy::unwrap_used)]

use atoll_client::Transport;
use atoll_tunnel::{KeepAlive, Tunnel};
use bytes::Bytes;
use http::Request;
use http_body_util::BodyExt;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};

/// Types and flags of HTTP/2 frames.
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const END_STREAM: u8 = 1;
const ACK: u8 = 1;
const END_HEADERS: u8 = 4;
/// The first stream of a client.
const STREAM: u32 = 1;
/// Size of the preface that a client sends before its frames.
const PREFACE: usize = 24;
/// The header `:status: 200`.
const OK: &[u8] = &[0x88];

fn frame(kind: u8, flags: u8, stream: u32, contents: &[u8]) -> Vec<u8> {
    let size = u32::try_from(contents.len()).unwrap().to_be_bytes();
    let mut frame = vec![size[1], size[2], size[3], kind, flags];
    frame.extend(stream.to_be_bytes());
    frame.extend(contents);
    frame
}

/// Answers the first request with these frames, then reads until the other end closes the stream.
async fn answer(mut stream: DuplexStream, frames: Vec<Vec<u8>>) {
    stream.write_all(&frame(SETTINGS, 0, 0, &[])).await.unwrap();
    stream.read_exact(&mut [0; PREFACE]).await.unwrap();
    let mut head = [0; 9];
    while stream.read_exact(&mut head).await.is_ok() {
        let size = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        stream.read_exact(&mut vec![0; size as usize]).await.unwrap();
        match (head[3], head[4] & ACK) {
            (HEADERS, _) => stream.write_all(&frames.concat()).await.unwrap(),
            (SETTINGS, 0) => stream.write_all(&frame(SETTINGS, ACK, 0, &[])).await.unwrap(),
            _ => {}
        }
    }
}

#[tokio::test]
async fn responses_that_are_cut_off_end_with_an_error() {
    let reset = |reason: u8| frame(RST_STREAM, 0, STREAM, &[0, 0, 0, reason]);
    let data = |flags: u8| frame(DATA, flags, STREAM, b"half");
    for (rest, is_whole) in [
        (vec![data(END_STREAM)], true),
        (vec![data(END_STREAM), reset(0)], true),
        (vec![data(0), frame(DATA, END_STREAM, STREAM, &[])], true),
        // NO_ERROR, INTERNAL_ERROR and CANCEL.
        (vec![data(0), reset(0)], false),
        (vec![data(0), reset(2)], false),
        (vec![data(0), reset(8)], false),
        (vec![reset(0)], false),
    ] {
        let (above, below) = tokio::io::duplex(64 << 10);
        let shown = format!("{rest:?}");
        let frames = [vec![frame(HEADERS, END_HEADERS, STREAM, OK)], rest].concat();
        let agent = tokio::spawn(answer(below, frames));
        let (tunnel, driving) = Tunnel::start(above, "east", KeepAlive::default()).await.unwrap();
        let driving = tokio::spawn(driving);
        let request = Request::get("/api/v1/pods").body(Bytes::new()).unwrap();
        // The reset may be noticed before the headers are read.
        let whole = match tunnel.send(request).await {
            Ok(response) => response.into_body().collect().await.map(|body| body.to_bytes()),
            Err(error) => Err(error),
        };
        match is_whole {
            true => assert_eq!(whole.unwrap(), "half", "{shown}"),
            false => assert!(whole.is_err(), "{shown}: {whole:?}"),
        }
        driving.abort();
        agent.await.unwrap();
    }
}

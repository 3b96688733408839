//! Thousands of HTTP/2 frames that are cheap to send, written by hand because no regular client sends them.

use atoll_testkit::Atoll;

use super::health_check::HealthCheck;
use crate::support::raw::Raw;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const FLOOD: usize = 20_000;

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RESET: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const WINDOW_UPDATE: u8 = 8;
const CONTINUATION: u8 = 9;
const END_HEADERS: u8 = 4;
const END_STREAM: u8 = 1;

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let mut frame = length[1..].to_vec();
    frame.extend_from_slice(&[kind, flags]);
    frame.extend_from_slice(&stream.to_be_bytes());
    frame.extend_from_slice(payload);
    frame
}

/// `GET /` in terms of HPACK's static table, and an authority.
const REQUEST: &[u8] = b"\x82\x84\x87\x41\x01x";

/// Returns the id of a client's stream.
fn stream(number: usize) -> u32 {
    u32::try_from(number * 2 + 1).unwrap()
}

/// Returns the frames of one iteration.
type Frames = Box<dyn Fn(usize) -> Vec<u8>>;

#[tokio::test(flavor = "multi_thread")]
async fn frame_floods_are_tolerated_or_close_the_connection() {
    let atoll = Atoll::start_bare();
    let health_check = HealthCheck::before(&atoll).await;
    let admin = atoll.admin();
    let floods: [(&str, Frames); 8] = [
        // A request that is reset immediately, faster than it can be answered.
        (
            "rapid reset",
            Box::new(|number| {
                let mut frames = frame(HEADERS, END_HEADERS | END_STREAM, stream(number), REQUEST);
                frames.extend(frame(RESET, 0, stream(number), &8_u32.to_be_bytes()));
                frames
            }),
        ),
        ("requests", Box::new(|number| frame(HEADERS, END_HEADERS | END_STREAM, stream(number), REQUEST))),
        ("pings", Box::new(|_| frame(PING, 0, 0, &[0; 8]))),
        ("settings", Box::new(|_| frame(SETTINGS, 0, 0, &[]))),
        (
            "empty data",
            Box::new(|number| match number {
                0 => frame(HEADERS, END_HEADERS, 1, b"\x83\x84\x87\x41\x01x"),
                _ => frame(DATA, 0, 1, &[]),
            }),
        ),
        // Endless headers.
        (
            "continuations",
            Box::new(|number| match number {
                0 => frame(HEADERS, 0, 1, REQUEST),
                _ => frame(CONTINUATION, 0, 1, b"\x40\x01a\x01b"),
            }),
        ),
        ("window updates", Box::new(|_| frame(WINDOW_UPDATE, 0, 0, &1_u32.to_be_bytes()))),
        // One entry of the compression table, referenced repeatedly.
        (
            "a compression bomb",
            Box::new(|number| {
                let mut block = REQUEST.to_vec();
                block.extend_from_slice(b"\x40\x01a\x7f\xa1\x1e");
                block.extend(std::iter::repeat_n(b'x', 4000));
                block.extend(std::iter::repeat_n(0xbe, 8000));
                frame(HEADERS, END_HEADERS | END_STREAM, stream(number), &block)
            }),
        ),
    ];
    for (what, flood) in floods {
        let mut raw = Raw::open_with_protocol(&admin, "h2").await;
        let mut opening = PREFACE.to_vec();
        opening.extend(frame(SETTINGS, 0, 0, &[]));
        raw.send(opening).await.unwrap();
        let mut sent = 0;
        for batch in (0..FLOOD).collect::<Vec<_>>().chunks(100) {
            let frames: Vec<u8> = batch.iter().flat_map(|number| flood(*number)).collect();
            // The server may close the connection.
            let sending = tokio::time::timeout(std::time::Duration::from_secs(1), raw.send(frames)).await;
            match sending {
                Ok(Ok(())) => sent += batch.len(),
                _ => break,
            }
        }
        println!("{what}: {sent} frames were accepted");
        // Other clients are served meanwhile.
        admin.get("/api/v1/namespaces/default").await.expect(200);
    }
    health_check.after().await;
}

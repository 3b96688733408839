//! Benchmark: WebSocket frames encoded and decoded with this crate and with `tungstenite`.
//!
//! ```text
//! cargo run --release -p atoll-streams --example frames
//! ```

use std::hint::black_box;
use std::io::Cursor;
use std::time::{Duration, Instant};

use atoll_streams::websocket::{Head, Message, Role, mask};
use bytes::Bytes;
use tungstenite::protocol::frame::coding::{Data, OpCode};
use tungstenite::protocol::frame::{Frame, FrameHeader};

const KEY: [u8; 4] = [0x6d, 0xb6, 0xb2, 0x80];

fn main() {
    for size in [100, 64 << 10] {
        let payload = Bytes::from(vec![7; size]);
        for key in [None, Some(KEY)] {
            let masked = if key.is_some() { "masked" } else { "plain" };
            let message = Message::binary(payload.clone());
            let mut bytes = Vec::with_capacity(size + 14);
            report(&format!("{size} bytes, {masked}: encode, own"), || {
                bytes.clear();
                message.encode_masked(key, &mut bytes);
                black_box(&bytes);
            });
            let header =
                FrameHeader { opcode: OpCode::Data(Data::Binary), mask: key, ..FrameHeader::default() };
            let mut bytes = Vec::with_capacity(size + 14);
            report(&format!("{size} bytes, {masked}: encode, tungstenite"), || {
                bytes.clear();
                let frame = Frame::from_payload(header.clone(), payload.clone());
                frame.format(&mut bytes).expect("a Vec can be written");
                black_box(&bytes);
            });
            let role = if key.is_some() { Role::Server } else { Role::Client };
            let mut received = bytes.clone();
            report(&format!("{size} bytes, {masked}: decode, own"), || {
                let (head, start) = Head::parse(black_box(&received), role).expect("a frame").expect("all");
                if let Some(key) = head.mask {
                    mask(&mut received[start..], key, 0);
                }
                black_box(&received);
            });
            // Its function that removes a mask is private.
            report(&format!("{size} bytes, {masked}: decode, header by tungstenite"), || {
                let mut cursor = Cursor::new(black_box(&received[..]));
                let (header, _) = FrameHeader::parse(&mut cursor).expect("a frame").expect("all");
                let start = cursor.position() as usize;
                if let Some(key) = header.mask {
                    mask(&mut received[start..], key, 0);
                }
                black_box(&received);
            });
        }
    }
}

/// Prints the shortest time of several rounds, so that other programs matter less.
fn report(what: &str, mut run: impl FnMut()) {
    const ROUND: u32 = 2_000;
    let mut best = Duration::MAX;
    for _ in 0..50 {
        let start = Instant::now();
        for _ in 0..ROUND {
            run();
        }
        best = best.min(start.elapsed());
    }
    println!("{what}: {:.1} ns", best.as_nanos() as f64 / f64::from(ROUND));
}

//! Tunnels another protocol in WebSocket messages.

// upstream: staging/src/k8s.io/apiserver/pkg/util/proxy/streamtunnel.go

use std::io;

use bytes::BytesMut;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use super::frame::{Message, Opcode, Role};
use super::reader::{Event, Reader};
use super::{CLOSE_NORMAL, CLOSE_PROTOCOL_ERROR};
use crate::outbox::Outbox;
use crate::pipe::CHUNK_BYTES;

/// Copies data between a client's WebSocket and `other` until one of them ends, then closes both.
pub async fn tunnel<W, O>(websocket: W, other: O) -> io::Result<()>
where
    W: AsyncRead + AsyncWrite + Send,
    O: AsyncRead + AsyncWrite + Send,
{
    let (reader, writer) = tokio::io::split(websocket);
    let (mut other_reader, mut other_writer) = tokio::io::split(other);
    let (outbox, queue) = Outbox::new();
    let inwards = async {
        let mut reader = Reader::new(reader, Role::Server);
        loop {
            match reader.next().await? {
                Event::Ping(payload) => outbox.reply(Message { opcode: Opcode::Pong, payload }).await?,
                Event::Pong => {}
                Event::Close(_) => return Ok(()),
                Event::Data { is_text: true, .. } => return Err(io::Error::from(io::ErrorKind::InvalidData)),
                Event::Data { bytes, .. } => {
                    other_writer.write_all(&bytes).await?;
                    other_writer.flush().await?;
                }
            }
        }
    };
    let outwards = async {
        let mut buffer = BytesMut::new();
        loop {
            buffer.reserve(CHUNK_BYTES);
            if other_reader.read_buf(&mut buffer).await? == 0 {
                return Ok::<(), io::Error>(());
            }
            let bytes = buffer.split().freeze();
            let length = bytes.len();
            outbox.send(Message::binary(bytes), length).await?;
        }
    };
    let writing = queue.write(writer, |message: Message, into| message.encode(into));
    let mut writing = std::pin::pin!(writing);
    let ended = tokio::select! {
        ended = inwards => ended,
        ended = outwards => ended,
        // The writer ends early only with an error.
        ended = &mut writing => return ended,
    };
    let code = match &ended {
        Err(error) if error.kind() == io::ErrorKind::InvalidData => CLOSE_PROTOCOL_ERROR,
        _ => CLOSE_NORMAL,
    };
    outbox.push(Message::close(code));
    outbox.end();
    // A client that does not read is not waited for.
    let farewell = tokio::time::timeout(std::time::Duration::from_secs(5), writing).await;
    let _ = other_writer.shutdown().await;
    ended.and(farewell.unwrap_or(Ok(())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn data_is_copied_until_one_side_ends() {
        let (mut client, websocket) = tokio::io::duplex(1 << 20);
        let (mut service, other) = tokio::io::duplex(1 << 20);
        let tunnel = tokio::spawn(tunnel(websocket, other));
        let mut bytes = Vec::new();
        Message::binary(&b"ask"[..]).encode_masked(Some([1, 2, 3, 4]), &mut bytes);
        Message { opcode: Opcode::Ping, payload: "p".into() }.encode_masked(Some([5; 4]), &mut bytes);
        client.write_all(&bytes).await.unwrap();
        let mut asked = [0; 3];
        service.read_exact(&mut asked).await.unwrap();
        assert_eq!(&asked, b"ask");
        let mut pong = [0; 3];
        client.read_exact(&mut pong).await.unwrap();
        assert_eq!(&pong, b"\x8a\x01p");
        service.write_all(b"answer").await.unwrap();
        drop(service);
        let mut answer = Vec::new();
        client.read_to_end(&mut answer).await.unwrap();
        assert_eq!(answer, b"\x82\x06answer\x88\x02\x03\xe8");
        tunnel.await.unwrap().unwrap();
    }

    #[tokio::test]
    async fn text_messages_are_rejected() {
        let (mut client, websocket) = tokio::io::duplex(1 << 20);
        let (_service, other) = tokio::io::duplex(1 << 20);
        let tunnel = tokio::spawn(tunnel(websocket, other));
        client.write_all(b"\x81\x81\0\0\0\0a").await.unwrap();
        let mut answer = Vec::new();
        client.read_to_end(&mut answer).await.unwrap();
        assert_eq!(answer, b"\x88\x02\x03\xea");
        assert!(tunnel.await.unwrap().is_err());
    }
}

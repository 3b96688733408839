//! The terminal size reaches the command over every protocol.

use std::sync::Arc;

use atoll_client::https::http1;
use atoll_streams::websocket::{Event, Message, Opcode, Reader, Role};
use atoll_testkit::wait::within;
use bytes::Bytes;
use http::Request;
use http_body_util::Empty;
use hyper_util::rt::TokioIo;
use tokio::io::AsyncWriteExt;

use crate::harness::{PODS, TestCluster};

#[tokio::test(flavor = "multi_thread")]
async fn terminal_size_reaches_the_command() {
    let cluster = Arc::new(TestCluster::new().await);
    for pod in ["old", "new"] {
        let stream = cluster.admin.stream(&["http/1.1"]).await.unwrap();
        let (mut sender, _) = http1::handshake(stream).await.unwrap();
        let uri = format!("{PODS}/{pod}/exec?command=size&stdin=true&stdout=true&tty=true");
        let request = Request::get(uri)
            .header("host", cluster.admin.authority())
            .header("connection", "Upgrade")
            .header("upgrade", "websocket")
            .header("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ==")
            .header("sec-websocket-version", "13")
            .header("sec-websocket-protocol", "v5.channel.k8s.io");
        let response = sender.send_request(request.body(Empty::<Bytes>::new()).unwrap()).await.unwrap();
        assert_eq!(response.status(), 101);
        assert_eq!(response.headers()["sec-websocket-protocol"], "v5.channel.k8s.io");
        let stream = TokioIo::new(hyper::upgrade::on(response).await.unwrap());
        let (reader, mut writer) = tokio::io::split(stream);
        let mut bytes = Vec::new();
        Message::binary(&b"\x04{\"Width\":132,\"Height\":43}"[..]).encode_masked(Some([7; 4]), &mut bytes);
        writer.write_all(&bytes).await.unwrap();
        let mut reader = Reader::new(reader, Role::Client);
        let mut channels = [const { Vec::new() }; 4];
        loop {
            match within("a message arrives", reader.next()).await.unwrap() {
                Event::Data { bytes, .. } => channels[usize::from(bytes[0])].extend_from_slice(&bytes[1..]),
                Event::Close(code) => {
                    assert_eq!(code, Some(1000));
                    break;
                }
                _ => {}
            }
        }
        let mut goodbye = Vec::new();
        Message { opcode: Opcode::Close, payload: Bytes::new() }.encode_masked(Some([1; 4]), &mut goodbye);
        let _ = writer.write_all(&goodbye).await;
        assert_eq!(channels[1], b"132x43\n", "{pod}");
        let status: serde_json::Value = serde_json::from_slice(&channels[3]).unwrap();
        assert_eq!(status["status"], "Success");
    }
}

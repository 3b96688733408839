//! Broken, hostile and oversized request bodies.

use atoll_testkit::{ApiResponse, Atoll, Client, JSON, MERGE, RequestContent, names};
use bytes::Bytes;
use http::Method;

use super::health_check::HealthCheck;
use crate::support::raw::Raw;
use crate::support::{CONFIG_MAPS, config_map, config_map_with};

const JSON_PATCH: &str = "application/json-patch+json";
const YAML: &str = "application/yaml";

async fn post(admin: &Client, kind: &'static str, body: impl Into<Bytes>) -> ApiResponse {
    admin.request(Method::POST, CONFIG_MAPS, RequestContent::Raw(kind, body.into())).await
}

#[tokio::test(flavor = "multi_thread")]
async fn truncated_bodies_are_rejected() {
    let atoll = Atoll::start_bare();
    let health_check = HealthCheck::before(&atoll).await;
    let admin = atoll.admin();
    let mut http = admin.http1().await.unwrap();
    let whole = config_map_with("truncated", "ä\\u00e4\\n").to_string();
    for end in 1..whole.len() {
        let body = Bytes::copy_from_slice(&whole.as_bytes()[..end]);
        let answer = http.request(Method::POST, CONFIG_MAPS, RequestContent::Raw(JSON, body)).await.unwrap();
        answer.expect_status(400, "BadRequest");
    }
    let whole = Bytes::from(whole);
    http.request(Method::POST, CONFIG_MAPS, RequestContent::Raw(JSON, whole)).await.unwrap().expect(201);
    drop(http);
    health_check.after().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn deeply_nested_bodies_are_rejected() {
    let atoll = Atoll::start_bare();
    let health_check = HealthCheck::before(&atoll).await;
    let admin = atoll.admin();
    admin.post(CONFIG_MAPS, config_map_with("deep", "1")).await.expect(201);
    let depth = 1_000_000;
    let arrays = "[".repeat(depth);
    let objects = "{\"a\":".repeat(depth / 5);
    let closed = format!("{}1{}", "[".repeat(depth), "]".repeat(depth));
    let inside = |value: &str| {
        format!(r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"x"}},"data":{value}}}"#)
    };
    for body in [arrays.clone(), objects.clone(), closed.clone(), inside(&closed), inside(&arrays)] {
        post(&admin, JSON, body.clone()).await.expect_status(400, "BadRequest");
        let path = config_map("deep");
        for kind in [MERGE, JSON_PATCH] {
            let body = RequestContent::Raw(kind, Bytes::from(body.clone()));
            admin.request(Method::PATCH, &path, body).await.expect_status(400, "BadRequest");
        }
        let body = RequestContent::Raw(JSON, Bytes::from(body));
        let answer = admin.request(Method::DELETE, &path, body).await;
        assert_eq!(answer.status, 400, "{}", answer.text());
    }
    // The same in YAML: flow style, block style, and aliases that would expand to gigabytes.
    let mut block = String::new();
    for level in 0..2000 {
        block.push_str(&" ".repeat(level));
        block.push_str("a:\n");
    }
    let mut bomb = "a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n".to_string();
    for level in 1..12 {
        let aliases = vec![format!("*a{}", level - 1); 10].join(",");
        bomb.push_str(&format!("a{level}: &a{level} [{aliases}]\n"));
    }
    for body in [arrays, closed, block, bomb] {
        let answer = post(&admin, YAML, body).await;
        assert_eq!(answer.status, 400, "{}", answer.text());
    }
    admin.get(&config_map("deep")).await.expect(200);
    health_check.after().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn oversized_bodies_are_rejected_without_being_buffered() {
    const SIZE: usize = 10 << 20;
    let atoll = Atoll::start_bare();
    let health_check = HealthCheck::before(&atoll).await;
    let admin = atoll.admin();
    let large = config_map_with("large", &"x".repeat(SIZE)).to_string();
    for _ in 0..4 {
        // With a Content-Length, and as chunks of unknown total length.
        let mut declared = Raw::open(&admin).await;
        let lines = format!("Content-Type: {JSON}\r\nContent-Length: {}\r\n", large.len());
        let head = declared.head("POST", CONFIG_MAPS, &lines);
        declared.send(head).await.unwrap();
        // The server may respond and close before it has read the whole body.
        let _ = declared.send(&large).await;
        assert_eq!(declared.answer().await.unwrap().status, 413);

        let mut chunked = Raw::open(&admin).await;
        let head = chunked.head(
            "POST",
            CONFIG_MAPS,
            &format!("Content-Type: {JSON}\r\nTransfer-Encoding: chunked\r\n"),
        );
        chunked.send(head).await.unwrap();
        for piece in large.as_bytes().chunks(64 << 10) {
            let mut chunk = format!("{:x}\r\n", piece.len()).into_bytes();
            chunk.extend_from_slice(piece);
            chunk.extend_from_slice(b"\r\n");
            if chunked.send(chunk).await.is_err() {
                break;
            }
        }
        assert_eq!(chunked.answer().await.unwrap().status, 413);

        let mut http = admin.http2().await.unwrap();
        let body = RequestContent::Raw(JSON, Bytes::from(large.clone()));
        let answer = http.request(Method::POST, CONFIG_MAPS, body).await.unwrap();
        answer.expect_status(413, "RequestEntityTooLarge");
        // Other requests on that connection keep working.
        http.request(Method::GET, CONFIG_MAPS, RequestContent::None).await.unwrap().expect(200);
    }
    health_check.after().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_types_are_rejected() {
    let atoll = Atoll::start_bare();
    let health_check = HealthCheck::before(&atoll).await;
    let admin = atoll.admin();
    let head = r#""apiVersion":"v1","kind":"ConfigMap""#;
    let wrong = [
        "null".to_string(),
        "true".into(),
        "7".into(),
        "\"text\"".into(),
        "[]".into(),
        "{}".into(),
        format!("{{{head},\"metadata\":7}}"),
        format!("{{{head},\"metadata\":[]}}"),
        format!("{{{head},\"metadata\":{{\"name\":7}}}}"),
        format!("{{{head},\"metadata\":{{\"name\":{{}}}}}}"),
        format!("{{{head},\"metadata\":{{\"name\":\"a\",\"labels\":\"x\"}}}}"),
        format!("{{{head},\"metadata\":{{\"name\":\"a\",\"labels\":{{\"x\":1}}}}}}"),
        format!("{{{head},\"metadata\":{{\"name\":\"a\",\"finalizers\":{{}}}}}}"),
        format!("{{{head},\"metadata\":{{\"name\":\"a\",\"ownerReferences\":[1]}}}}"),
        format!("{{{head},\"metadata\":{{\"name\":\"a\",\"generation\":1e400}}}}"),
        format!("{{{head},\"metadata\":{{\"name\":\"a\",\"generation\":9223372036854775808}}}}"),
        format!("{{{head},\"metadata\":{{\"name\":\"a\",\"creationTimestamp\":\"yesterday\"}}}}"),
        format!("{{{head},\"metadata\":{{\"name\":\"a\"}},\"data\":[1]}}"),
        format!("{{{head},\"metadata\":{{\"name\":\"a\"}},\"data\":{{\"k\":{{}}}}}}"),
        format!("{{{head},\"metadata\":{{\"name\":\"a\"}},\"binaryData\":{{\"k\":\"***\"}}}}"),
        r#"{"apiVersion":7,"kind":"ConfigMap"}"#.into(),
        r#"{"apiVersion":"v1","kind":["ConfigMap"]}"#.into(),
        r#"{"apiVersion":"v1","kind":"Secret","metadata":{"name":"a"}}"#.into(),
    ];
    for body in wrong {
        let answer = post(&admin, JSON, body.clone()).await;
        assert!((400..500).contains(&answer.status), "{body}: {} {}", answer.status, answer.text());
        assert_eq!(answer.json()["kind"], "Status");
    }
    assert_eq!(names(&admin.get(CONFIG_MAPS).await.expect(200)), Vec::<String>::new());
    health_check.after().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_utf8_is_handled() {
    let atoll = Atoll::start_bare();
    let health_check = HealthCheck::before(&atoll).await;
    let admin = atoll.admin();
    // Invalid UTF-8: stray, overlong, surrogates, truncated, and beyond Unicode.
    let sequences: [&[u8]; 6] =
        [b"\xff", b"\xc0\x80", b"\xed\xa0\x80", b"\xe2\x82", b"\xf4\x90\x80\x80", b"\\ud800"];
    for (number, sequence) in sequences.iter().enumerate() {
        let name = format!("text-{number}");
        for position in ["name", "label", "value", "key"] {
            let mut object = config_map_with(&format!("{name}-{position}"), "VALUE");
            object["metadata"]["labels"] = serde_json::json!({ "label": "LABEL" });
            let text = object.to_string();
            let text = match position {
                "name" => text.replace(&format!("{name}-name"), "HERE"),
                "label" => text.replace("LABEL", "HERE"),
                "value" => text.replace("VALUE", "HERE"),
                _ => text.replace("\"value\"", "\"HERE\""),
            };
            let (before, after) = text.split_once("HERE").unwrap();
            let body = [before.as_bytes(), sequence, after.as_bytes()].concat();
            let answer = post(&admin, JSON, body).await;
            // As in upstream's parser, invalid bytes are replaced, and the result is valid in a value only.
            let expected: &[u16] = if position == "value" { &[201] } else { &[400, 422] };
            assert!(expected.contains(&answer.status), "{sequence:?} in {position}: {}", answer.text());
        }
    }
    for answer in [
        admin.get(CONFIG_MAPS).await,
        admin.request(Method::GET, &format!("{CONFIG_MAPS}/%ff%fe"), RequestContent::None).await,
        admin
            .request(Method::GET, &format!("{CONFIG_MAPS}?labelSelector=%ff%c0%80"), RequestContent::None)
            .await,
    ] {
        assert!(answer.status < 500, "{}", answer.text());
        assert!(std::str::from_utf8(&answer.body).is_ok(), "responses must be valid UTF-8");
    }
    health_check.after().await;
}

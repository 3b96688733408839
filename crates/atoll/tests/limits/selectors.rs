//! Extreme selectors and paths.

use atoll_testkit::{Atoll, RequestContent};
use http::Method;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use super::health_check::HealthCheck;
use crate::support::raw::Raw;
use crate::support::{CONFIG_MAPS, config_map_with};

#[tokio::test(flavor = "multi_thread")]
async fn extreme_selectors_are_answered_quickly() {
    let atoll = Atoll::start_bare();
    let health_check = HealthCheck::before(&atoll).await;
    let admin = atoll.admin();
    for number in 0..20 {
        admin.post(CONFIG_MAPS, config_map_with(&format!("object-{number}"), "1")).await.expect(201);
    }
    const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'.').remove(b',').remove(b'/').remove(b'!');
    let encode = |text: &str| utf8_percent_encode(text, ESCAPED).to_string();
    let many = |separator: &str, piece: &dyn Fn(usize) -> String| {
        (0..1500).map(piece).collect::<Vec<_>>().join(separator)
    };
    let label = [
        ("as many terms as fit", many(",", &|number| format!("a{number}!=b")), 200),
        ("as many values as fit", format!("a in ({})", many(",", &|number| format!("v{number}"))), 200),
        ("contradictions", many(",", &|number| format!("a={number}")), 200),
        ("nothing but brackets", "(".repeat(10_000), 400),
        ("nothing but commas", ",".repeat(10_000), 400),
        ("nothing but negations", "!".repeat(10_000), 400),
        ("an endless name", "a".repeat(15_000), 400),
        ("an endless prefix", format!("{}/a", "a.".repeat(5000)), 400),
        ("values without an end", format!("a in ({}", "v,".repeat(5000)), 400),
        ("control characters", "a=\0\u{1}\r\n".into(), 400),
        ("another script", "a=\u{202e}\u{1f4a3}".into(), 400),
    ];
    for (what, selector, expected) in label {
        let answer = admin.get(&format!("{CONFIG_MAPS}?labelSelector={}", encode(&selector))).await;
        assert_eq!(answer.status, expected, "{what}: {}", &answer.text()[..200.min(answer.body.len())]);
    }
    let field = [
        ("escapes of escapes", format!("metadata.name={}", "\\\\".repeat(5000)), 200),
        ("an escape that ends nothing", format!("metadata.name={}\\", "\\\\".repeat(5000)), 400),
        ("escapes that mean nothing", format!("metadata.name={}", "\\x".repeat(5000)), 400),
        ("escaped separators", format!("metadata.name={}", "\\,\\=".repeat(4000)), 200),
        ("as many terms as fit", many(",", &|number| format!("metadata.name!=a{number}")), 200),
        ("a field that is none", "a".repeat(10_000), 400),
        ("nothing but equals signs", "=".repeat(10_000), 400),
    ];
    for (what, selector, expected) in field {
        let answer = admin.get(&format!("{CONFIG_MAPS}?fieldSelector={}", encode(&selector))).await;
        assert_eq!(answer.status, expected, "{what}: {}", &answer.text()[..200.min(answer.body.len())]);
    }
    health_check.after().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn extreme_parameters_and_paths_are_answered() {
    let atoll = Atoll::start_bare();
    let health_check = HealthCheck::before(&atoll).await;
    let admin = atoll.admin();
    let number = "9".repeat(40);
    let parameters = [
        format!("limit={number}"),
        "limit=-1".into(),
        format!("resourceVersion={number}"),
        "resourceVersion=-1".into(),
        "resourceVersion=18446744073709551615&resourceVersionMatch=Exact&limit=1".into(),
        format!("continue={}", "A".repeat(8000)),
        "continue=%00%ff".into(),
        "continue=eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6LTEsInN0YXJ0IjoiLi4vLi4vLi4ifQ".into(),
        format!("watch=1&timeoutSeconds={number}"),
        "watch=1&timeoutSeconds=-1".into(),
        "watch=perhaps".into(),
        "watch=1&sendInitialEvents=true".into(),
        format!("{}=1", "a".repeat(10_000)),
        "&".repeat(10_000),
        "=%=%=%zz&%".into(),
    ];
    for parameter in parameters {
        let mut http = admin.http1().await.unwrap();
        let response = http
            .send(Method::GET, &format!("{CONFIG_MAPS}?{parameter}"), RequestContent::None)
            .await
            .unwrap();
        let shown: String = parameter.chars().take(80).collect();
        assert!(
            response.status().as_u16() < 500 || response.status() == 504,
            "{shown}: {}",
            response.status()
        );
    }
    let paths = [
        format!("/{}", "a/".repeat(5000)),
        format!("/{}", "../".repeat(3000)),
        format!("/api/v1/namespaces/{}", "%2e%2e%2f".repeat(1000)),
        "//////".into(),
        "/api/v1/namespaces/default/configmaps/%00".into(),
        "/api/v1/namespaces//configmaps/x".into(),
        format!("/clusters/root{}/api/v1/namespaces", ":a".repeat(5000)),
        "/clusters//api/v1/namespaces".into(),
        "/clusters/%2a/api/v1/namespaces/default".into(),
        format!("/api/v1/namespaces/default/configmaps/{}", "a".repeat(20_000)),
    ];
    for path in paths {
        let answer = admin.get(&path).await;
        let shown: String = path.chars().take(80).collect();
        assert!(answer.status < 500, "{shown}: {} {}", answer.status, answer.text());
    }
    let mut raw = Raw::open(&admin).await;
    let head = raw.head("GET", &format!("/{}", "a".repeat(100_000)), "");
    raw.send(head).await.unwrap();
    assert_eq!(raw.answer().await.unwrap().status, 414);
    health_check.after().await;
}

//! ServiceAccount tokens, from the request to their expiry.

use atoll_authn::ISSUER;
use atoll_authn::service_account::{KeyRing, Lifetime, Subject, Tokens};
use atoll_testkit::wait::eventually;
use atoll_testkit::{Atoll, atoll, succeed};
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED, UnparsedPublicKey};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};

use crate::{ACCOUNTS, create_account, request_token, review, user_name};

const PODS: &str = "/api/v1/namespaces/default/pods";

fn part(token: &str, index: usize) -> Value {
    let part = token.split('.').nth(index).unwrap();
    serde_json::from_slice(&URL_SAFE_NO_PAD.decode(part).unwrap()).unwrap()
}

fn now() -> i64 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs().cast_signed()
}

#[tokio::test(flavor = "multi_thread")]
async fn claims_and_extras_are_equal_to_upstream() {
    let atoll = Atoll::start_bare();
    let admin = atoll.admin();
    let account = create_account(&admin, "a").await;
    let node = admin.post("/api/v1/nodes", json!({ "metadata": { "name": "m" } })).await.expect(201);
    let pod = json!({
        "metadata": { "name": "p" },
        "spec": { "serviceAccountName": "a", "nodeName": "m", "containers": [{ "name": "c", "image": "i" }] },
    });
    let pod = admin.post(PODS, pod).await.expect(201);
    let bound = json!({ "kind": "Pod", "apiVersion": "v1", "name": "p" });
    let text = request_token(&admin, "a", json!({ "boundObjectRef": bound })).await;
    let (header, claims) = (part(&text, 0), part(&text, 1));
    assert_eq!(header["alg"], "ES256");
    assert_eq!(header.as_object().unwrap().len(), 2, "{header}");
    let issued = claims["iat"].as_i64().unwrap();
    assert!((now() - issued).abs() < 60);
    let expected = json!({
        "aud": [ISSUER], "exp": issued + 3600, "iat": issued, "iss": ISSUER, "jti": claims["jti"], "nbf": issued,
        "kubernetes.io": {
            "namespace": "default",
            "serviceaccount": { "name": "a", "uid": account["metadata"]["uid"] },
            "pod": { "name": "p", "uid": pod["metadata"]["uid"] },
            "node": { "name": "m", "uid": node["metadata"]["uid"] },
        },
        "sub": "system:serviceaccount:default:a",
    });
    assert_eq!(claims, expected);
    assert_eq!(user_name(&admin.token(&text)).await.as_deref(), Ok("system:serviceaccount:default:a"));
    let user = review(&admin, json!({ "token": text })).await["user"].clone();
    let extra = json!({
        "authentication.kubernetes.io/credential-id": [format!("JTI={}", claims["jti"].as_str().unwrap())],
        "authentication.kubernetes.io/node-name": ["m"],
        "authentication.kubernetes.io/node-uid": [node["metadata"]["uid"]],
        "authentication.kubernetes.io/pod-name": ["p"],
        "authentication.kubernetes.io/pod-uid": [pod["metadata"]["uid"]],
    });
    let groups = ["system:serviceaccounts", "system:serviceaccounts:default", "system:authenticated"];
    let expected = json!({
        "username": "system:serviceaccount:default:a", "uid": account["metadata"]["uid"], "groups": groups, "extra": extra,
    });
    assert_eq!(user, expected);
    // Tokens that kubelets request are valid longer than they say, if the API server is the only audience.
    for (audiences, extended) in [(json!([]), true), (json!([ISSUER]), true), (json!([ISSUER, "x"]), false)] {
        let spec = json!({ "boundObjectRef": bound, "expirationSeconds": 3607, "audiences": audiences });
        let answer = admin.post(&format!("{ACCOUNTS}/a/token"), json!({ "spec": spec })).await.expect(201);
        let claims = part(answer["status"]["token"].as_str().unwrap(), 1);
        let issued = claims["iat"].as_i64().unwrap();
        let (lives, warns) = match extended {
            true => (365 * 86_400, json!(issued + 3607)),
            false => (3607, Value::Null),
        };
        assert_eq!(
            (claims["exp"].as_i64(), &claims["kubernetes.io"]["warnafter"]),
            (Some(issued + lives), &warns)
        );
        assert_eq!(answer["spec"]["expirationSeconds"], 3607);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_tokens_are_rejected() {
    let atoll = Atoll::start_bare();
    let admin = atoll.admin();
    let account = create_account(&admin, "a").await;
    let uid = account["metadata"]["uid"].as_str().unwrap();
    let own = Tokens::new(ISSUER, KeyRing::open(&atoll.directory).unwrap());
    let subject = Subject { workspace: "root", namespace: "default", name: "a", uid, bound: Vec::new() };
    let issue = |from: i64, until: i64, audience: &str| {
        let lifetime = Lifetime { from: now() + from, until: now() + until, warn_after: None };
        own.issue(&subject, &[audience.to_string()], "id", lifetime).unwrap()
    };
    let good = issue(0, 600, ISSUER);
    assert!(user_name(&admin.token(&good)).await.is_ok());
    assert!(user_name(&admin.token(&issue(-600, -30, ISSUER))).await.is_ok(), "clock skew must be tolerated");
    let elsewhere = tempfile::tempdir().unwrap();
    let other = Tokens::new(ISSUER, KeyRing::open(elsewhere.path()).unwrap());
    let lifetime = Lifetime { from: now(), until: now() + 600, warn_after: None };
    let parts: Vec<&str> = good.split('.').collect();
    let encode = |value: Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let mut claims = part(&good, 1);
    claims["sub"] = json!("system:serviceaccount:kube-system:admin");
    let kid = part(&good, 0)["kid"].clone();
    let mut somebody_else = subject.clone();
    somebody_else.uid = "another";
    let broken = "go-jose/go-jose: error in cryptographic primitive";
    let cases = [
        ("expired", issue(-600, -61, ISSUER), "service account token has expired"),
        ("not yet valid", issue(120, 600, ISSUER), "service account token is not valid yet"),
        (
            "for others",
            issue(0, 600, "x"),
            "token audiences [\"x\"] is invalid for the target audiences [\"https://kubernetes.default.svc\"]",
        ),
        ("no algorithm", format!("{}.{}.", encode(json!({ "alg": "none" })), parts[1]), broken),
        (
            "no algorithm, signed",
            format!("{}.{}.{}", encode(json!({ "alg": "none", "kid": kid })), parts[1], parts[2]),
            broken,
        ),
        (
            "another algorithm",
            format!("{}.{}.{}", encode(json!({ "alg": "HS256", "kid": kid })), parts[1], parts[2]),
            broken,
        ),
        ("tampered", format!("{}.{}.{}", parts[0], encode(claims), parts[2]), broken),
        (
            "of another server",
            other.issue(&subject, &[ISSUER.into()], "id", lifetime).unwrap(),
            "invalid signature, no keys found",
        ),
        (
            "of an account before",
            own.issue(&somebody_else, &[ISSUER.into()], "id", lifetime).unwrap(),
            &format!("service account UID ({uid}) does not match claim (another)"),
        ),
    ];
    for (what, token, reason) in cases {
        assert_eq!(user_name(&admin.token(&token)).await, Err(401), "{what}");
        let status = review(&admin, json!({ "token": token })).await;
        assert_eq!(
            status,
            json!({ "user": {}, "error": format!("[invalid bearer token, {reason}]") }),
            "{what}"
        );
    }
    admin.delete(&format!("{ACCOUNTS}/a")).await.expect(200);
    assert_eq!(user_name(&admin.token(&good)).await, Err(401));
    let status = review(&admin, json!({ "token": good })).await;
    assert_eq!(status["error"], "[invalid bearer token, serviceaccounts \"a\" not found]");
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_become_invalid_with_the_object_they_are_bound_to() {
    let atoll = Atoll::start_bare();
    let admin = atoll.admin();
    create_account(&admin, "a").await;
    let pod = json!({
        "metadata": { "name": "p" },
        "spec": { "serviceAccountName": "a", "containers": [{ "name": "c", "image": "i" }] },
    });
    let cases = [
        ("Pod", PODS, "p", pod),
        ("Secret", "/api/v1/namespaces/default/secrets", "s", json!({ "metadata": { "name": "s" } })),
        ("Node", "/api/v1/nodes", "m", json!({ "metadata": { "name": "m" } })),
    ];
    for (kind, path, name, object) in cases {
        admin.post(path, object.clone()).await.expect(201);
        let bound = json!({ "kind": kind, "apiVersion": "v1", "name": name });
        let text = request_token(&admin, "a", json!({ "boundObjectRef": bound })).await;
        assert!(user_name(&admin.token(&text)).await.is_ok(), "{kind}");
        admin.delete(&format!("{path}/{name}?gracePeriodSeconds=0")).await.expect(200);
        assert_eq!(user_name(&admin.token(&text)).await, Err(401), "{kind}");
        let status = review(&admin, json!({ "token": text })).await;
        assert_eq!(
            status["error"], "[invalid bearer token, service account token has been invalidated]",
            "{kind}"
        );
        // Another object of the same name is not the same object.
        admin.post(path, object).await.expect(201);
        assert_eq!(user_name(&admin.token(&text)).await, Err(401), "{kind}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_are_valid_for_their_audiences_only() {
    let atoll = Atoll::start_bare();
    let admin = atoll.admin();
    create_account(&admin, "a").await;
    let both = request_token(&admin, "a", json!({ "audiences": ["x", "y"] })).await;
    assert_eq!(user_name(&admin.token(&both)).await, Err(401));
    let status = review(&admin, json!({ "token": both, "audiences": ["z", "y", "x"] })).await;
    assert_eq!((&status["authenticated"], &status["audiences"]), (&json!(true), &json!(["y", "x"])));
    let own = request_token(&admin, "a", json!({})).await;
    let status = review(&admin, json!({ "token": own })).await;
    assert_eq!(status["audiences"], json!([ISSUER]));
    let status = review(&admin, json!({ "token": own, "audiences": ["z"] })).await;
    let error = "[invalid bearer token, token audiences [\"https://kubernetes.default.svc\"] is invalid for the target audiences [\"z\"]]";
    assert_eq!(status, json!({ "user": {}, "error": error }));
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_can_be_verified_with_the_published_keys() {
    let atoll = Atoll::start_bare();
    let admin = atoll.admin();
    create_account(&admin, "a").await;
    let text = request_token(&admin, "a", json!({ "audiences": ["x"] })).await;
    let mut http = admin.http1().await.unwrap();
    let configuration = http.get_accepting("/.well-known/openid-configuration", "*/*").await.unwrap();
    let expected = format!(
        "{{\"issuer\":\"{ISSUER}\",\"jwks_uri\":\"https://{}/openid/v1/jwks\",\"response_types_supported\":[\"id_token\"],\
         \"subject_types_supported\":[\"public\"],\"id_token_signing_alg_values_supported\":[\"ES256\"]}}",
        atoll.address
    );
    assert_eq!((configuration.status, configuration.text()), (200, expected));
    assert_eq!(configuration.header("content-type"), Some("application/json"));
    assert_eq!(configuration.header("cache-control"), Some("public, max-age=3600"));
    let keys = http.get_accepting("/openid/v1/jwks", "*/*").await.unwrap();
    assert_eq!(keys.header("content-type"), Some("application/jwk-set+json"));
    assert_eq!(keys.header("cache-control"), Some("public, max-age=3600"));
    let refused = http.get_accepting("/openid/v1/jwks", "application/json").await.unwrap();
    assert!(refused.expect_status(406, "NotAcceptable").ends_with("application/jwk-set+json"));
    admin.post("/openid/v1/jwks", json!({})).await.expect_status(405, "MethodNotAllowed");
    admin.anonymous().get("/openid/v1/jwks").await.expect_status(403, "Forbidden");
    // As any library would do it.
    let key = keys.json()["keys"][0].clone();
    assert_eq!(key["kid"], part(&text, 0)["kid"]);
    let coordinate = |name: &str| URL_SAFE_NO_PAD.decode(key[name].as_str().unwrap()).unwrap();
    let point = [vec![4], coordinate("x"), coordinate("y")].concat();
    let (message, signature) = text.rsplit_once('.').unwrap();
    let public = UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point);
    public.verify(message.as_bytes(), &URL_SAFE_NO_PAD.decode(signature).unwrap()).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn signing_keys_are_rotated_while_the_server_runs() {
    let atoll_server = Atoll::start_bare();
    let admin = atoll_server.admin();
    create_account(&admin, "a").await;
    let directory = atoll_server.directory.to_str().unwrap();
    let keys = |arguments: &[&str]| {
        let all = [&["keys"], arguments, &["--data-dir", directory]].concat();
        succeed(&mut atoll(&all))
    };
    let old = request_token(&admin, "a", json!({})).await;
    let first = part(&old, 0)["kid"].as_str().unwrap().to_string();
    keys(&["rotate", "tokens"]);
    let mut new = old.clone();
    eventually("another key signs", async || {
        new = request_token(&admin, "a", json!({})).await;
        part(&new, 0)["kid"] != first.as_str()
    })
    .await;
    let second = part(&new, 0)["kid"].as_str().unwrap().to_string();
    for good in [&old, &new] {
        assert!(user_name(&admin.token(good)).await.is_ok());
    }
    assert_eq!(keys(&["list"]), format!("{second}  signs and verifies\n{first}  verifies\n"));
    let mut http = admin.http1().await.unwrap();
    let published = http.get_accepting("/openid/v1/jwks", "*/*").await.unwrap().json();
    assert_eq!(published["keys"].as_array().unwrap().len(), 2);
    keys(&["retire", &first]);
    eventually("tokens of the old key are rejected", async || {
        user_name(&admin.token(&old)).await == Err(401)
    })
    .await;
    assert!(user_name(&admin.token(&new)).await.is_ok());
}

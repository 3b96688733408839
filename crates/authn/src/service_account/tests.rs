use super::*;
use crate::ISSUER;

const NOW: Lifetime = Lifetime { from: 1000, until: 2000, warn_after: None };

fn tokens() -> (tempfile::TempDir, Tokens) {
    let directory = tempfile::tempdir().expect("a directory");
    let keys = KeyRing::open(directory.path()).expect("a key");
    (directory, Tokens::new(ISSUER, keys))
}

fn subject(workspace: &str) -> Subject<'_> {
    let bound = vec![("pod", json!({ "name": "p", "uid": "2" })), ("node", json!({ "name": "m" }))];
    Subject { workspace, namespace: "n", name: "a", uid: "1", bound }
}

fn token(tokens: &Tokens, audience: &str) -> String {
    tokens.issue(&subject(ROOT), &[audience.into()], "id", NOW).expect("a token")
}

fn refusal(outcome: Result<Claims, Unauthorized>) -> String {
    outcome.expect_err("it is refused").to_string()
}

#[test]
fn a_token_is_valid_in_its_lifetime_and_workspace() {
    let (directory, tokens) = tokens();
    let good = token(&tokens, ISSUER);
    let user = tokens.verify(&good, ROOT, None, 1500).expect("good").user();
    assert_eq!((user.name.as_str(), user.uid.as_str()), ("system:serviceaccount:n:a", "1"));
    assert_eq!(user.groups, ["system:serviceaccounts", "system:serviceaccounts:n", "system:authenticated"]);
    let extra: Vec<String> =
        user.extra.iter().map(|(key, values)| format!("{key}={}", values.join(","))).collect();
    let prefix = "authentication.kubernetes.io/";
    let expected = ["credential-id=JTI=id", "node-name=m", "pod-name=p", "pod-uid=2"];
    assert_eq!(extra, expected.map(|own| format!("{prefix}{own}")));
    let again = Tokens::new(ISSUER, KeyRing::open(directory.path()).expect("the same key"));
    assert!(again.verify(&good, ROOT, None, 1500).is_ok(), "the token stays valid after a restart");
    let at = |now| tokens.verify(&good, ROOT, None, now);
    assert!(at(2060).is_ok() && at(940).is_ok(), "clocks may be a minute apart");
    assert_eq!(refusal(at(2061)), "service account token has expired");
    assert_eq!(refusal(at(939)), "service account token is not valid yet");
    assert_eq!(refusal(tokens.verify(&good, "w1", None, 1500)), "invalid bearer token");
}

#[test]
fn audiences_are_the_intersection() {
    let (_directory, tokens) = tokens();
    let several = ["x".to_string(), "y".to_string()];
    let own = tokens.issue(&subject(ROOT), &several, "id", NOW).expect("a token");
    let wanted = ["z", "y", "x"].map(String::from);
    assert_eq!(tokens.verify(&own, ROOT, Some(&wanted), 1500).expect("good").audiences, ["y", "x"]);
    assert_eq!(
        refusal(tokens.verify(&own, ROOT, None, 1500)),
        "token audiences [\"x\" \"y\"] is invalid for the target audiences [\"https://kubernetes.default.svc\"]"
    );
}

#[test]
fn workspaces_have_issuers_of_their_own() {
    let (_directory, tokens) = tokens();
    let issuer = tokens.issuer("w1");
    assert_eq!(issuer, format!("{ISSUER}/clusters/w1"));
    let own = tokens.issue(&subject("w1"), &[issuer], "id", NOW).expect("a token");
    assert!(tokens.verify(&own, "w1", None, 1500).is_ok());
    for other in [ROOT, "w2", "w11", ""] {
        assert_eq!(refusal(tokens.verify(&own, other, None, 1500)), "invalid bearer token", "{other}");
    }
    let in_secret = tokens.issue_for_secret(&subject("w1"), "s").expect("a token");
    assert!(tokens.verify(&in_secret, "w1", None, 1500).is_ok());
    assert!(tokens.verify(&in_secret, ROOT, None, 1500).is_err());
    let in_secret = tokens.issue_for_secret(&subject(ROOT), "s").expect("a token");
    assert!(tokens.verify(&in_secret, "w1", None, 1500).is_err());
    let claims = tokens.verify(&in_secret, ROOT, None, i64::MAX / 2).expect("it does not expire");
    assert_eq!((claims.is_legacy, claims.audiences.as_slice()), (true, &[ISSUER.to_string()][..]));
    assert!(claims.user().extra.is_empty());
}

#[test]
fn forged_tokens_are_rejected() {
    let (_directory, tokens) = tokens();
    let (_other_directory, other) = self::tokens();
    let good = token(&tokens, ISSUER);
    let parts: Vec<&str> = good.split('.').collect();
    let id = tokens.keys.current().signing.id().to_string();
    let header = |header: Value| URL_SAFE_NO_PAD.encode(header.to_string());
    let claims = URL_SAFE_NO_PAD.encode(json!({ "iss": ISSUER, "sub": "admin" }).to_string());
    let broken = "go-jose/go-jose: error in cryptographic primitive";
    let unknown = "invalid bearer token";
    let cases = [
        (format!("{}.{}.", header(json!({ "alg": "none" })), parts[1]), broken),
        (format!("{}.{}.{}", header(json!({ "alg": "none", "kid": id })), parts[1], parts[2]), broken),
        (format!("{}.{}.{}", header(json!({ "alg": "HS256", "kid": id })), parts[1], parts[2]), broken),
        (
            format!("{}.{}.{}", header(json!({ "alg": "RS256", "kid": "x" })), parts[1], parts[2]),
            "invalid signature, no keys found",
        ),
        (format!("{}.{claims}.{}", parts[0], parts[2]), broken),
        (token(&other, ISSUER), "invalid signature, no keys found"),
        (format!("{}.{}", parts[0], parts[1]), unknown),
        (format!("{good}.x"), unknown),
        (String::new(), unknown),
        ("..".into(), unknown),
    ];
    for (forged, expected) in cases {
        assert_eq!(refusal(tokens.verify(&forged, ROOT, None, 1500)), expected, "{forged}");
    }
}

#[test]
fn keys_are_replaced_and_retired() {
    let (directory, tokens) = tokens();
    let old = token(&tokens, ISSUER);
    let first = tokens.keys.current().signing.id().to_string();
    let second = rotate(directory.path()).expect("another key");
    assert!(tokens.keys.refresh().expect("it can be read"), "the files have changed");
    assert!(!tokens.keys.refresh().expect("it can be read"), "no further changes");
    assert_eq!(list(directory.path()).expect("keys"), [second.clone(), first.clone()]);
    let new = token(&tokens, ISSUER);
    assert_eq!(decode(new.split('.').next().unwrap_or_default()).expect("a header")["kid"], second.as_str());
    for good in [&old, &new] {
        assert!(tokens.verify(good, ROOT, None, 1500).is_ok());
    }
    let published: Value = serde_json::from_slice(&key_set(&tokens.keys.current())).expect("JSON");
    assert_eq!(published["keys"].as_array().map(Vec::len), Some(2));
    assert!(retire(directory.path(), &second).is_err(), "it is in use");
    assert!(retire(directory.path(), "other").is_err());
    retire(directory.path(), &first).expect("it is not in use");
    tokens.keys.refresh().expect("it can be read");
    assert_eq!(refusal(tokens.verify(&old, ROOT, None, 1500)), "invalid signature, no keys found");
    assert!(tokens.verify(&new, ROOT, None, 1500).is_ok());
}

#[test]
fn tokens_claim_the_workspace_of_their_issuer() {
    let (_directory, tokens) = tokens();
    let issued = |workspace| tokens.issue(&subject(workspace), &[ISSUER.into()], "id", NOW).expect("a token");
    let in_secret = |workspace| tokens.issue_for_secret(&subject(workspace), "s").expect("a token");
    for (token, claimed) in [
        (issued("w1"), Some("w1")),
        (issued(ROOT), None),
        (in_secret("w1"), Some("w1")),
        (in_secret(ROOT), None),
        ("static".to_string(), None),
        ("a.b.c".to_string(), None),
        (String::new(), None),
    ] {
        assert_eq!(tokens.claimed_workspace(&token).as_deref(), claimed, "{token}");
    }
}

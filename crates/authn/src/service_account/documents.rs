//! OpenID discovery documents, with which others can verify tokens.

// upstream: pkg/serviceaccount/openidmetadata.go

use serde::Serialize;

use super::Keys;

#[derive(Serialize)]
struct Configuration<'a> {
    issuer: &'a str,
    jwks_uri: &'a str,
    response_types_supported: [&'a str; 1],
    subject_types_supported: [&'a str; 1],
    id_token_signing_alg_values_supported: [&'a str; 1],
}

#[derive(Serialize)]
struct KeySet<'a> {
    keys: Vec<Key<'a>>,
}

#[derive(Serialize)]
struct Key<'a> {
    r#use: &'a str,
    kty: &'a str,
    kid: &'a str,
    crv: &'a str,
    alg: &'a str,
    x: String,
    y: String,
}

/// Returns the document at `/.well-known/openid-configuration`.
pub fn configuration(issuer: &str, jwks_uri: &str) -> Vec<u8> {
    let document = Configuration {
        issuer,
        jwks_uri,
        response_types_supported: ["id_token"],
        subject_types_supported: ["public"],
        id_token_signing_alg_values_supported: ["ES256"],
    };
    serde_json::to_vec(&document).unwrap_or_default()
}

/// Returns the document at `/openid/v1/jwks`.
pub fn key_set(keys: &Keys) -> Vec<u8> {
    let keys = keys.verifying.iter().map(|key| {
        let (x, y) = key.coordinates();
        Key { r#use: "sig", kty: "EC", kid: key.id(), crv: "P-256", alg: "ES256", x, y }
    });
    serde_json::to_vec(&KeySet { keys: keys.collect() }).unwrap_or_default()
}

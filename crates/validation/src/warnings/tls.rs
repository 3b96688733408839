//! Checks that a TLS certificate and its key are present. Whether they match is not checked.

// upstream: pkg/registry/core/secret/strategy.go
// Go standard library: src/crypto/tls/tls.go

use crate::certificates::from_base64;

/// Returns the error of Go's `tls.X509KeyPair` about two base64 strings of PEM.
pub fn key_pair(certificate: &str, key: &str) -> Option<String> {
    let types = block_types(&from_base64(certificate));
    if !types.iter().any(|kind| kind == "CERTIFICATE") {
        return Some(match types.as_slice() {
            [] => "tls: failed to find any PEM data in certificate input".to_owned(),
            [only] if only.ends_with("PRIVATE KEY") => {
                "tls: failed to find certificate PEM data in certificate input, but did find a private key; PEM inputs may \
                 have been switched"
                    .to_owned()
            }
            types => format!(
                "tls: failed to find \"CERTIFICATE\" PEM block in certificate input after skipping PEM blocks of the \
                 following types: [{}]",
                types.join(" ")
            ),
        });
    }
    let types = block_types(&from_base64(key));
    if types.iter().any(|kind| kind == "PRIVATE KEY" || kind.ends_with(" PRIVATE KEY")) {
        return None;
    }
    Some(match types.as_slice() {
        [] => "tls: failed to find any PEM data in key input".to_owned(),
        [only] if only == "CERTIFICATE" => {
            "tls: found a certificate rather than a key in the PEM for the private key".to_owned()
        }
        types => format!(
            "tls: failed to find PEM block with type ending in \"PRIVATE KEY\" in key input after skipping PEM blocks of \
             the following types: [{}]",
            types.join(" ")
        ),
    })
}

/// Returns the types of the PEM blocks.
fn block_types(text: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(text);
    let mut types = Vec::new();
    let mut rest = &*text;
    while let Some(start) = rest.find("-----BEGIN ") {
        let begins_line = start == 0 || rest[..start].ends_with('\n');
        let after = &rest[start + "-----BEGIN ".len()..];
        rest = after;
        let Some((kind, body)) = after.split_once("-----").filter(|_| begins_line) else { continue };
        let end = format!("\n-----END {kind}-----");
        if let Some(end) = body.find(&end).filter(|_| !kind.contains('\n')) {
            types.push(kind.to_owned());
            rest = &body[end..];
        }
    }
    types
}

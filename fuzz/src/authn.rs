//! Credentials: certificates, certificate requests and tokens.

use std::sync::LazyLock;

use atoll_authn::request::CertificateRequest;
use atoll_authn::service_account::{Claims, KeyRing, Tokens};
use atoll_authn::token_file::TokenFile;
use atoll_authn::{AUTHENTICATED, ISSUER, bearer_token, certificate as certificates};
use atoll_meta::json;
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};

use crate::{Accepted, lines, text};

fn pem(label: &str, der: &[u8]) -> String {
    format!("-----BEGIN {label}-----\n{}\n-----END {label}-----\n", STANDARD.encode(der))
}

/// No bytes crash the certificate parser, and a certificate without a name identifies no user.
pub fn certificate(bytes: &[u8]) -> Accepted {
    certificates::expiry(bytes);
    let expires = certificates::expiry(pem("CERTIFICATE", bytes).as_bytes());
    let holder = certificates::holder(bytes).ok()??;
    assert!(!holder.user.name.is_empty() && holder.user.is_in(AUTHENTICATED));
    assert_eq!(expires, Some(holder.expires));
    Some(())
}

/// All functions read a certificate request in the same way. The input is the content of the PEM block.
pub fn certificate_request(bytes: &[u8]) -> Accepted {
    let _ = CertificateRequest::from_pem(bytes);
    let text = pem("CERTIFICATE REQUEST", bytes);
    let groups = certificates::requested_groups(&STANDARD.encode(&text));
    let request = CertificateRequest::from_pem(text.as_bytes()).ok()?;
    assert_eq!(groups.as_ref(), Ok(&request.organizations));
    request.is_signed();
    Some(())
}

static TOKENS: LazyLock<Tokens> = LazyLock::new(|| {
    let directory = tempfile::tempdir().expect("a directory");
    Tokens::new(ISSUER, KeyRing::open(directory.path()).expect("keys"))
});

/// A token without a valid signature is rejected. The input is the three parts of a token, one per line.
pub fn token(bytes: &[u8]) -> Accepted {
    let whole = text(bytes)?;
    assert!(TOKENS.verify(whole, "root", None, 0).is_err());
    let parts: [&str; 3] = lines(bytes)?;
    let token = parts.map(|part| URL_SAFE_NO_PAD.encode(part)).join(".");
    for workspace in ["root", "a"] {
        assert!(TOKENS.verify(&token, workspace, None, 1_794_730_041).is_err());
    }
    json::parse(parts[1].as_bytes()).ok().map(|_| ())
}

/// Any valid claims belong to a ServiceAccount.
pub fn claims(bytes: &[u8]) -> Accepted {
    let parsed = json::parse(bytes).ok()?;
    for is_legacy in [false, true] {
        let Ok(claims) = Claims::read(&parsed.value, is_legacy) else { continue };
        let _ = claims.check_time(1_794_730_041);
        let user = claims.user();
        assert!(user.name.starts_with("system:serviceaccount:"));
        assert!(!user.is_in("system:masters"));
    }
    Claims::read(&parsed.value, true).ok().map(|_| ())
}

/// A token file is parsed or rejected, and the error does not contain a token.
pub fn token_file(bytes: &[u8]) -> Accepted {
    let text = text(bytes)?;
    match text.parse::<TokenFile>() {
        Ok(tokens) => {
            // A line may be a header, and its first field is often a token.
            let headers = text.lines().filter_map(bearer_token);
            let fields = text.lines().map(|line| line.split(',').next().unwrap_or_default());
            for user in headers.chain(fields).filter_map(|token| tokens.user(token)) {
                assert!(user.is_in(AUTHENTICATED));
            }
            Some(())
        }
        Err(error) => {
            assert!(error.to_string().len() < 200);
            None
        }
    }
}

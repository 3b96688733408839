//! Tokens of ServiceAccounts: signed by a key of this server, good for one workspace and mostly for a while.
//!
//! ```text
//!  Subject ─► issue ─► header.claims.signature ─► verify ─► Claims ─► does it all still exist? (the server)
//!                │                                  │
//!              newest key                     any key that is kept (keys.rs), also as JWKS
//! ```
//!
//! The issuer names the workspace: the root's is the server's own, another's has `/clusters/` and the workspace's id behind
//! it. So nobody who trusts the tokens of one workspace can take those of another for them.

mod claims;
mod documents;
mod keys;

use aws_lc_rs::rand::SystemRandom;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};

use crate::Unauthorized;
pub use claims::{Claims, Reference};
pub use documents::{configuration, key_set};
pub use keys::{KeyRing, Keys, list, retire, rotate};

/// Who signs the tokens that lie in Secrets, whichever server it was.
const LEGACY_ISSUER: &str = "kubernetes/serviceaccount";
/// How the issuer of a workspace other than the root goes on.
const WORKSPACE: &str = "/clusters/";
/// Where a token without an issuer of its own says which workspace it is for.
const LEGACY_WORKSPACE: &str = "atoll.dev/workspace";
/// The workspace whose issuer is the server itself.
pub(crate) const ROOT: &str = "root";

/// Whom a token is for.
#[derive(Clone, Debug)]
pub struct Subject<'a> {
    /// Id, never a path.
    pub workspace: &'a str,
    pub namespace: &'a str,
    pub name: &'a str,
    pub uid: &'a str,
    /// What else must exist for the token to be good: claims by kind, as `pod: {name, uid}`.
    pub bound: Vec<(&'static str, Value)>,
}

/// From when to when a token is good, in seconds since 1970.
#[derive(Clone, Copy, Debug)]
pub struct Lifetime {
    pub from: i64,
    pub until: i64,
    /// From when on its use is remarkable.
    pub warn_after: Option<i64>,
}

/// Makes tokens and knows its own.
pub struct Tokens {
    /// The issuer of the root workspace.
    issuer: String,
    pub keys: KeyRing,
    random: SystemRandom,
}

impl Tokens {
    pub fn new(issuer: &str, keys: KeyRing) -> Self {
        Tokens { issuer: issuer.into(), keys, random: SystemRandom::new() }
    }

    /// Who signs for a workspace, and whom its tokens are meant for unless they say otherwise.
    pub fn issuer(&self, workspace: &str) -> String {
        match workspace {
            ROOT => self.issuer.clone(),
            id => format!("{}{WORKSPACE}{id}", self.issuer),
        }
    }

    /// A token for `subject`. `id` tells it from all others.
    pub fn issue(
        &self,
        subject: &Subject<'_>,
        audiences: &[String],
        id: &str,
        lifetime: Lifetime,
    ) -> Result<String, Unauthorized> {
        let mut own = json!({
            "namespace": subject.namespace,
            "serviceaccount": { "name": subject.name, "uid": subject.uid },
        });
        for (kind, claim) in &subject.bound {
            own[*kind] = claim.clone();
        }
        if let Some(after) = lifetime.warn_after {
            own["warnafter"] = after.into();
        }
        self.sign(&json!({
            "aud": audiences,
            "exp": lifetime.until,
            "iat": lifetime.from,
            "iss": self.issuer(subject.workspace),
            "jti": id,
            "kubernetes.io": own,
            "nbf": lifetime.from,
            "sub": format!("system:serviceaccount:{}:{}", subject.namespace, subject.name),
        }))
    }

    /// A token that is good for as long as it lies in the Secret of this name.
    pub fn issue_for_secret(&self, subject: &Subject<'_>, secret: &str) -> Result<String, Unauthorized> {
        let mut claims = json!({
            "iss": LEGACY_ISSUER,
            "kubernetes.io/serviceaccount/namespace": subject.namespace,
            "kubernetes.io/serviceaccount/secret.name": secret,
            "kubernetes.io/serviceaccount/service-account.name": subject.name,
            "kubernetes.io/serviceaccount/service-account.uid": subject.uid,
            "sub": format!("system:serviceaccount:{}:{}", subject.namespace, subject.name),
        });
        if subject.workspace != ROOT {
            claims[LEGACY_WORKSPACE] = subject.workspace.into();
        }
        self.sign(&claims)
    }

    fn sign(&self, claims: &Value) -> Result<String, Unauthorized> {
        let keys = self.keys.current();
        let header = json!({ "alg": "ES256", "kid": keys.signing.id() });
        let encode = |part: &Value| URL_SAFE_NO_PAD.encode(part.to_string());
        let message = format!("{}.{}", encode(&header), encode(claims));
        let signature = keys.signing.sign(&self.random, message.as_bytes())?;
        Ok(format!("{message}.{}", URL_SAFE_NO_PAD.encode(signature)))
    }

    /// What a token says, if it is one of ours, meant for one of `audiences` (the API, if none are named) and good at `now`.
    /// Whether what it speaks of still exists is another question.
    pub fn verify(
        &self,
        token: &str,
        workspace: &str,
        audiences: Option<&[String]>,
        now: i64,
    ) -> Result<Claims, Unauthorized> {
        let mut parts = token.split('.');
        let (Some(header), Some(payload), Some(signature), None) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(Unauthorized::Unknown);
        };
        // Not to be trusted yet; it only tells whether anyone here can judge the token.
        let claims = decode(payload)?;
        let issuer = claims["iss"].as_str().unwrap_or_default();
        let is_legacy = issuer == LEGACY_ISSUER;
        let own = self.issuer(workspace);
        let at_home = claims.get(LEGACY_WORKSPACE).map_or(ROOT, |own| own.as_str().unwrap_or_default());
        if issuer != own && !(is_legacy && at_home == workspace) {
            return Err(Unauthorized::Unknown);
        }
        let header = decode(header)?;
        let signature = URL_SAFE_NO_PAD.decode(signature).map_err(|_| Unauthorized::Unknown)?;
        let message = &token[..token.len() - signature_length(token)];
        self.check_signature(&header, message, &signature)?;
        let mut claims = Claims::read(&claims, is_legacy)?;
        let implicit = std::slice::from_ref(&own);
        let wanted = audiences.unwrap_or(implicit);
        let meant_for = if claims.audiences.is_empty() { implicit } else { &claims.audiences };
        let accepted: Vec<String> =
            wanted.iter().filter(|audience| meant_for.contains(audience)).cloned().collect();
        if accepted.is_empty() {
            return Err(Unauthorized::because(format!(
                "token audiences {} is invalid for the target audiences {}",
                quoted(meant_for),
                quoted(wanted)
            )));
        }
        claims.check_time(now)?;
        claims.audiences = accepted;
        Ok(claims)
    }

    fn check_signature(&self, header: &Value, message: &str, signature: &[u8]) -> Result<(), Unauthorized> {
        let keys = self.keys.current();
        let id = header["kid"].as_str().unwrap_or_default();
        let mut candidates = keys.verifying.iter().filter(|key| id.is_empty() || key.id() == id).peekable();
        if candidates.peek().is_none() {
            return Err(Unauthorized::because("invalid signature, no keys found"));
        }
        // One algorithm a key: a token does not choose how it is checked.
        let known = header["alg"] == "ES256" && header.get("crit").is_none();
        match known && candidates.any(|key| key.verifies(message.as_bytes(), signature)) {
            true => Ok(()),
            false => Err(Unauthorized::because("go-jose/go-jose: error in cryptographic primitive")),
        }
    }
}

/// The last part of a token, with the dot before it.
fn signature_length(token: &str) -> usize {
    token.rfind('.').map_or(0, |dot| token.len() - dot)
}

fn decode(part: &str) -> Result<Value, Unauthorized> {
    let bytes = URL_SAFE_NO_PAD.decode(part).map_err(|_| Unauthorized::Unknown)?;
    serde_json::from_slice(&bytes).map_err(|_| Unauthorized::Unknown)
}

/// As upstream shows lists of texts.
fn quoted(texts: &[String]) -> String {
    let quoted: Vec<String> = texts.iter().map(|text| format!("{text:?}")).collect();
    format!("[{}]", quoted.join(" "))
}

#[cfg(test)]
mod tests;

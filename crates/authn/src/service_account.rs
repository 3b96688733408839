//! Tokens of ServiceAccounts: signed by a key of this server, valid in one workspace and mostly for a limited
//! time.
//!
//! ```text
//!  Subject ─► issue ─► header.claims.signature ─► verify ─► Claims ─► check that the objects still exist (the server)
//!                │                                  │
//!              newest key                     any verifying key (keys.rs), published as JWKS
//! ```
//!
//! The issuer names the workspace: root's is the server's own, others append `/clusters/` and the workspace
//! ID. Thus tokens of one workspace are never accepted by parties that trust another one.

// upstream: pkg/serviceaccount/jwt.go

mod claims;
mod documents;
mod keys;

use atoll_meta::quote::quote_list;
use aws_lc_rs::rand::SystemRandom;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Map, Value, json};

use crate::Unauthorized;
pub use claims::{Claims, Reference};
pub use documents::{configuration, key_set};
pub use keys::{KeyRing, Keys, list, retire, rotate};

/// The issuer of tokens in Secrets, of any server.
const LEGACY_ISSUER: &str = "kubernetes/serviceaccount";
/// The suffix of the issuer of workspaces other than root.
const WORKSPACE: &str = "/clusters/";
/// The claim with the workspace, in tokens in Secrets.
const LEGACY_WORKSPACE: &str = "atoll.dev/workspace";
/// Claims that only this crate sets.
const RESERVED_CLAIMS: [&str; 9] =
    ["aud", "exp", "iat", "iss", "jti", "kubernetes.io", "nbf", "sub", LEGACY_WORKSPACE];
/// The workspace whose issuer is the server itself.
pub(crate) const ROOT: &str = "root";

/// The ServiceAccount that a token is issued to.
#[derive(Clone, Debug)]
pub struct Subject<'a> {
    /// The workspace ID, never a path.
    pub workspace: &'a str,
    pub namespace: &'a str,
    pub name: &'a str,
    pub uid: &'a str,
    /// Objects that must exist for the token to be valid: claims by kind, such as `pod: {name, uid}`.
    pub bound: Vec<(&'static str, Value)>,
}

/// The validity of a token, in seconds since 1970.
#[derive(Clone, Copy, Debug)]
pub struct Lifetime {
    pub from: i64,
    pub until: i64,
    /// The time after which its use is recorded.
    pub warn_after: Option<i64>,
}

/// Issues and verifies tokens.
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

    /// Returns the issuer of a workspace, which is also the default audience.
    pub fn issuer(&self, workspace: &str) -> String {
        match workspace {
            ROOT => self.issuer.clone(),
            id => format!("{}{WORKSPACE}{id}", self.issuer),
        }
    }

    /// Returns the ID of the workspace that a token claims to belong to, unless that is root. The token is not
    /// verified.
    pub fn claimed_workspace(&self, token: &str) -> Option<String> {
        let claims = decode(token.split('.').nth(1)?).ok()?;
        let id = match claims["iss"].as_str()? {
            LEGACY_ISSUER => claims[LEGACY_WORKSPACE].as_str()?,
            issuer => issuer.strip_prefix(&self.issuer)?.strip_prefix(WORKSPACE)?,
        };
        Some(id.to_string())
    }

    /// Issues a token for `subject`. `id` must be unique.
    pub fn issue(
        &self,
        subject: &Subject<'_>,
        audiences: &[String],
        id: &str,
        lifetime: Lifetime,
    ) -> Result<String, Unauthorized> {
        self.issue_with_claims(subject, audiences, id, lifetime, Map::new())
    }

    /// Issues a token with further claims, which cannot replace the others.
    pub fn issue_with_claims(
        &self,
        subject: &Subject<'_>,
        audiences: &[String],
        id: &str,
        lifetime: Lifetime,
        more: Map<String, Value>,
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
        let mut claims = json!({
            "aud": audiences,
            "exp": lifetime.until,
            "iat": lifetime.from,
            "iss": self.issuer(subject.workspace),
            "jti": id,
            "kubernetes.io": own,
            "nbf": lifetime.from,
            "sub": format!("system:serviceaccount:{}:{}", subject.namespace, subject.name),
        });
        for (name, claim) in more.into_iter().filter(|(name, _)| !RESERVED_CLAIMS.contains(&name.as_str())) {
            claims[name] = claim;
        }
        self.sign(&claims)
    }

    /// Issues a token that is valid while it is in the Secret of this name.
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

    /// Verifies a token for one of `audiences` (by default the API) at the time `now`, and returns its
    /// claims. The caller checks whether the objects that it refers to still exist.
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
        // Not verified yet; this only determines whether the token was issued by this server.
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
                quote_list(meant_for),
                quote_list(wanted)
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
        // Each key has one algorithm: the token does not choose how it is verified.
        let known = header["alg"] == "ES256" && header.get("crit").is_none();
        match known && candidates.any(|key| key.verifies(message.as_bytes(), signature)) {
            true => Ok(()),
            false => Err(Unauthorized::because("go-jose/go-jose: error in cryptographic primitive")),
        }
    }
}

/// Returns the length of the last part of a token, including the dot.
fn signature_length(token: &str) -> usize {
    token.rfind('.').map_or(0, |dot| token.len() - dot)
}

fn decode(part: &str) -> Result<Value, Unauthorized> {
    let bytes = URL_SAFE_NO_PAD.decode(part).map_err(|_| Unauthorized::Unknown)?;
    serde_json::from_slice(&bytes).map_err(|_| Unauthorized::Unknown)
}

#[cfg(test)]
mod tests;

//! Tokens of ServiceAccounts: signed by a key of this server, good for one workspace and for a while.

use std::path::Path;

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _, UnparsedPublicKey,
};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use rustls::pki_types::PrivatePkcs8KeyDer;
use rustls::pki_types::pem::PemObject;
use serde_json::{Value, json};

use crate::authority::{AuthorityError, read, unusable, write_private};
use crate::{AUDIENCE, Unauthorized, User};

/// How far clocks may be apart.
const LEEWAY: i64 = 60;

/// Makes tokens and knows its own.
pub struct TokenKey {
    pair: EcdsaKeyPair,
    id: String,
    random: SystemRandom,
}

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

/// A token that is what it says it is.
#[derive(Clone, Debug)]
pub struct Verified {
    pub user: User,
    pub workspace: String,
    pub namespace: String,
    pub name: String,
    /// The claims about Kubernetes objects.
    pub claims: Value,
}

impl TokenKey {
    /// Reads `service-account.key` from `directory`, or makes it.
    pub fn open(directory: &Path) -> Result<Self, AuthorityError> {
        let path = directory.join("service-account.key");
        if !path.exists() {
            let made = rcgen::KeyPair::generate().map_err(|error| unusable("service-account.key", &error))?;
            write_private(&path, &made.serialize_pem())?;
        }
        let unfit = |error: &dyn std::fmt::Display| unusable("service-account.key", &error.to_string());
        let text = read(&path)?;
        let der = PrivatePkcs8KeyDer::from_pem_slice(text.as_bytes()).map_err(|error| unfit(&error))?;
        let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, der.secret_pkcs8_der());
        let pair = pair.map_err(|error| unfit(&error))?;
        let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, pair.public_key().as_ref());
        Ok(TokenKey { pair, id: URL_SAFE_NO_PAD.encode(digest), random: SystemRandom::new() })
    }

    /// A token for `subject`, from `now` to `expires` (seconds since 1970). `id` tells it from all others.
    pub fn issue(
        &self,
        subject: &Subject<'_>,
        audiences: &[String],
        id: &str,
        now: i64,
        expires: i64,
    ) -> Result<String, Unauthorized> {
        let mut own = json!({
            "namespace": subject.namespace,
            "serviceaccount": { "name": subject.name, "uid": subject.uid },
        });
        for (kind, claim) in &subject.bound {
            own[*kind] = claim.clone();
        }
        let header = json!({ "alg": "ES256", "kid": self.id });
        let claims = json!({
            "iss": AUDIENCE,
            "sub": format!("system:serviceaccount:{}:{}", subject.namespace, subject.name),
            "aud": audiences,
            "iat": now,
            "nbf": now,
            "exp": expires,
            "jti": id,
            "kubernetes.io": own,
            "atoll.dev": { "workspace": subject.workspace },
        });
        let encode = |part: &Value| URL_SAFE_NO_PAD.encode(part.to_string());
        let message = format!("{}.{}", encode(&header), encode(&claims));
        let signature = self.pair.sign(&self.random, message.as_bytes()).map_err(|_| Unauthorized)?;
        Ok(format!("{message}.{}", URL_SAFE_NO_PAD.encode(signature)))
    }

    /// Whether the token is one of ours, meant for this API and good at `now`. Whether what it is bound to still exists
    /// is another question.
    pub fn verify(&self, token: &str, now: i64) -> Result<Verified, Unauthorized> {
        let (message, signature) = token.rsplit_once('.').ok_or(Unauthorized)?;
        let (header, claims) = message.split_once('.').ok_or(Unauthorized)?;
        let header = decode(header)?;
        if header["alg"] != "ES256" || header["kid"] != self.id.as_str() {
            return Err(Unauthorized);
        }
        let signature = URL_SAFE_NO_PAD.decode(signature).map_err(|_| Unauthorized)?;
        let public = UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, self.pair.public_key().as_ref());
        public.verify(message.as_bytes(), &signature).map_err(|_| Unauthorized)?;
        let claims = decode(claims)?;
        let time = |name: &str| claims[name].as_i64().ok_or(Unauthorized);
        let for_us = claims["aud"].as_array().is_some_and(|all| all.iter().any(|own| own == AUDIENCE));
        let in_time = time("exp")? > now - LEEWAY && time("nbf")? <= now + LEEWAY;
        if claims["iss"] != AUDIENCE || !for_us || !in_time {
            return Err(Unauthorized);
        }
        let own = &claims["kubernetes.io"];
        let text = |value: &Value| value.as_str().map(String::from).ok_or(Unauthorized);
        let (namespace, name) = (text(&own["namespace"])?, text(&own["serviceaccount"]["name"])?);
        let groups = vec!["system:serviceaccounts".into(), format!("system:serviceaccounts:{namespace}")];
        let user = User::authenticated(
            format!("system:serviceaccount:{namespace}:{name}"),
            text(&own["serviceaccount"]["uid"])?,
            groups,
        );
        let workspace = text(&claims["atoll.dev"]["workspace"])?;
        Ok(Verified { user, workspace, namespace, name, claims: own.clone() })
    }
}

fn decode(part: &str) -> Result<Value, Unauthorized> {
    let bytes = URL_SAFE_NO_PAD.decode(part).map_err(|_| Unauthorized)?;
    serde_json::from_slice(&bytes).map_err(|_| Unauthorized)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key() -> (tempfile::TempDir, TokenKey) {
        let directory = tempfile::tempdir().expect("a directory");
        let key = TokenKey::open(directory.path()).expect("a key");
        (directory, key)
    }

    fn token(key: &TokenKey, audience: &str) -> String {
        let bound = vec![("pod", json!({ "name": "p", "uid": "2" }))];
        let subject = Subject { workspace: "w", namespace: "n", name: "a", uid: "1", bound };
        key.issue(&subject, &[audience.into()], "id", 1000, 2000).expect("a token")
    }

    #[test]
    fn a_token_is_good_in_its_time_and_place() {
        let (directory, key) = key();
        let good = token(&key, AUDIENCE);
        let verified = key.verify(&good, 1500).expect("good");
        assert_eq!(verified.user.name, "system:serviceaccount:n:a");
        assert_eq!(verified.user.uid, "1");
        assert!(verified.user.is_in("system:serviceaccounts:n"));
        assert_eq!((verified.workspace.as_str(), &verified.claims["pod"]["name"]), ("w", &json!("p")));
        let again = TokenKey::open(directory.path()).expect("the same key");
        assert!(again.verify(&good, 1500).is_ok(), "a restart changes nothing");
        assert!(key.verify(&good, 2061).is_err(), "expired");
        assert!(key.verify(&good, 900).is_err(), "not yet");
        assert!(key.verify(&token(&key, "elsewhere"), 1500).is_err(), "for somebody else");
    }

    #[test]
    fn what_was_tampered_with_is_refused() {
        let (_directory, key) = key();
        let (_other_directory, other) = self::key();
        let good = token(&key, AUDIENCE);
        let parts: Vec<&str> = good.split('.').collect();
        let none = URL_SAFE_NO_PAD.encode(json!({ "alg": "none", "kid": key.id }).to_string());
        let claims = URL_SAFE_NO_PAD.encode(json!({ "sub": "admin" }).to_string());
        let forged = [
            format!("{none}.{}.", parts[1]),
            format!("{none}.{}.{}", parts[1], parts[2]),
            format!("{}.{claims}.{}", parts[0], parts[2]),
            format!("{}.{}", parts[0], parts[1]),
            token(&other, AUDIENCE),
            String::new(),
            "..".into(),
        ];
        for forged in forged {
            assert!(key.verify(&forged, 1500).is_err(), "{forged}");
        }
    }
}

//! The claims of a token with a verified signature.

// upstream: pkg/serviceaccount/claims.go
// upstream: pkg/serviceaccount/legacy.go

use std::collections::BTreeMap;

use serde_json::Value;

use crate::{AUTHENTICATED, Unauthorized, User};

/// Seconds by which clocks may differ.
pub const LEEWAY: i64 = 60;

const EXTRA: &str = "authentication.kubernetes.io/";

/// An object that a token refers to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reference {
    pub name: String,
    /// Empty if it is not known.
    pub uid: String,
}

#[derive(Clone, Debug)]
pub struct Claims {
    /// Whether the token is in a Secret and valid as long as it is.
    pub is_legacy: bool,
    /// Audiences; after verification, those that were requested.
    pub audiences: Vec<String>,
    pub namespace: String,
    pub account: Reference,
    pub pod: Option<Reference>,
    pub secret: Option<Reference>,
    pub node: Option<Reference>,
    pub id: String,
    /// The time after which its use is recorded.
    pub warn_after: Option<i64>,
    subject: String,
    not_before: Option<i64>,
    expires: Option<i64>,
    issued: Option<i64>,
}

impl Claims {
    /// Reads the claims. The caller has verified the signature.
    pub fn read(claims: &Value, is_legacy: bool) -> Result<Claims, Unauthorized> {
        let own = &claims["kubernetes.io"];
        let time = |value: &Value| value.as_f64().map(|seconds| seconds as i64);
        let mut read = Claims {
            is_legacy,
            audiences: texts(&claims["aud"]),
            namespace: text(&own["namespace"]),
            account: reference(&own["serviceaccount"]),
            pod: own.get("pod").map(reference),
            secret: own.get("secret").map(reference),
            node: own.get("node").map(reference),
            id: text(&claims["jti"]),
            warn_after: time(&own["warnafter"]),
            subject: text(&claims["sub"]),
            not_before: time(&claims["nbf"]),
            expires: time(&claims["exp"]),
            issued: time(&claims["iat"]),
        };
        if is_legacy {
            read.read_legacy(claims)?;
        }
        Ok(read)
    }

    fn read_legacy(&mut self, claims: &Value) -> Result<(), Unauthorized> {
        let claim = |name: &str, shown: &str| {
            let value = text(&claims[format!("kubernetes.io/serviceaccount/{name}")]);
            match value.is_empty() {
                true => Err(Unauthorized::because(format!("{shown} claim is missing"))),
                false => Ok(value),
            }
        };
        if self.subject.is_empty() {
            return Err(Unauthorized::because("sub claim is missing"));
        }
        self.namespace = claim("namespace", "namespace")?;
        let secret = claim("secret.name", "secretName")?;
        let name = claim("service-account.name", "serviceAccountName")?;
        let uid = claim("service-account.uid", "serviceAccountUID")?;
        if self.subject != username(&self.namespace, &name) {
            return Err(Unauthorized::because("sub claim is invalid"));
        }
        self.account = Reference { name, uid };
        self.secret = Some(Reference { name: secret, uid: String::new() });
        // These claims only occur in other tokens.
        (self.pod, self.node, self.id) = (None, None, String::new());
        (self.not_before, self.expires, self.issued) = (None, None, None);
        Ok(())
    }

    /// Checks the validity at a time, in seconds since 1970.
    pub fn check_time(&self, now: i64) -> Result<(), Unauthorized> {
        let problem = if self.not_before.is_some_and(|time| now + LEEWAY < time) {
            "service account token is not valid yet"
        } else if self.expires.is_some_and(|time| now - LEEWAY > time) {
            "service account token has expired"
        } else if self.issued.is_some_and(|time| now + LEEWAY < time) {
            "service account token is issued in the future"
        } else {
            return Ok(());
        };
        Err(Unauthorized::because(problem))
    }

    /// Returns the user of a valid token.
    pub fn user(&self) -> User {
        let mut extra = BTreeMap::new();
        let mut set = |name: &str, value: String| drop(extra.insert(format!("{EXTRA}{name}"), vec![value]));
        if let Some(pod) = self.pod.as_ref().filter(|pod| !pod.name.is_empty() && !pod.uid.is_empty()) {
            set("pod-name", pod.name.clone());
            set("pod-uid", pod.uid.clone());
        }
        if !self.id.is_empty() {
            set("credential-id", format!("JTI={}", self.id));
        }
        if let Some(node) = self.node.as_ref().filter(|node| !node.name.is_empty()) {
            set("node-name", node.name.clone());
            if !node.uid.is_empty() {
                set("node-uid", node.uid.clone());
            }
        }
        User {
            name: username(&self.namespace, &self.account.name),
            uid: self.account.uid.clone(),
            groups: vec![
                "system:serviceaccounts".into(),
                format!("system:serviceaccounts:{}", self.namespace),
                AUTHENTICATED.into(),
            ],
            extra,
            home: None,
        }
    }
}

fn username(namespace: &str, name: &str) -> String {
    format!("system:serviceaccount:{namespace}:{name}")
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_string()
}

fn texts(value: &Value) -> Vec<String> {
    match value {
        Value::String(one) => vec![one.clone()],
        Value::Array(several) => several.iter().filter_map(Value::as_str).map(String::from).collect(),
        _ => Vec::new(),
    }
}

fn reference(value: &Value) -> Reference {
    Reference { name: text(&value["name"]), uid: text(&value["uid"]) }
}

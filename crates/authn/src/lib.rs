//! Who is asking: client certificates, static tokens, tokens of ServiceAccounts, or nobody in particular.
//!
//! ```text
//!  client certificate (already verified against the CA by TLS) ─┐
//!  Authorization: Bearer … ─┬─ TokenFile ───────────────────────┼─► User ─► authz
//!                           └─ TokenKey, ServiceAccounts' own ──┤
//!  neither ── system:anonymous ─────────────────────────────────┘
//! ```
//!
//! A credential that is offered and wrong is an error; it never falls back to anonymous.

pub mod authority;
pub mod certificate;
pub mod service_account;
pub mod token_file;

use std::collections::BTreeMap;

use token_file::TokenFile;

pub const ANONYMOUS: &str = "system:anonymous";
pub const AUTHENTICATED: &str = "system:authenticated";
pub const UNAUTHENTICATED: &str = "system:unauthenticated";
pub const MASTERS: &str = "system:masters";

/// Whom tokens are meant for unless they say otherwise.
pub const AUDIENCE: &str = "https://kubernetes.default.svc";

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    pub name: String,
    pub uid: String,
    pub groups: Vec<String>,
    /// What else is known of them, by key.
    pub extra: BTreeMap<String, Vec<String>>,
}

/// The credential is not one of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unauthorized;

#[derive(Default)]
pub struct Authenticator {
    pub tokens: TokenFile,
}

impl User {
    pub fn anonymous() -> Self {
        User {
            name: ANONYMOUS.into(),
            uid: String::new(),
            groups: vec![UNAUTHENTICATED.into()],
            extra: BTreeMap::new(),
        }
    }

    /// A user that has proven who they are.
    pub fn authenticated(name: String, uid: String, mut groups: Vec<String>) -> Self {
        if !groups.iter().any(|group| group == AUTHENTICATED) {
            groups.push(AUTHENTICATED.into());
        }
        User { name, uid, groups, extra: BTreeMap::new() }
    }

    pub fn is_in(&self, group: &str) -> bool {
        self.groups.iter().any(|own| own == group)
    }
}

impl Authenticator {
    /// `certificate` is the user of a verified client certificate, `authorization` the header of that name.
    pub fn authenticate(
        &self,
        certificate: Option<&User>,
        authorization: Option<&str>,
    ) -> Result<User, Unauthorized> {
        if let Some(user) = certificate {
            return Ok(user.clone());
        }
        match authorization.and_then(bearer_token) {
            Some(token) => self.tokens.user(token).cloned().ok_or(Unauthorized),
            None => Ok(User::anonymous()),
        }
    }
}

/// The token of `Bearer TOKEN`; other schemes are not ours to judge, as upstream sees it.
pub fn bearer_token(header: &str) -> Option<&str> {
    let (scheme, token) = header.trim().split_once(' ')?;
    let token = token.split(' ').next().unwrap_or_default();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn authenticator() -> Authenticator {
        Authenticator { tokens: "secret,ann,7,\"dev,ops\"".parse().unwrap() }
    }

    #[test]
    fn a_wrong_credential_is_refused_and_none_is_anonymous() {
        let authenticator = authenticator();
        let ann = User::authenticated("ann".into(), "7".into(), vec!["dev".into(), "ops".into()]);
        let cases: &[(Option<&str>, Result<User, Unauthorized>)] = &[
            (None, Ok(User::anonymous())),
            (Some("Bearer secret"), Ok(ann.clone())),
            (Some("bearer secret"), Ok(ann)),
            (Some("Bearer wrong"), Err(Unauthorized)),
            (Some("Bearer "), Ok(User::anonymous())),
            (Some("Basic c2VjcmV0"), Ok(User::anonymous())),
        ];
        for (header, expected) in cases {
            assert_eq!(&authenticator.authenticate(None, *header), expected, "{header:?}");
        }
    }

    #[test]
    fn a_client_certificate_comes_before_a_token() {
        let user = User::authenticated("eve".into(), String::new(), Vec::new());
        let seen = authenticator().authenticate(Some(&user), Some("Bearer secret")).unwrap();
        assert_eq!(seen.name, "eve");
        assert!(seen.is_in(AUTHENTICATED));
    }
}

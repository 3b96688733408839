//! Who is asking: client certificates, static tokens, tokens of ServiceAccounts, or nobody in particular.
//!
//! ```text
//!  client certificate (already verified against the CA by TLS) ─┐
//!  Authorization: Bearer … ─┬─ TokenFile ───────────────────────┼─► User ─► authz
//!                           └─ Tokens, of ServiceAccounts ───────┤
//!  neither ── system:anonymous ─────────────────────────────────┘
//! ```
//!
//! A credential that is offered and wrong is an error; it never falls back to anonymous.

pub mod authority;
pub mod certificate;
pub mod request;
pub mod service_account;
pub mod token_file;

use std::collections::BTreeMap;
use std::fmt;

use token_file::TokenFile;

pub const ANONYMOUS: &str = "system:anonymous";
pub const AUTHENTICATED: &str = "system:authenticated";
pub const UNAUTHENTICATED: &str = "system:unauthenticated";
pub const MASTERS: &str = "system:masters";
/// The key in a user's `extra` for the id of the only workspace that the user is known in.
pub const HOME: &str = "authentication.atoll.dev/workspace";

/// Who signs tokens, and whom they are meant for unless they say otherwise.
pub const ISSUER: &str = "https://kubernetes.default.svc";

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    pub name: String,
    pub uid: String,
    pub groups: Vec<String>,
    /// What else is known of them, by key.
    pub extra: BTreeMap<String, Vec<String>>,
    /// The id of the workspace in which this name means anything; `None` if it means the same everywhere. ServiceAccounts and
    /// certificates of a workspace have one. Bindings of other workspaces never apply to them, even if the name is the same.
    pub home: Option<String>,
}

/// Why a credential does not say who someone is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unauthorized {
    /// It is not one of ours.
    Unknown,
    /// It is, or pretends to be, but is not good here and now.
    Refused(String),
}

#[derive(Default)]
pub struct Authenticator {
    pub tokens: TokenFile,
}

impl Unauthorized {
    pub fn because(reason: impl Into<String>) -> Self {
        Unauthorized::Refused(reason.into())
    }
}

impl fmt::Display for Unauthorized {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unauthorized::Unknown => f.write_str("invalid bearer token"),
            Unauthorized::Refused(reason) => f.write_str(reason),
        }
    }
}

impl User {
    pub fn anonymous() -> Self {
        User {
            name: ANONYMOUS.into(),
            uid: String::new(),
            groups: vec![UNAUTHENTICATED.into()],
            extra: BTreeMap::new(),
            home: None,
        }
    }

    /// A user that has proven who they are.
    pub fn authenticated(name: String, uid: String, mut groups: Vec<String>) -> Self {
        if !groups.iter().any(|group| group == AUTHENTICATED) {
            groups.push(AUTHENTICATED.into());
        }
        User { name, uid, groups, extra: BTreeMap::new(), home: None }
    }

    /// The same user, known in one workspace only.
    ///
    /// Below the root this is also part of the user's `extra`, so that it survives a TokenReview that is followed by a
    /// SubjectAccessReview, and a CertificateSigningRequest.
    #[must_use]
    pub fn of_workspace(mut self, id: &str) -> Self {
        if id == service_account::ROOT {
            self.extra.remove(HOME);
        } else {
            self.extra.insert(HOME.into(), vec![id.into()]);
        }
        self.home = Some(id.into());
        self
    }

    pub fn is_in(&self, group: &str) -> bool {
        self.groups.iter().any(|own| own == group)
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

    #[test]
    fn only_a_bearers_token_is_read() {
        let cases: &[(&str, Option<&str>)] = &[
            ("Bearer secret", Some("secret")),
            ("bearer secret", Some("secret")),
            (" BEARER secret ", Some("secret")),
            ("Bearer secret more", Some("secret")),
            ("Bearer ", None),
            ("Bearer  secret", None),
            ("Basic c2VjcmV0", None),
            ("", None),
        ];
        for (header, expected) in cases {
            assert_eq!(bearer_token(header), *expected, "{header:?}");
        }
    }
}

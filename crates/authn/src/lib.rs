//! Authentication: client certificates, static tokens, tokens of ServiceAccounts, or anonymous.
//!
//! ```text
//!  client certificate (already verified against the CA by TLS) ─┐
//!  Authorization: Bearer … ─┬─ TokenFile ───────────────────────┼─► User ─► authz
//!                           └─ Tokens, of ServiceAccounts ───────┤
//!  neither ── system:anonymous ─────────────────────────────────┘
//! ```
//!
//! An invalid credential is an error; it never falls back to anonymous.

// upstream: staging/src/k8s.io/apiserver/pkg/authentication/request/bearertoken/bearertoken.go
// upstream: staging/src/k8s.io/apiserver/pkg/authentication/request/anonymous/anonymous.go

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
/// The key in a user's `extra` for the ID of the only workspace that the user is known in.
pub const HOME: &str = "authentication.atoll.dev/workspace";

/// The issuer of tokens, and their default audience.
pub const ISSUER: &str = "https://kubernetes.default.svc";

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    pub name: String,
    pub uid: String,
    pub groups: Vec<String>,
    /// Further attributes of the user, by key.
    pub extra: BTreeMap<String, Vec<String>>,
    /// The ID of the workspace in which this name is valid; `None` if it is valid everywhere. ServiceAccounts
    /// and certificates of a workspace have one. Bindings of other workspaces never apply to them, even if
    /// the name is the same.
    pub home: Option<String>,
}

/// The reason why a credential is not accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unauthorized {
    /// The credential is not known to this server.
    Unknown,
    /// The credential was issued by this server, or claims so, but is not valid here and now.
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

    /// Returns an authenticated user.
    pub fn authenticated(name: String, uid: String, mut groups: Vec<String>) -> Self {
        if !groups.iter().any(|group| group == AUTHENTICATED) {
            groups.push(AUTHENTICATED.into());
        }
        User { name, uid, groups, extra: BTreeMap::new(), home: None }
    }

    /// Limits the user to one workspace.
    ///
    /// Below root this is also recorded in the user's `extra`, so that it survives a TokenReview that is
    /// followed by a SubjectAccessReview, and a CertificateSigningRequest.
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

/// Returns the token of `Bearer TOKEN`; other schemes are ignored, as upstream.
pub fn bearer_token(header: &str) -> Option<&str> {
    let (scheme, token) = header.trim().split_once(' ')?;
    let token = token.split(' ').next().unwrap_or_default();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_bearer_tokens_are_parsed() {
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

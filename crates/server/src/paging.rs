//! Continue tokens: the position and revision at which a list continues, in upstream's format.

// upstream: staging/src/k8s.io/apiserver/pkg/storage/continue.go

use atoll_meta::{Status, json};
use atoll_registry::PageStart;
use base64::Engine;
use base64::alphabet::URL_SAFE;
use base64::engine::general_purpose::{GeneralPurpose, NO_PAD};
use serde_json::json;

const VERSION: &str = "meta.k8s.io/v1";

/// Like Go, accept trailing bits.
const BASE64: GeneralPurpose = GeneralPurpose::new(&URL_SAFE, NO_PAD.with_decode_allow_trailing_bits(true));

/// A decoded continue token.
#[derive(Debug, PartialEq, Eq)]
pub struct Token {
    /// `None` means the current revision: the token was issued because its revision had expired.
    pub revision: Option<u64>,
    /// The key of the last returned object, without the list's prefix.
    pub after: String,
    /// Number of remaining objects when the token was issued, so that they need not be counted again at its
    /// revision.
    pub rest: Option<Remaining>,
}

/// Number of remaining objects of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Remaining {
    pub count: usize,
    /// A hash of the list's scope: in another namespace the token denotes another list, as upstream.
    pub of: u64,
}

impl Token {
    /// Returns the start of the next page.
    pub fn start(&self) -> PageStart<'_> {
        let rest = self.rest.map(|rest| rest.count);
        PageStart { after: &self.after, remaining: rest, is_restart: self.revision.is_none() }
    }

    pub fn encode(revision: Option<u64>, after: &str, rest: Option<Remaining>) -> String {
        let revision = revision.map_or(json!(-1), |revision| json!(revision));
        // The next key is the smallest one after the last: the same with a zero byte.
        let mut token = json!({ "v": VERSION, "rv": revision, "start": format!("{after}\0") });
        // Upstream's decoder ignores unknown fields.
        if let Some(rest) = rest {
            token["rest"] = json!([rest.count, format!("{:x}", rest.of)]);
        }
        BASE64.encode(json::to_vec(&token))
    }

    pub fn decode(text: &str) -> Result<Token, Status> {
        let invalid = |message: String| Status::bad_request(format!("invalid continue token: {message}"));
        let bytes = BASE64.decode(text).map_err(|error| {
            let at = match error {
                base64::DecodeError::InvalidByte(position, _) => position,
                _ => text.len(),
            };
            invalid(format!("continue key is not valid: illegal base64 data at input byte {at}"))
        })?;
        let parsed = json::parse(&bytes).map_err(|error| {
            invalid(format!("continue key is not valid: {}", error.standard_library_message()))
        })?;
        let token = parsed.value;
        let version = token["v"].as_str().unwrap_or_default();
        if version != VERSION {
            let message = "continue key is not valid: server does not recognize this encoded version";
            return Err(invalid(format!("{message} {version}")));
        }
        let revision = match token["rv"].as_i64() {
            None | Some(0) => {
                return Err(invalid(
                    "continue key is not valid: incorrect encoded start resourceVersion (version meta.k8s.io/v1)".into(),
                ));
            }
            Some(revision) => u64::try_from(revision).ok(),
        };
        let start = token["start"].as_str().unwrap_or_default();
        if start.is_empty() {
            return Err(invalid(
                "continue key is not valid: encoded start key empty (version meta.k8s.io/v1)".into(),
            ));
        }
        // A start is a name, or a namespace and a name. Relative segments are refused.
        let relative = start.strip_prefix('/').unwrap_or(start);
        if relative.split('/').any(|segment| matches!(segment, "" | "." | "..")) {
            return Err(invalid(format!("continue key is not valid: {start}")));
        }
        let after = relative.strip_suffix('\0').unwrap_or(relative).to_string();
        let count = token["rest"][0].as_u64().and_then(|count| usize::try_from(count).ok());
        let of = token["rest"][1].as_str().and_then(|of| u64::from_str_radix(of, 16).ok());
        let rest = count.zip(of).map(|(count, of)| Remaining { count, of });
        // The count is meaningless without a revision.
        Ok(Token { revision, after, rest: rest.filter(|_| revision.is_some()) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_round_trip() {
        let three = Some(Remaining { count: 3, of: u64::MAX });
        for (revision, after, rest) in [(Some(7), "default/a", three), (None, "x", None)] {
            let token = Token::decode(&Token::encode(revision, after, rest)).unwrap();
            assert_eq!(token, Token { revision, after: after.into(), rest });
        }
    }

    #[test]
    fn a_token_without_revision_has_no_remaining_count() {
        for (revision, rest) in [(Some(7), Some(3)), (None, None)] {
            let three = Some(Remaining { count: 3, of: 1 });
            let token = Token::decode(&Token::encode(revision, "a", three)).unwrap();
            assert_eq!(
                (token.start().remaining, token.start().is_restart),
                (rest, revision.is_none()),
                "{revision:?}"
            );
        }
    }

    #[test]
    fn upstream_tokens_are_decoded() {
        let upstream = "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MjMyLCJzdGFydCI6ImRlZmF1bHQva3ViZS1yb290LWNhLmNydFx1MDAwMCJ9";
        let token = Token::decode(upstream).unwrap();
        assert_eq!(
            token,
            Token { revision: Some(232), after: "default/kube-root-ca.crt".into(), rest: None }
        );
        let with_slash = "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MjMyLCJzdGFydCI6Ii9nb2xkZW4vYVx1MDAwMCJ9";
        assert_eq!(Token::decode(with_slash).unwrap().after, "golden/a");
    }

    #[test]
    fn invalid_tokens_are_explained() {
        let message = |text: &str| Token::decode(text).unwrap_err().message().to_string();
        assert_eq!(
            message("xx"),
            "invalid continue token: continue key is not valid: invalid character '\\xc7' looking for beginning of value"
        );
        assert!(message("!").contains("illegal base64 data at input byte 0"));
        let encode = |json: &str| BASE64.encode(json);
        assert!(
            message(&encode(r#"{"v":"x","rv":1,"start":"a"}"#))
                .ends_with("server does not recognize this encoded version x")
        );
        assert!(
            message(&encode(r#"{"v":"meta.k8s.io/v1","rv":0,"start":"a"}"#))
                .contains("incorrect encoded start resourceVersion")
        );
        assert!(
            message(&encode(r#"{"v":"meta.k8s.io/v1","rv":1,"start":""}"#))
                .contains("encoded start key empty")
        );
        assert!(
            message(&encode(r#"{"v":"meta.k8s.io/v1","rv":1,"start":"../x"}"#)).ends_with("not valid: ../x")
        );
    }
}

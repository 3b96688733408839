//! Continue tokens: where a list goes on, and at which revision. The form is upstream's.

use atoll_meta::{Status, json};
use atoll_registry::Start;
use base64::Engine;
use base64::alphabet::URL_SAFE;
use base64::engine::general_purpose::{GeneralPurpose, NO_PAD};
use serde_json::json;

const VERSION: &str = "meta.k8s.io/v1";

/// Go does not mind bits behind the last byte.
const BASE64: GeneralPurpose = GeneralPurpose::new(&URL_SAFE, NO_PAD.with_decode_allow_trailing_bits(true));

/// What a token says.
#[derive(Debug, PartialEq, Eq)]
pub struct Token {
    /// `None`: whatever is current, from a token that was handed out because its revision had expired.
    pub revision: Option<u64>,
    /// What follows the list's prefix in the key of the last object sent.
    pub after: String,
    /// How many objects were left when the token was handed out, so that they need not be counted again at its revision.
    pub rest: Option<Rest>,
}

/// How many objects are left of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rest {
    pub count: usize,
    /// A hash of what was listed: in another namespace the token means another list, as upstream has it.
    pub of: u64,
}

impl Token {
    /// Where the next page begins.
    pub fn start(&self) -> Start<'_> {
        let rest = self.rest.map(|rest| rest.count);
        Start { after: &self.after, rest, is_anew: self.revision.is_none() }
    }

    pub fn encode(revision: Option<u64>, after: &str, rest: Option<Rest>) -> String {
        let revision = revision.map_or(json!(-1), |revision| json!(revision));
        // The next key is the smallest one behind the last: the same with a zero byte.
        let mut token = json!({ "v": VERSION, "rv": revision, "start": format!("{after}\0") });
        // Upstream's decoder ignores what it does not know.
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
        // A start is a name or a namespace and a name; anything that climbs out of the list is refused.
        let relative = start.strip_prefix('/').unwrap_or(start);
        if relative.split('/').any(|segment| matches!(segment, "" | "." | "..")) {
            return Err(invalid(format!("continue key is not valid: {start}")));
        }
        let after = relative.strip_suffix('\0').unwrap_or(relative).to_string();
        let count = token["rest"][0].as_u64().and_then(|count| usize::try_from(count).ok());
        let of = token["rest"][1].as_str().and_then(|of| u64::from_str_radix(of, 16).ok());
        let rest = count.zip(of).map(|(count, of)| Rest { count, of });
        // Of a revision that has expired the count says nothing.
        Ok(Token { revision, after, rest: rest.filter(|_| revision.is_some()) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_encoded_comes_back() {
        let three = Some(Rest { count: 3, of: u64::MAX });
        for (revision, after, rest) in [(Some(7), "default/a", three), (None, "x", None)] {
            let token = Token::decode(&Token::encode(revision, after, rest)).unwrap();
            assert_eq!(token, Token { revision, after: after.into(), rest });
        }
    }

    #[test]
    fn a_token_without_a_revision_does_not_say_how_many_are_left() {
        for (revision, rest) in [(Some(7), Some(3)), (None, None)] {
            let three = Some(Rest { count: 3, of: 1 });
            let token = Token::decode(&Token::encode(revision, "a", three)).unwrap();
            assert_eq!(
                (token.start().rest, token.start().is_anew),
                (rest, revision.is_none()),
                "{revision:?}"
            );
        }
    }

    #[test]
    fn tokens_look_like_upstreams() {
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
    fn broken_tokens_are_explained() {
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

//! Image references, as far as the default pull policy depends on them.

// upstream: pkg/util/parsers/parsers.go
// upstream: github.com/distribution/reference/regexp.go

const LATEST: &str = "latest";
const NAME_LIMIT: usize = 255;

/// Returns the default pull policy: `Always` for the tag `latest`. Malformed references get `IfNotPresent`.
pub fn pull_policy(image: &str) -> &'static str {
    if tag(image) == Some(LATEST) { "Always" } else { "IfNotPresent" }
}

/// Returns the tag, which is `latest` if there is neither a tag nor a digest; `None` if there is only a
/// digest or the reference is malformed.
fn tag(image: &str) -> Option<&str> {
    // A reference cannot look like an image ID.
    if image.len() == 64 && image.bytes().all(is_lower_hex) {
        return None;
    }
    let (domain, rest) = match image.split_once('/') {
        Some((first, rest))
            if first == "localhost"
                || first.contains(['.', ':'])
                || first.bytes().any(|b| b.is_ascii_uppercase()) =>
        {
            (Some(first), rest)
        }
        _ => (None, image),
    };
    let (named, digest) = match rest.split_once('@') {
        Some((named, digest)) => (named, Some(digest)),
        None => (rest, None),
    };
    let (path, tag) = match named.split_once(':') {
        Some((path, tag)) => (path, Some(tag)),
        None => (named, None),
    };
    let is_reference = domain.is_none_or(|domain| is_domain(domain) || is_component(domain))
        && path.len() <= NAME_LIMIT
        && path.split('/').all(is_component)
        && tag.is_none_or(is_tag)
        && digest.is_none_or(is_digest);
    match (is_reference, tag, digest) {
        (true, None, None) => Some(LATEST),
        (true, tag, _) => tag,
        (false, ..) => None,
    }
}

fn is_lower_hex(byte: u8) -> bool {
    matches!(byte, b'0'..=b'9' | b'a'..=b'f')
}

/// Whether this is a host, optionally with a port.
fn is_domain(text: &str) -> bool {
    if let Some(bracketed) = text.strip_prefix('[') {
        let Some((address, port)) = bracketed.split_once(']') else { return false };
        let inside = |byte: u8| byte.is_ascii_hexdigit() || byte == b':';
        return !address.is_empty() && address.bytes().all(inside) && (port.is_empty() || is_port(port));
    }
    let (host, port) = text.split_at(text.find(':').unwrap_or(text.len()));
    let is_label = |label: &str| {
        let inside = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
        !label.is_empty() && label.bytes().all(inside) && !label.starts_with('-') && !label.ends_with('-')
    };
    host.split('.').all(is_label) && (port.is_empty() || is_port(port))
}

/// Whether this is a colon followed by digits.
fn is_port(text: &str) -> bool {
    text.strip_prefix(':')
        .is_some_and(|digits| !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()))
}

/// Whether this is a path component: lower-case letters and digits, with separators between them (one period,
/// one or two underscores, or any number of dashes).
fn is_component(text: &str) -> bool {
    let is_letter = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let mut rest = text.as_bytes();
    loop {
        let letters = rest.iter().take_while(|byte| is_letter(**byte)).count();
        if letters == 0 {
            return false;
        }
        rest = &rest[letters..];
        let separators = match rest {
            [] => return true,
            [b'_', b'_', ..] => 2,
            [b'.' | b'_', ..] => 1,
            _ => rest.iter().take_while(|byte| **byte == b'-').count(),
        };
        rest = &rest[separators..];
        if separators == 0 {
            return false;
        }
    }
}

fn is_tag(text: &str) -> bool {
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let mut bytes = text.bytes();
    text.len() <= 128
        && bytes.next().is_some_and(is_word)
        && bytes.all(|byte| is_word(byte) || byte == b'.' || byte == b'-')
}

fn is_digest(text: &str) -> bool {
    let Some((algorithm, digits)) = text.split_once(':') else { return false };
    let length = match algorithm {
        "sha256" => 64,
        "sha384" => 96,
        "sha512" => 128,
        _ => return false,
    };
    digits.len() == length && digits.bytes().all(is_lower_hex)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_latest_is_always_pulled() {
        let digest = format!("@sha256:{}", "a".repeat(64));
        for (image, always) in [
            ("web", true),
            ("web:latest", true),
            ("web:1.2", false),
            ("example.com:5000/team/web", true),
            ("example.com:5000/team/web:latest", true),
            ("[::1]:80/web", true),
            ("localhost/web:v1", false),
            ("Team/web", true),
            (&format!("web{digest}"), false),
            (&format!("web:latest{digest}"), true),
            ("", false),
            ("Web", false),
            ("web:", false),
            ("a b", false),
            ("web@sha256:abc", false),
            ("-web", false),
            ("a__b--c.d", true),
            ("a___b", false),
            (&"a".repeat(64), false),
        ] {
            assert_eq!(pull_policy(image) == "Always", always, "{image}");
        }
    }
}

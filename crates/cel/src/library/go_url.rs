//! URLs as Go's `net/url` parses them. Parts are bytes, because escapes can encode any byte.

// upstream: staging/src/k8s.io/apiserver/pkg/cel/library/urls.go
// Go standard library: src/net/url/url.go

mod escape;

use std::collections::BTreeMap;

use atoll_meta::quote::quote;

use super::address::check_bracketed;
use escape::{Part, escape, is_valid_encoding, unescape};

/// Maximum number of query parameters.
const MAX_PARAMETERS: usize = 10_000;

/// A parsed URL.
#[derive(Clone, Debug, Default)]
pub struct Url {
    scheme: String,
    opaque: String,
    /// User name and, if present, password.
    user: Option<(Vec<u8>, Option<Vec<u8>>)>,
    host: Vec<u8>,
    path: Vec<u8>,
    raw_path: String,
    raw_query: String,
    has_empty_query: bool,
    omits_host: bool,
    fragment: Vec<u8>,
    raw_fragment: String,
}

impl Url {
    /// Parses an absolute URL or an absolute path.
    pub fn parse(text: &str) -> Result<Url, String> {
        check(text)?;
        let (start, fragment) = text.split_once('#').unwrap_or((text, ""));
        let mut location = read(start, false).map_err(|reason| error(start, &reason))?;
        location.fragment = unescape(fragment, Part::Fragment).map_err(|reason| error(text, &reason))?;
        if escape(&location.fragment, Part::Fragment) != fragment {
            location.raw_fragment = fragment.to_owned();
        }
        Ok(location)
    }

    /// Returns the scheme in lower case, or an empty string.
    pub fn scheme(&self) -> &str {
        &self.scheme
    }

    /// Returns the host with its port.
    pub fn host(&self) -> String {
        text(&self.host)
    }

    /// Returns the host without port and brackets.
    pub fn hostname(&self) -> String {
        text(self.split_host().0)
    }

    /// Returns the port, or an empty string.
    pub fn port(&self) -> String {
        text(self.split_host().1)
    }

    fn split_host(&self) -> (&[u8], &[u8]) {
        let mut host = self.host.as_slice();
        let mut port: &[u8] = b"";
        if let Some(colon) = host.iter().rposition(|&byte| byte == b':')
            && host[colon + 1..].iter().all(u8::is_ascii_digit)
        {
            (host, port) = (&host[..colon], &host[colon + 1..]);
        }
        let inner = host.strip_prefix(b"[").and_then(|inner| inner.strip_suffix(b"]"));
        (inner.unwrap_or(host), port)
    }

    /// Returns the escaped path.
    pub fn escaped_path(&self) -> String {
        if is_faithful(&self.raw_path, &self.path, Part::Path) {
            return self.raw_path.clone();
        }
        if self.path == b"*" { "*".to_owned() } else { escape(&self.path, Part::Path) }
    }

    /// Returns the query parameters by name. Malformed ones are skipped.
    pub fn query(&self) -> BTreeMap<String, Vec<String>> {
        let mut parameters = BTreeMap::<String, Vec<String>>::new();
        if self.raw_query.split('&').count() > MAX_PARAMETERS {
            return parameters;
        }
        for pair in self.raw_query.split('&').filter(|pair| !pair.is_empty() && !pair.contains(';')) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            if let (Ok(name), Ok(value)) = (unescape(name, Part::Query), unescape(value, Part::Query)) {
                parameters.entry(text(&name)).or_default().push(text(&value));
            }
        }
        parameters
    }
}

/// Checks that a string is an absolute URL or an absolute path.
pub fn check(text: &str) -> Result<(), String> {
    read(text, true).map(drop).map_err(|reason| error(text, &reason))
}

fn error(text: &str, reason: &str) -> String {
    format!("parse {}: {reason}", quote(text))
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn is_faithful(raw: &str, bytes: &[u8], part: Part) -> bool {
    !raw.is_empty() && is_valid_encoding(raw, part) && unescape(raw, part).is_ok_and(|read| read == bytes)
}

fn read(text: &str, is_request: bool) -> Result<Url, String> {
    if text.bytes().any(|byte| byte.is_ascii_control()) {
        return Err("net/url: invalid control character in URL".to_owned());
    }
    if text.is_empty() && is_request {
        return Err("empty url".to_owned());
    }
    let mut location = Url::default();
    if text == "*" {
        location.path = b"*".to_vec();
        return Ok(location);
    }
    let (scheme, rest) = split_scheme(text)?;
    location.scheme = scheme.to_ascii_lowercase();
    let rest = match rest.split_once('?') {
        Some((before, "")) => {
            location.has_empty_query = true;
            before
        }
        Some((before, query)) => {
            query.clone_into(&mut location.raw_query);
            before
        }
        None => rest,
    };
    if !rest.starts_with('/') {
        if !location.scheme.is_empty() {
            rest.clone_into(&mut location.opaque);
            return Ok(location);
        }
        if is_request {
            return Err("invalid URI for request".to_owned());
        }
        if rest.split('/').next().is_some_and(|segment| segment.contains(':')) {
            return Err("first path segment in URL cannot contain colon".to_owned());
        }
    }
    let may_have_host = !location.scheme.is_empty() || !is_request && !rest.starts_with("///");
    let path = match rest.strip_prefix("//") {
        Some(after) if may_have_host => {
            let (authority, path) = after.split_at(after.find('/').unwrap_or(after.len()));
            read_authority(&mut location, authority)?;
            path
        }
        _ => {
            location.omits_host = !location.scheme.is_empty() && rest.starts_with('/');
            rest
        }
    };
    location.path = unescape(path, Part::Path)?;
    if escape(&location.path, Part::Path) != path {
        path.clone_into(&mut location.raw_path);
    }
    Ok(location)
}

fn split_scheme(text: &str) -> Result<(&str, &str), String> {
    for (index, byte) in text.bytes().enumerate() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' => {}
            b'0'..=b'9' | b'+' | b'-' | b'.' if index > 0 => {}
            b':' if index == 0 => return Err("missing protocol scheme".to_owned()),
            b':' => return Ok((&text[..index], &text[index + 1..])),
            _ => break,
        }
    }
    Ok(("", text))
}

fn read_authority(location: &mut Url, authority: &str) -> Result<(), String> {
    let (user, host) = match authority.rsplit_once('@') {
        Some((user, host)) => (Some(user), host),
        None => (None, authority),
    };
    location.host = read_host(&location.scheme, host)?;
    let Some(user) = user else {
        return Ok(());
    };
    if !user
        .chars()
        .all(|character| character.is_ascii_alphanumeric() || "-._:~!$&'()*+,;=%@".contains(character))
    {
        return Err("net/url: invalid userinfo".to_owned());
    }
    let (name, password) = match user.split_once(':') {
        Some((name, password)) => (name, Some(password)),
        None => (user, None),
    };
    let name = unescape(name, Part::User)?;
    let password = password.map(|password| unescape(password, Part::User)).transpose()?;
    location.user = Some((name, password));
    Ok(())
}

fn read_host(scheme: &str, host: &str) -> Result<Vec<u8>, String> {
    match host.rfind('[') {
        Some(0) => return read_bracketed(host),
        Some(_) => return Err("invalid IP-literal".to_owned()),
        None => {}
    }
    if let (Some(first), Some(last)) = (host.find(':'), host.rfind(':')) {
        let is_web = matches!(scheme, "http" | "https");
        check_port(&host[if is_web { first } else { last }..])?;
    }
    unescape(host, Part::Host)
}

/// Parses `[2001:db8::1%25eth0]:443`.
fn read_bracketed(host: &str) -> Result<Vec<u8>, String> {
    let Some(close) = host.rfind(']') else {
        return Err("missing ']' in host".to_owned());
    };
    let port = &host[close + 1..];
    check_port(port)?;
    let port = unescape(port, Part::Host)?;
    let name = &host[1..close];
    let name = match name.find("%25") {
        Some(zone) => {
            let mut unescaped = unescape(&name[..zone], Part::Host)?;
            unescaped.extend(unescape(&name[zone..], Part::Zone)?);
            unescaped
        }
        None => unescape(name, Part::Host)?,
    };
    check_bracketed(&text(&name))?;
    Ok([b"[", name.as_slice(), b"]", port.as_slice()].concat())
}

fn check_port(port: &str) -> Result<(), String> {
    let is_valid = match port.strip_prefix(':') {
        Some(digits) => digits.bytes().all(|digit| digit.is_ascii_digit()),
        None => port.is_empty(),
    };
    if is_valid { Ok(()) } else { Err(format!("invalid port {} after host", quote(port))) }
}

impl std::fmt::Display for Url {
    /// Reassembles the URL. URLs are equal if this is.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let has_authority = !self.host.is_empty() || self.user.is_some();
        if !self.scheme.is_empty() {
            write!(f, "{}:", self.scheme)?;
        }
        if self.opaque.is_empty() {
            let shows_authority = has_authority || !self.scheme.is_empty() && !self.omits_host;
            if shows_authority && (has_authority || !self.path.is_empty()) {
                f.write_str("//")?;
                if let Some((name, password)) = &self.user {
                    f.write_str(&escape(name, Part::User))?;
                    if let Some(password) = password {
                        write!(f, ":{}", escape(password, Part::User))?;
                    }
                    f.write_str("@")?;
                }
                f.write_str(&escape(&self.host, Part::Host))?;
            }
            let path = self.escaped_path();
            if !path.is_empty() && !path.starts_with('/') && !self.host.is_empty() {
                f.write_str("/")?;
            }
            f.write_str(&path)?;
        } else {
            f.write_str(&self.opaque)?;
        }
        if self.has_empty_query || !self.raw_query.is_empty() {
            write!(f, "?{}", self.raw_query)?;
        }
        if !self.fragment.is_empty() {
            let is_raw = is_faithful(&self.raw_fragment, &self.fragment, Part::Fragment);
            write!(
                f,
                "#{}",
                if is_raw { self.raw_fragment.clone() } else { escape(&self.fragment, Part::Fragment) }
            )?;
        }
        Ok(())
    }
}

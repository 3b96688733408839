//! Rewriting of links in proxied responses, so that they lead through the proxy.

// upstream: staging/src/k8s.io/apimachinery/pkg/util/proxy/transport.go

use http::HeaderMap;
use http::header::CONTENT_TYPE;

/// Attributes that contain links, by element.
const LINKS: [(&str, &[&str]); 25] = [
    ("a", &["href"]),
    ("applet", &["codebase"]),
    ("area", &["href"]),
    ("audio", &["src"]),
    ("base", &["href"]),
    ("blockquote", &["cite"]),
    ("body", &["background"]),
    ("button", &["formaction"]),
    ("command", &["icon"]),
    ("del", &["cite"]),
    ("embed", &["src"]),
    ("form", &["action"]),
    ("frame", &["longdesc", "src"]),
    ("head", &["profile"]),
    ("html", &["manifest"]),
    ("iframe", &["longdesc", "src"]),
    ("img", &["longdesc", "src", "usemap"]),
    ("input", &["src", "usemap", "formaction"]),
    ("ins", &["cite"]),
    ("link", &["href"]),
    ("object", &["classid", "codebase", "data", "usemap"]),
    ("q", &["cite"]),
    ("script", &["src"]),
    ("source", &["src"]),
    ("video", &["poster", "src"]),
];

/// Elements whose content is not parsed as HTML.
const RAW: [&str; 4] = ["script", "style", "textarea", "title"];

pub fn is_html(headers: &HeaderMap) -> bool {
    let kind = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    kind.split(';').next().unwrap_or_default().trim() == "text/html"
}

pub struct LinkRewriter {
    /// The request path up to and including `proxy`.
    pub before: String,
    /// Host and port of the backend.
    pub backend: String,
    /// The `Host` header of the client's request.
    pub host: String,
}

impl LinkRewriter {
    /// Returns the link that leads through the proxy to the same target.
    pub fn link(&self, link: &str) -> String {
        let scheme = link.find(':').filter(|end| {
            let text = &link[..*end];
            text.starts_with(|first: char| first.is_ascii_alphabetic())
                && text.chars().all(|other| other.is_ascii_alphanumeric() || "+-.".contains(other))
        });
        let after_scheme = scheme.map_or(link, |end| &link[end + 1..]);
        let (host, path) = match after_scheme.strip_prefix("//") {
            Some(rest) => rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len())),
            None => ("", after_scheme),
        };
        let is_elsewhere = !host.is_empty() && host != self.backend && host != self.host;
        if is_elsewhere || !path.starts_with('/') {
            return link.to_string();
        }
        // A link with the client's host keeps its origin.
        let origin =
            if host == self.host && !host.is_empty() { &link[..link.len() - path.len()] } else { "" };
        match path.starts_with(&self.before) {
            true => format!("{origin}{path}"),
            false => format!("{origin}{}{path}", self.before),
        }
    }

    /// Writes the tag at the start of `page`. Returns `None` if the page ends within the tag; all of it is
    /// written then.
    pub fn tag(&self, page: &[u8], written: &mut Vec<u8>) -> Option<Tag> {
        let name_end = page[1..].iter().position(|byte| b" \t\r\n\x0c/>".contains(byte));
        let name_end = name_end.map_or(page.len(), |end| end + 1);
        let name = String::from_utf8_lossy(&page[1..name_end]).to_ascii_lowercase();
        let links = LINKS.iter().find(|(element, _)| *element == name).map_or(&[][..], |(_, links)| links);
        written.extend_from_slice(&page[..name_end]);
        let mut at = name_end;
        while at < page.len() && page[at] != b'>' {
            let Some(attribute) = Attribute::parse(&page[at..]) else {
                written.push(page[at]);
                at += 1;
                continue;
            };
            let text = std::str::from_utf8(attribute.value);
            let is_link = links.iter().any(|link| attribute.name.eq_ignore_ascii_case(link.as_bytes()));
            match text {
                Ok(text) if is_link => {
                    written.extend_from_slice(attribute.before);
                    let quote = if attribute.before.ends_with(b"'") { b'\'' } else { b'"' };
                    if !attribute.before.ends_with(&[quote]) {
                        written.push(quote);
                    }
                    written.extend_from_slice(self.link(text).as_bytes());
                    written.push(quote);
                }
                _ => written.extend_from_slice(&page[at..at + attribute.length]),
            }
            at += attribute.length;
        }
        written.push(*page.get(at)?);
        Some(Tag { length: at + 1, raw: RAW.into_iter().find(|raw| *raw == name) })
    }
}

/// The result of writing a tag.
pub struct Tag {
    pub length: usize,
    /// The element, if its content is not parsed as HTML.
    pub raw: Option<&'static str>,
}

struct Attribute<'a> {
    name: &'a [u8],
    /// Text before the value, including the opening quote.
    before: &'a [u8],
    value: &'a [u8],
    /// Length including the closing quote.
    length: usize,
}

impl<'a> Attribute<'a> {
    /// Parses the attribute at the start of `text`.
    fn parse(text: &'a [u8]) -> Option<Attribute<'a>> {
        let is_space = |byte: &u8| b" \t\r\n\x0c".contains(byte);
        let name_end = text.iter().position(|byte| is_space(byte) || b"=/>\"'".contains(byte))?;
        if name_end == 0 {
            return None;
        }
        let spaces = |from: usize| from + text[from..].iter().take_while(|byte| is_space(byte)).count();
        let equals = spaces(name_end);
        if text.get(equals) != Some(&b'=') {
            // An attribute without a value.
            let name = &text[..name_end];
            return Some(Attribute { name: b"", before: name, value: b"", length: name_end });
        }
        let start = spaces(equals + 1);
        let (start, end, length) = match text.get(start)? {
            quote @ (b'"' | b'\'') => {
                let Some(end) = text[start + 1..].iter().position(|byte| byte == quote) else {
                    // Without a closing quote, the value ends with the page, as in browsers.
                    return Some(Attribute { name: b"", before: text, value: b"", length: text.len() });
                };
                let end = start + 1 + end;
                (start + 1, end, end + 1)
            }
            _ => {
                let rest = &text[start..];
                let end = rest.iter().position(|byte| is_space(byte) || *byte == b'>').unwrap_or(rest.len());
                (start, start + end, start + end)
            }
        };
        Some(Attribute { name: &text[..name_end], before: &text[..start], value: &text[start..end], length })
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;

    pub fn rewriter() -> LinkRewriter {
        LinkRewriter { before: "/p/proxy".into(), backend: "10.0.0.1:80".into(), host: "api:6443".into() }
    }

    #[test]
    fn links_lead_through_the_proxy() {
        for (link, expected) in [
            ("/a/b/?c=d#e", "/p/proxy/a/b/?c=d#e"),
            ("/p/proxy/a", "/p/proxy/a"),
            ("a/b", "a/b"),
            ("", ""),
            ("#top", "#top"),
            ("http://10.0.0.1:80/a", "/p/proxy/a"),
            ("//10.0.0.1:80/a", "/p/proxy/a"),
            ("https://api:6443/a", "https://api:6443/p/proxy/a"),
            ("https://example.com/a", "https://example.com/a"),
            ("mailto:a@b", "mailto:a@b"),
        ] {
            assert_eq!(rewriter().link(link), expected, "{link}");
        }
    }
}

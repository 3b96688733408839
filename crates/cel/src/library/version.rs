//! Semantic versions as `github.com/blang/semver` parses them.

// upstream: github.com/blang/semver/v4/semver.go

use std::cmp::Ordering;

use atoll_meta::quote::quote;

/// A version. Build metadata does not count in comparisons and is dropped.
#[derive(Clone, Debug)]
pub struct Version {
    /// Major version.
    pub major: u64,
    /// Minor version.
    pub minor: u64,
    /// Patch version.
    pub patch: u64,
    before: Vec<Part>,
}

/// A part of the pre-release version. Numbers sort before words.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Part {
    Number(u64),
    Word(String),
}

impl Version {
    /// Parses `1.2.3-rc.1+build`.
    pub fn parse(text: &str) -> Result<Version, String> {
        if text.is_empty() {
            return Err("Version string empty".to_owned());
        }
        let mut parts = text.splitn(3, '.');
        let (Some(major), Some(minor), Some(patch)) = (parts.next(), parts.next(), parts.next()) else {
            return Err("No Major.Minor.Patch elements found".to_owned());
        };
        let major = number(major, "major", "Major")?;
        let minor = number(minor, "minor", "Minor")?;
        let (patch, build) = cut(patch, '+');
        let (patch, before) = cut(patch, '-');
        let patch = number(patch, "patch", "Patch")?;
        let before = match before {
            Some(before) => before.split('.').map(part).collect::<Result<_, _>>()?,
            None => Vec::new(),
        };
        for word in build.iter().flat_map(|build| build.split('.')) {
            if word.is_empty() {
                return Err("Build meta data is empty".to_owned());
            }
            if !is_word(word) {
                return Err(format!("Invalid character(s) found in build meta data {}", quote(word)));
            }
        }
        Ok(Version { major, minor, patch, before })
    }

    /// Parses with normalization: `v1`, `1.2`, `01.02.03`.
    pub fn parse_lenient(text: &str) -> Result<Version, String> {
        let text = text.strip_prefix('v').unwrap_or(text);
        let mut parts: Vec<String> = text.splitn(3, '.').map(without_zeros).collect();
        if parts.len() < 3 {
            if parts.last().is_some_and(|last| last.contains(['+', '-'])) {
                return Err("short version cannot contain PreRelease/Build meta data".to_owned());
            }
            parts.resize(3, "0".to_owned());
        }
        Version::parse(&parts.join("."))
    }
}

fn without_zeros(part: &str) -> String {
    if part.len() <= 1 {
        return part.to_owned();
    }
    let rest = part.trim_start_matches('0');
    let is_number = rest.starts_with(|character: char| character.is_ascii_digit());
    if is_number { rest.to_owned() } else { format!("0{rest}") }
}

fn cut(text: &str, separator: char) -> (&str, Option<&str>) {
    match text.split_once(separator) {
        Some((before, after)) => (before, Some(after)),
        None => (text, None),
    }
}

fn number(text: &str, name: &str, title: &str) -> Result<u64, String> {
    if !is_number(text) {
        return Err(format!("Invalid character(s) found in {name} number {}", quote(text)));
    }
    if has_leading_zeros(text) {
        return Err(format!("{title} number must not contain leading zeroes {}", quote(text)));
    }
    parse_number(text)
}

fn part(text: &str) -> Result<Part, String> {
    if text.is_empty() {
        return Err("Prerelease is empty".to_owned());
    }
    if is_number(text) {
        if has_leading_zeros(text) {
            return Err(format!(
                "Numeric PreRelease version must not contain leading zeroes {}",
                quote(text)
            ));
        }
        return Ok(Part::Number(parse_number(text)?));
    }
    if is_word(text) {
        return Ok(Part::Word(text.to_owned()));
    }
    Err(format!("Invalid character(s) found in prerelease {}", quote(text)))
}

fn parse_number(text: &str) -> Result<u64, String> {
    let reason = if text.is_empty() { "invalid syntax" } else { "value out of range" };
    text.parse().map_err(|_| format!("strconv.ParseUint: parsing {}: {reason}", quote(text)))
}

fn is_number(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit())
}

fn is_word(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

fn has_leading_zeros(text: &str) -> bool {
    text.len() > 1 && text.starts_with('0')
}

impl PartialEq for Version {
    fn eq(&self, other: &Version) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Version {}

impl PartialOrd for Version {
    fn partial_cmp(&self, other: &Version) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Version {
    fn cmp(&self, other: &Version) -> Ordering {
        let numbers = |version: &Version| (version.major, version.minor, version.patch);
        numbers(self).cmp(&numbers(other)).then_with(|| {
            match (self.before.is_empty(), other.before.is_empty()) {
                // A release sorts after its pre-releases.
                (true, false) => Ordering::Greater,
                (false, true) => Ordering::Less,
                _ => self.before.cmp(&other.before),
            }
        })
    }
}

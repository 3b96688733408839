//! Which values are encrypted with which keys, and how.

use std::fmt;

use atoll_store::Key;
use aws_lc_rs::aead::{
    AES_128_GCM, AES_192_GCM, AES_256_GCM, Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey,
};
use bytes::Bytes;

use crate::{EncryptionError, configuration};

/// What every encrypted value begins with. No JSON does.
const MARK: &[u8] = b"k8s:enc:";
const VERSION: &str = "v1";

/// Resources by name; what is `None` is every one.
#[derive(PartialEq, Eq)]
pub(crate) struct Pattern {
    pub group: Option<String>,
    pub resource: Option<String>,
}

/// A key that values are sealed and opened with.
pub(crate) struct KeyWithName {
    provider: &'static str,
    name: String,
    /// Stands before each value.
    prefix: Vec<u8>,
    key: LessSafeKey,
}

pub(crate) enum Provider {
    Identity,
    Key(KeyWithName),
}

pub(crate) struct Entry {
    pub patterns: Vec<Pattern>,
    /// The first writes, all read.
    pub providers: Vec<Provider>,
}

/// What is encrypted how.
pub struct Rules {
    entries: Vec<Entry>,
    /// Further keys, which only read.
    readers: Vec<Entry>,
}

/// How a value lies on the disk.
pub(crate) enum Form<'a> {
    Plain,
    Encrypted { provider: &'a str, name: &'a str, body: &'a [u8] },
}

impl KeyWithName {
    /// `None` if the secret is not of a length that the provider takes.
    pub fn new(provider: &'static str, name: &str, secret: &[u8]) -> Option<Self> {
        let algorithm = match (provider, secret.len()) {
            ("secretbox", 32) => &CHACHA20_POLY1305,
            ("aesgcm" | "aescbc", 16) => &AES_128_GCM,
            ("aesgcm" | "aescbc", 24) => &AES_192_GCM,
            ("aesgcm" | "aescbc", 32) => &AES_256_GCM,
            _ => return None,
        };
        let key = LessSafeKey::new(UnboundKey::new(algorithm, secret).ok()?);
        let prefix = [MARK, format!("{provider}:{VERSION}:{name}:").as_bytes()].concat();
        Some(KeyWithName { provider, name: name.into(), prefix, key })
    }

    fn seal(&self, place: &Key, value: &[u8]) -> Result<Bytes, EncryptionError> {
        let mut nonce = [0; NONCE_LEN];
        aws_lc_rs::rand::fill(&mut nonce).map_err(|_| EncryptionError::NoRandomness)?;
        let mut sealed = Vec::with_capacity(self.prefix.len() + NONCE_LEN + value.len() + 16);
        sealed.extend_from_slice(&self.prefix);
        sealed.extend_from_slice(&nonce);
        let start = sealed.len();
        sealed.extend_from_slice(value);
        let nonce = Nonce::assume_unique_for_key(nonce);
        let tag =
            self.key.seal_in_place_separate_tag(nonce, Aad::from(place.as_bytes()), &mut sealed[start..]);
        let tag = tag
            .map_err(|_| EncryptionError::Unreadable { value: place.to_string(), key: self.name.clone() })?;
        sealed.extend_from_slice(tag.as_ref());
        Ok(Bytes::from(sealed))
    }

    fn open(&self, place: &Key, body: &[u8]) -> Option<Bytes> {
        let (nonce, ciphertext) = body.split_at_checked(NONCE_LEN)?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
        let mut value = ciphertext.to_vec();
        let length = self.key.open_in_place(nonce, Aad::from(place.as_bytes()), &mut value).ok()?.len();
        value.truncate(length);
        Some(Bytes::from(value))
    }
}

impl Rules {
    pub(crate) fn new(entries: Vec<Entry>) -> Self {
        Rules { entries, readers: Vec::new() }
    }

    /// Reads an EncryptionConfiguration.
    pub fn parse(text: &str) -> Result<Rules, EncryptionError> {
        configuration::parse(text)
    }

    /// Also reads what `others` can, and writes as before.
    pub fn reading_also(mut self, others: Rules) -> Self {
        self.readers.extend(others.entries);
        self.readers.extend(others.readers);
        self
    }

    fn entry(&self, place: &Key) -> Option<&Entry> {
        let parts = place.parts()?;
        let group = parts.api_group();
        self.entries
            .iter()
            .find(|entry| entry.patterns.iter().any(|pattern| pattern.matches(group, parts.resource)))
    }

    /// The key that a value at this place is written with, if any.
    fn writer(&self, place: &Key) -> Option<&KeyWithName> {
        match self.entry(place)?.providers.first()? {
            Provider::Identity => None,
            Provider::Key(key) => Some(key),
        }
    }

    /// What goes to the disk, if it is not the value itself.
    pub(crate) fn seal(&self, place: &Key, value: &[u8]) -> Result<Option<Bytes>, EncryptionError> {
        self.writer(place).map(|key| key.seal(place, value)).transpose()
    }

    /// The value, of what is on the disk.
    pub(crate) fn open(&self, place: &Key, stored: &Bytes) -> Result<Bytes, EncryptionError> {
        self.decrypt(place, stored).map(|value| value.unwrap_or_else(|| stored.clone()))
    }

    /// The value, of what is on the disk; `None` if that is the value itself.
    pub(crate) fn decrypt(&self, place: &Key, stored: &[u8]) -> Result<Option<Bytes>, EncryptionError> {
        let (provider, name, body) = match form(stored) {
            Form::Plain => return self.plain(place).map(|()| None),
            Form::Encrypted { provider, name, body } => (provider, name, body),
        };
        let all = self.entries.iter().chain(&self.readers).flat_map(|entry| &entry.providers);
        let fitting = all.filter_map(|own| match own {
            Provider::Key(key) if key.provider == provider && key.name == name => Some(key),
            _ => None,
        });
        let mut known = false;
        for key in fitting {
            known = true;
            if let Some(value) = key.open(place, body) {
                return Ok(Some(value));
            }
        }
        let (value, key) = (place.to_string(), name.to_string());
        Err(match known {
            true => EncryptionError::Unreadable { value, key },
            false => EncryptionError::MissingKey { value, provider: provider.into(), key },
        })
    }

    /// Whether a value may lie there as it is.
    fn plain(&self, place: &Key) -> Result<(), EncryptionError> {
        let allowed = self
            .entry(place)
            .is_none_or(|entry| entry.providers.iter().any(|own| matches!(own, Provider::Identity)));
        match allowed {
            true => Ok(()),
            false => Err(EncryptionError::Plain { value: place.to_string() }),
        }
    }

    /// Whether a value would be written as it lies there.
    pub(crate) fn is_current(&self, place: &Key, stored: &[u8]) -> bool {
        match (self.writer(place), form(stored)) {
            (None, Form::Plain) => true,
            (Some(key), Form::Encrypted { .. }) => stored.starts_with(&key.prefix),
            _ => false,
        }
    }
}

impl Pattern {
    fn matches(&self, group: &str, resource: &str) -> bool {
        self.group.as_deref().is_none_or(|own| own == group)
            && self.resource.as_deref().is_none_or(|own| own == resource)
    }
}

pub(crate) fn form(stored: &[u8]) -> Form<'_> {
    let parsed = stored.strip_prefix(MARK).and_then(|rest| {
        let mut parts = rest.splitn(4, |byte| *byte == b':');
        let mut text = || parts.next().and_then(|part| std::str::from_utf8(part).ok());
        let (provider, version, name) = (text()?, text()?, text()?);
        let body = parts.next()?;
        (version == VERSION).then_some((provider, name, body))
    });
    match parsed {
        Some((provider, name, body)) => Form::Encrypted { provider, name, body },
        None => Form::Plain,
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.resource.as_deref().unwrap_or("*"), self.group.as_deref().unwrap_or("*")) {
            (resource, "") if resource != "*" => f.write_str(resource),
            (resource, group) => write!(f, "{resource}.{group}"),
        }
    }
}

#[cfg(test)]
mod tests;

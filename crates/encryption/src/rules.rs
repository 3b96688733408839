//! Selects the key for a value, and encrypts and decrypts values.

use std::fmt;

use atoll_store::Key;
use aws_lc_rs::aead::{
    AES_128_GCM, AES_192_GCM, AES_256_GCM, Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey,
};
use bytes::Bytes;

use crate::{EncryptionError, configuration};

/// Prefix of every encrypted value. No JSON text starts with it.
const PREFIX: &[u8] = b"k8s:enc:";
const VERSION: &str = "v1";

/// A set of resources; `None` matches every group or resource.
#[derive(PartialEq, Eq)]
pub(crate) struct Pattern {
    pub group: Option<String>,
    pub resource: Option<String>,
}

/// A key for encrypting and decrypting values.
pub(crate) struct KeyWithName {
    provider: &'static str,
    name: String,
    /// Prefix of each value that is encrypted with this key.
    prefix: Vec<u8>,
    key: LessSafeKey,
}

pub(crate) enum Provider {
    Identity,
    Key(KeyWithName),
}

pub(crate) struct RuleEntry {
    pub patterns: Vec<Pattern>,
    /// The first provider encrypts; all of them decrypt.
    pub providers: Vec<Provider>,
}

/// A parsed EncryptionConfiguration.
pub struct Rules {
    entries: Vec<RuleEntry>,
    /// Additional keys, which are used for decryption only.
    readers: Vec<RuleEntry>,
}

/// The stored form of a value.
pub(crate) enum Form<'a> {
    Plain,
    Encrypted { provider: &'a str, name: &'a str, body: &'a [u8] },
}

impl KeyWithName {
    /// Returns `None` if the provider does not accept a secret of this length.
    pub fn new(provider: &'static str, name: &str, secret: &[u8]) -> Option<Self> {
        let algorithm = match (provider, secret.len()) {
            ("secretbox", 32) => &CHACHA20_POLY1305,
            ("aesgcm" | "aescbc", 16) => &AES_128_GCM,
            ("aesgcm" | "aescbc", 24) => &AES_192_GCM,
            ("aesgcm" | "aescbc", 32) => &AES_256_GCM,
            _ => return None,
        };
        let key = LessSafeKey::new(UnboundKey::new(algorithm, secret).ok()?);
        let prefix = [PREFIX, format!("{provider}:{VERSION}:{name}:").as_bytes()].concat();
        Some(KeyWithName { provider, name: name.into(), prefix, key })
    }

    fn encrypt(&self, store_key: &Key, value: &[u8]) -> Result<Bytes, EncryptionError> {
        let mut nonce = [0; NONCE_LEN];
        aws_lc_rs::rand::fill(&mut nonce).map_err(|_| EncryptionError::NoRandomness)?;
        let mut encrypted = Vec::with_capacity(self.prefix.len() + NONCE_LEN + value.len() + 16);
        encrypted.extend_from_slice(&self.prefix);
        encrypted.extend_from_slice(&nonce);
        let start = encrypted.len();
        encrypted.extend_from_slice(value);
        let nonce = Nonce::assume_unique_for_key(nonce);
        let tag = self.key.seal_in_place_separate_tag(
            nonce,
            Aad::from(store_key.as_bytes()),
            &mut encrypted[start..],
        );
        let tag = tag.map_err(|_| EncryptionError::Unreadable {
            value: store_key.to_string(),
            key: self.name.clone(),
        })?;
        encrypted.extend_from_slice(tag.as_ref());
        Ok(Bytes::from(encrypted))
    }

    fn decrypt(&self, store_key: &Key, body: &[u8]) -> Option<Bytes> {
        let (nonce, ciphertext) = body.split_at_checked(NONCE_LEN)?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
        let mut value = ciphertext.to_vec();
        let length = self.key.open_in_place(nonce, Aad::from(store_key.as_bytes()), &mut value).ok()?.len();
        value.truncate(length);
        Some(Bytes::from(value))
    }
}

impl Rules {
    pub(crate) fn new(entries: Vec<RuleEntry>) -> Self {
        Rules { entries, readers: Vec::new() }
    }

    /// Reads an EncryptionConfiguration.
    pub fn parse(text: &str) -> Result<Rules, EncryptionError> {
        configuration::parse(text)
    }

    /// Reads an EncryptionConfiguration for [`Rules::with_decryption_keys_of`]. Its first provider may be one
    /// that only decrypts.
    pub fn parse_decryption_keys(text: &str) -> Result<Rules, EncryptionError> {
        configuration::parse_decryption_keys(text)
    }

    /// Also decrypts with the keys of `others`; encryption is unchanged.
    pub fn with_decryption_keys_of(mut self, others: Rules) -> Self {
        self.readers.extend(others.entries);
        self.readers.extend(others.readers);
        self
    }

    fn entry(&self, store_key: &Key) -> Option<&RuleEntry> {
        let parts = store_key.parts()?;
        let group = parts.api_group();
        self.entries
            .iter()
            .find(|entry| entry.patterns.iter().any(|pattern| pattern.matches(group, parts.resource)))
    }

    /// The key that a value under this store key is encrypted with, if any.
    fn writer(&self, store_key: &Key) -> Option<&KeyWithName> {
        match self.entry(store_key)?.providers.first()? {
            Provider::Identity => None,
            Provider::Key(key) => Some(key),
        }
    }

    /// Encrypts a value; `None` if it is stored as it is.
    pub(crate) fn encrypt(&self, store_key: &Key, value: &[u8]) -> Result<Option<Bytes>, EncryptionError> {
        self.writer(store_key).map(|key| key.encrypt(store_key, value)).transpose()
    }

    /// Decrypts a stored value.
    pub(crate) fn decrypt(&self, store_key: &Key, stored: &Bytes) -> Result<Bytes, EncryptionError> {
        self.decrypt_if_encrypted(store_key, stored).map(|value| value.unwrap_or_else(|| stored.clone()))
    }

    /// Decrypts a stored value; `None` if it is not encrypted.
    pub(crate) fn decrypt_if_encrypted(
        &self,
        store_key: &Key,
        stored: &[u8],
    ) -> Result<Option<Bytes>, EncryptionError> {
        let (provider, name, body) = match form(stored) {
            Form::Plain => return self.require_plain_allowed(store_key).map(|()| None),
            Form::Encrypted { provider, name, body } => (provider, name, body),
        };
        let all = self.entries.iter().chain(&self.readers).flat_map(|entry| &entry.providers);
        let candidates = all.filter_map(|own| match own {
            Provider::Key(key) if key.provider == provider && key.name == name => Some(key),
            _ => None,
        });
        let mut known = false;
        for key in candidates {
            known = true;
            if let Some(value) = key.decrypt(store_key, body) {
                return Ok(Some(value));
            }
        }
        let (value, key) = (store_key.to_string(), name.to_string());
        Err(match known {
            true => EncryptionError::Unreadable { value, key },
            false => EncryptionError::MissingKey { value, provider: provider.into(), key },
        })
    }

    /// Fails if a value under this store key must be encrypted.
    fn require_plain_allowed(&self, store_key: &Key) -> Result<(), EncryptionError> {
        let allowed = self
            .entry(store_key)
            .is_none_or(|entry| entry.providers.iter().any(|own| matches!(own, Provider::Identity)));
        match allowed {
            true => Ok(()),
            false => Err(EncryptionError::Plain { value: store_key.to_string() }),
        }
    }

    /// Whether a stored value is already under the key that would encrypt it now.
    pub(crate) fn is_current(&self, store_key: &Key, stored: &[u8]) -> bool {
        match (self.writer(store_key), form(stored)) {
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
    let parsed = stored.strip_prefix(PREFIX).and_then(|rest| {
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

//! Encryption at rest: values are encrypted on disk and plain in memory.
//!
//! ```text
//!  EncryptionConfiguration ─► Rules: which resources, which keys (the first writes, all read)
//!                               │
//!  write ─► EncryptedStore: encrypt ──► inner store ──► disk: k8s:enc:PROVIDER:v1:KEY: nonce, ciphertext
//!  range, subscribe ◄── decrypt ───────────┘
//!
//!  at the start: migrate ── check that every value can be decrypted ── rewrite values under old keys
//! ```
//!
//! The store key of a value (`group/resource/workspace/namespace/name`) is authenticated with it: a value
//! that is moved to another key on disk cannot be decrypted there. Nonces are random.
//!
//! The configuration has upstream's format. The values have a format of their own, and every provider but
//! `identity` is authenticated: `aesgcm` and `aescbc` are AES-GCM, `secretbox` is ChaCha20-Poly1305. Upstream
//! has other ciphers under the last two names, so these only decrypt what older versions have written.

mod configuration;
mod encrypted_store;
mod migrate;
mod rules;

pub use configuration::{generate, with_new_key};
pub use encrypted_store::EncryptedStore;
pub use migrate::MigrationSummary;
pub use rules::Rules;

use std::fmt;

/// A problem with the configuration, a key or a value. It never contains a secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EncryptionError {
    /// The configuration cannot be used.
    Configuration(String),
    /// A value is encrypted with a key that is not configured.
    MissingKey { value: String, provider: String, key: String },
    /// A value was damaged or moved, or the configured key of this name is a different key.
    Unreadable { value: String, key: String },
    /// A value is not encrypted although the configuration requires it.
    Plain { value: String },
    /// The system's random number generator failed.
    NoRandomness,
    /// The inner store failed.
    Store(String),
}

impl fmt::Display for EncryptionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            EncryptionError::Configuration(problem) => f.write_str(problem),
            EncryptionError::MissingKey { value, provider, key } => write!(
                f,
                "{value} is encrypted with the {provider} key {key:?}, which is not configured; add that key to the \
                 encryption configuration, or restore encryption.yaml from a backup"
            ),
            EncryptionError::Unreadable { value, key } => write!(
                f,
                "{value} cannot be decrypted with the key {key:?}; either it was encrypted with another key of this name, \
                 or the data is damaged"
            ),
            EncryptionError::Plain { value } => write!(
                f,
                "{value} is not encrypted, and the encryption configuration does not allow that; add `- identity: {{}}` \
                 as the last provider to read and encrypt it"
            ),
            EncryptionError::NoRandomness => f.write_str("the system's random number generator failed"),
            EncryptionError::Store(problem) => f.write_str(problem),
        }
    }
}

impl std::error::Error for EncryptionError {}

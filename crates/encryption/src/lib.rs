//! Values that are encrypted before they reach the disk, and readable in memory.
//!
//! ```text
//!  EncryptionConfiguration ─► Rules: which resources, which keys (the first writes, all read)
//!                               │
//!  write ──► Sealed ── seal ────┴──► another store ──► disk: k8s:enc:PROVIDER:v1:KEY: nonce, ciphertext
//!  range, follow ◄── open ────────────────┘
//!
//!  at the start: migrate ── every value can be read? ── rewrite what is not as it would be written now
//! ```
//!
//! The key of a value (`group/resource/workspace/namespace/name`) is authenticated with it: a value that somebody moves to
//! another key on the disk cannot be read there. Nonces are random.
//!
//! The format of the configuration is upstream's; that of the values is ours, and every provider but `identity` is
//! authenticated: `aesgcm` and `aescbc` are AES-GCM, `secretbox` is ChaCha20-Poly1305.

mod configuration;
mod migrate;
mod rules;
mod sealed;

pub use configuration::{generate, with_new_key};
pub use migrate::Migrated;
pub use rules::Rules;
pub use sealed::Sealed;

use std::fmt;

/// What is wrong with a configuration, a key or a value. Never shows a secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EncryptionError {
    /// The configuration cannot be used.
    Configuration(String),
    /// A value is under a key that nobody has given.
    MissingKey { value: String, provider: String, key: String },
    /// A value is not what was written there, or the key of this name is another one.
    Unreadable { value: String, key: String },
    /// A value is not encrypted where only encrypted ones are expected.
    Plain { value: String },
    /// The system has no randomness.
    NoRandomness,
    /// The store below failed.
    Store(String),
}

impl fmt::Display for EncryptionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            EncryptionError::Configuration(problem) => f.write_str(problem),
            EncryptionError::MissingKey { value, provider, key } => write!(
                f,
                "{value} is encrypted with the {provider} key {key:?}, which is not there; add that key to the \
                 encryption configuration, or restore encryption.yaml from a backup"
            ),
            EncryptionError::Unreadable { value, key } => write!(
                f,
                "{value} cannot be decrypted with the key {key:?}; either this is not the key that it was encrypted with, \
                 or the data is damaged"
            ),
            EncryptionError::Plain { value } => write!(
                f,
                "{value} is not encrypted, and the encryption configuration does not allow that; add `- identity: {{}}` \
                 as the last provider to read and encrypt it"
            ),
            EncryptionError::NoRandomness => f.write_str("the system gives no random numbers"),
            EncryptionError::Store(problem) => f.write_str(problem),
        }
    }
}

impl std::error::Error for EncryptionError {}

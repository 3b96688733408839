//! The keys that sign and verify tokens: one that signs, and the public keys of its predecessors.
//!
//! `service-account.key` has the signing private key, `service-account.pub` the public keys that tokens are
//! verified with, newest first. When a key is replaced, its private key is deleted; tokens that it signed
//! stay valid until its public key is retired. A running server checks the files for changes regularly.

// upstream: pkg/serviceaccount/jwt.go

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use arc_swap::ArcSwap;
use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _, UnparsedPublicKey,
};
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{PrivatePkcs8KeyDer, SubjectPublicKeyInfoDer};

use crate::Unauthorized;
use crate::authority::{AuthorityError, read, unusable, write_private};

const PRIVATE: &str = "service-account.key";
const PUBLIC: &str = "service-account.pub";
/// The DER prefix of a public key on this curve, before the point.
const PREFIX: [u8; 26] = [
    0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a, 0x86,
    0x48, 0xce, 0x3d, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00,
];
/// Maximum number of verifying keys; the oldest are dropped.
const MAX_KEYS: usize = 64;

/// A key that tokens are verified with.
pub struct PublicKey {
    id: String,
    /// The format byte, then both coordinates.
    point: Vec<u8>,
}

pub struct SigningKey {
    pair: EcdsaKeyPair,
    id: String,
}

/// The current keys.
pub struct Keys {
    pub signing: SigningKey,
    /// Newest first, including the signing key.
    pub verifying: Vec<PublicKey>,
}

/// The keys in a data directory.
pub struct KeyRing {
    directory: PathBuf,
    keys: ArcSwap<Keys>,
    seen: ArcSwap<Stamp>,
}

/// Modification times, lengths and inodes of the files.
type Stamp = [Option<(SystemTime, u64, u64)>; 2];

impl PublicKey {
    fn of(point: &[u8]) -> Self {
        let id = URL_SAFE_NO_PAD.encode(digest(&SHA256, &[&PREFIX, point].concat()));
        PublicKey { id, point: point.to_vec() }
    }

    pub fn id(&self) -> &str {
        &self.id
    }

    pub fn verifies(&self, message: &[u8], signature: &[u8]) -> bool {
        UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, &self.point).verify(message, signature).is_ok()
    }

    pub fn coordinates(&self) -> (String, String) {
        let (x, y) = self.point[1..].split_at(32);
        (URL_SAFE_NO_PAD.encode(x), URL_SAFE_NO_PAD.encode(y))
    }

    fn pem(&self) -> String {
        let text = STANDARD.encode([&PREFIX, self.point.as_slice()].concat());
        let lines: Vec<&str> =
            (0..text.len()).step_by(64).map(|at| &text[at..text.len().min(at + 64)]).collect();
        format!("-----BEGIN PUBLIC KEY-----\n{}\n-----END PUBLIC KEY-----\n", lines.join("\n"))
    }
}

impl SigningKey {
    pub fn id(&self) -> &str {
        &self.id
    }

    pub fn sign(&self, random: &SystemRandom, message: &[u8]) -> Result<Vec<u8>, Unauthorized> {
        let signature = self.pair.sign(random, message);
        signature.map(|signature| signature.as_ref().to_vec()).map_err(|_| Unauthorized::Unknown)
    }
}

impl Keys {
    /// Reads the keys in `directory`, or creates the first one.
    fn open(directory: &Path) -> Result<Keys, AuthorityError> {
        let path = directory.join(PRIVATE);
        if !path.exists() {
            create_key(&path)?;
        }
        let mut keys = Keys::from_pem(&read(&path)?)?;
        keys.verifying.extend(public(directory)?.into_iter().filter(|key| key.id != keys.signing.id));
        Ok(keys)
    }

    /// Returns a single key.
    fn from_pem(text: &str) -> Result<Keys, AuthorityError> {
        let unfit = |error: &dyn std::fmt::Display| unusable(PRIVATE, &error.to_string());
        let der = PrivatePkcs8KeyDer::from_pem_slice(text.as_bytes()).map_err(|error| unfit(&error))?;
        let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, der.secret_pkcs8_der());
        let pair = pair.map_err(|error| unfit(&error))?;
        let newest = PublicKey::of(pair.public_key().as_ref());
        let signing = SigningKey { id: newest.id.clone(), pair };
        Ok(Keys { signing, verifying: vec![newest] })
    }
}

impl KeyRing {
    pub fn open(directory: &Path) -> Result<Self, AuthorityError> {
        let keys = Keys::open(directory)?;
        if !directory.join(PUBLIC).exists() {
            write_public(directory, &keys.verifying)?;
        }
        let seen = stamp(directory);
        Ok(KeyRing {
            directory: directory.into(),
            keys: ArcSwap::from_pointee(keys),
            seen: ArcSwap::from_pointee(seen),
        })
    }

    /// A fixed private key (P-256, as PKCS #8).
    pub fn from_pem(text: &str) -> Result<Self, AuthorityError> {
        Ok(KeyRing {
            directory: PathBuf::new(),
            keys: ArcSwap::from_pointee(Keys::from_pem(text)?),
            seen: ArcSwap::from_pointee([None, None]),
        })
    }

    pub fn current(&self) -> Arc<Keys> {
        self.keys.load_full()
    }

    /// Reloads the files if they have changed, and returns whether they had.
    pub fn refresh(&self) -> Result<bool, AuthorityError> {
        let now = stamp(&self.directory);
        if **self.seen.load() == now {
            return Ok(false);
        }
        self.keys.store(Arc::new(Keys::open(&self.directory)?));
        self.seen.store(Arc::new(now));
        Ok(true)
    }

    /// Returns the age of the signing key.
    pub fn age(&self, now: SystemTime) -> std::time::Duration {
        let made = std::fs::metadata(self.directory.join(PRIVATE)).and_then(|metadata| metadata.modified());
        made.ok().and_then(|made| now.duration_since(made).ok()).unwrap_or_default()
    }
}

/// Replaces the signing key. Tokens of the old one stay valid. Returns the new key's ID.
pub fn rotate(directory: &Path) -> Result<String, AuthorityError> {
    let before = Keys::open(directory)?;
    // In this order, a crash in between loses no key that was used for signing.
    write_public(directory, &before.verifying)?;
    create_key(&directory.join(PRIVATE))?;
    let mut after = Keys::open(directory)?;
    after.verifying.truncate(MAX_KEYS);
    write_public(directory, &after.verifying)?;
    Ok(after.signing.id)
}

/// Removes a key: tokens that it has signed become invalid. The signing key cannot be retired.
pub fn retire(directory: &Path, id: &str) -> Result<(), AuthorityError> {
    let mut keys = Keys::open(directory)?;
    if keys.signing.id == id {
        return Err(unusable(id, &"it signs new tokens; rotate first"));
    }
    let count = keys.verifying.len();
    keys.verifying.retain(|key| key.id != id);
    match keys.verifying.len() == count {
        true => Err(unusable(id, &"there is no such key; list keys with: atoll keys list")),
        false => write_public(directory, &keys.verifying),
    }
}

/// Returns the IDs of all keys, newest first: the first one signs.
pub fn list(directory: &Path) -> Result<Vec<String>, AuthorityError> {
    Ok(Keys::open(directory)?.verifying.into_iter().map(|key| key.id).collect())
}

fn create_key(path: &Path) -> Result<(), AuthorityError> {
    let made = rcgen::KeyPair::generate().map_err(|error| unusable(PRIVATE, &error))?;
    write_private(path, &made.serialize_pem())
}

fn public(directory: &Path) -> Result<Vec<PublicKey>, AuthorityError> {
    let path = directory.join(PUBLIC);
    if !path.exists() {
        return Ok(Vec::new());
    }
    let text = read(&path)?;
    SubjectPublicKeyInfoDer::pem_slice_iter(text.as_bytes())
        .map(|der| {
            let der = der.map_err(|error| unusable(PUBLIC, &error))?;
            match der.strip_prefix(&PREFIX) {
                Some(point) if point.len() == 65 => Ok(PublicKey::of(point)),
                _ => Err(unusable(PUBLIC, &"it contains a key that is not on the curve P-256")),
            }
        })
        .collect()
}

fn write_public(directory: &Path, keys: &[PublicKey]) -> Result<(), AuthorityError> {
    let text: String = keys.iter().map(PublicKey::pem).collect();
    write_private(&directory.join(PUBLIC), &text)
}

fn stamp(directory: &Path) -> Stamp {
    // Two changes may have the same time, so length and inode are compared as well.
    let stamp_of = |name: &str| {
        let own = std::fs::metadata(directory.join(name)).ok()?;
        Some((own.modified().ok()?, own.len(), own.ino()))
    };
    [stamp_of(PRIVATE), stamp_of(PUBLIC)]
}

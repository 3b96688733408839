//! Encrypted values and their configuration.

use std::sync::{Arc, LazyLock};

use atoll_encryption::{EncryptedStore, Rules, with_new_key};
use atoll_store::memory::MemoryStore;
use atoll_store::{Key, Store};
use bytes::Bytes;

use crate::{Accepted, text};

const CONFIGURATION: &str = "\
apiVersion: apiserver.config.k8s.io/v1
kind: EncryptionConfiguration
resources:
- resources: ['*.*']
  providers:
  - aesgcm: { keys: [{ name: two, secret: MDEyMzQ1Njc4OTAxMjM0NQ== }] }
  - secretbox: { keys: [{ name: one, secret: MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE= }] }
  - identity: {}
";

/// A configuration is parsed, or rejected without showing secrets, and a key can be added to a valid one.
pub fn configuration(bytes: &[u8]) -> Accepted {
    let text = text(bytes)?;
    match Rules::parse(text) {
        Ok(_) => {
            if let Ok((longer, _)) = with_new_key(text) {
                Rules::parse(&longer).expect("a configuration with an added key is valid");
            }
            Some(())
        }
        Err(error) => {
            let shown = error.to_string();
            let secrets = text.split_whitespace().filter(|word| word.len() >= 44 && word.ends_with('='));
            assert!(!secrets.into_iter().any(|secret| shown.contains(secret)));
            None
        }
    }
}

static STORE: LazyLock<EncryptedStore> = LazyLock::new(|| {
    let rules = Rules::parse(CONFIGURATION).expect("rules");
    EncryptedStore::new(Arc::new(MemoryStore::new()), rules)
});

/// Data that was not encrypted here cannot be decrypted; encrypted data can, but not at another key and not
/// after a change.
pub fn sealed(bytes: &[u8]) -> Accepted {
    let place = |name: &str| Key::object("core", "secrets", "root", "default", name);
    let stored = Bytes::copy_from_slice(bytes);
    // Data without the prefix of a provider is plaintext from before encryption was enabled.
    if let Ok(opened) = STORE.decrypt(&place("a"), &stored) {
        assert_eq!(opened, stored);
    }
    let sealed = STORE.encrypt(&place("a"), bytes).expect("it can be sealed").expect("it has to be");
    assert_eq!(STORE.decrypt(&place("a"), &sealed).as_ref(), Ok(&stored));
    assert!(STORE.decrypt(&place("b"), &sealed).is_err());
    let mut changed = sealed.to_vec();
    let at = usize::from(*bytes.first()?) % changed.len();
    changed[at] ^= 1;
    let changed = Bytes::from(changed);
    match STORE.decrypt(&place("a"), &changed) {
        // Without its prefix, it is read as plaintext.
        Ok(opened) => assert_eq!(opened, changed),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
    Some(())
}

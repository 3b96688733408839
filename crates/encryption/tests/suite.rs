//! The store suite, run against an encrypted store.

use std::sync::Arc;

use atoll_encryption::{EncryptedStore, Rules, generate};
use atoll_store::memory::MemoryStore;
use atoll_store::suite::Subject;

fn everything() -> EncryptedStore {
    let text = generate().expect("a configuration").replace("secrets", "'*.*'");
    let rules = Rules::parse(&text).expect("the generated configuration is valid");
    EncryptedStore::new(Arc::new(MemoryStore::new()), rules)
}

atoll_store::suite_embedded!(|| Subject::new(everything()));

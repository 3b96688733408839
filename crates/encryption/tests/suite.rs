//! A store behind encryption is a store like any other.

use std::sync::Arc;

use atoll_encryption::{Rules, Sealed, generate};
use atoll_store::memory::MemoryStore;
use atoll_store::suite::Subject;

fn everything() -> Sealed {
    let text = generate().expect("a configuration").replace("secrets", "'*.*'");
    let rules = Rules::parse(&text).expect("it is one of ours");
    Sealed::new(Arc::new(MemoryStore::new()), rules)
}

atoll_store::suite_embedded!(|| Subject::new(everything()));

//! The store suite, run against the memory store.

use atoll_store::memory::MemoryStore;
use atoll_store::suite::Subject;

atoll_store::suite_embedded!(|| Subject::new(MemoryStore::new()));

//! The memory store under the suite.

use atoll_store::memory::MemoryStore;
use atoll_store::suite::Subject;

atoll_store::suite_embedded!(|| Subject::new(MemoryStore::new()));

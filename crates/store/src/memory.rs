//! The store in memory: for tests, and for servers whose data need not outlive them.

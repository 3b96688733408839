//! What a server keeps when it is killed, when its disk fails it, and when its data is not its own.

mod directory;
mod disk;
mod killed;
#[path = "../support/support.rs"]
mod support;

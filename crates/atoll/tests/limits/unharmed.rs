//! Whether a server is as well after something was done to it as it was before.

use crate::support::process::Atoll;
use crate::support::{CONFIG_MAPS, config_map, config_map_with, eventually};

/// How much more memory a server may hold after it was treated badly: what allocators keep, not what leaks.
const MEMORY: u64 = 64 << 20;

/// A server's state before anything is done to it.
pub struct Unharmed<'a> {
    atoll: &'a Atoll,
    resident: u64,
    descriptors: usize,
}

impl<'a> Unharmed<'a> {
    pub async fn before(atoll: &'a Atoll) -> Unharmed<'a> {
        // Whatever is made only once has been made when this returns.
        write_and_read(atoll).await;
        Unharmed { atoll, resident: atoll.resident(), descriptors: settled(atoll).await }
    }

    /// Fails the test unless the server answers, holds no more than it did, and nothing panicked.
    pub async fn after(self) {
        write_and_read(self.atoll).await;
        let log = self.atoll.log();
        assert!(!log.contains("panic"), "{log}");
        eventually("the server has closed what it had opened", async || {
            self.atoll.descriptors() <= self.descriptors
        })
        .await;
        // What is free is given back some seconds later.
        eventually("the server holds as much memory as before", async || {
            self.atoll.resident().saturating_sub(self.resident) < MEMORY
        })
        .await;
    }
}

/// The number of open files once connections that have ended are gone from it.
async fn settled(atoll: &Atoll) -> usize {
    let mut lowest = usize::MAX;
    let mut steady = 0;
    eventually("the number of open files is steady", async || {
        let now = atoll.descriptors();
        steady = if now < lowest { 0 } else { steady + 1 };
        lowest = lowest.min(now);
        steady >= 10
    })
    .await;
    lowest
}

async fn write_and_read(atoll: &Atoll) {
    let admin = atoll.admin();
    admin.post(CONFIG_MAPS, config_map_with("unharmed", "1")).await.expect(201);
    admin.get(&config_map("unharmed")).await.expect(200);
    admin.delete(&config_map("unharmed")).await.expect(200);
    assert_eq!(admin.get("/readyz").await.text(), "ok");
}

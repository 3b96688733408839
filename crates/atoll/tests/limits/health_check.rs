//! Checks that a server is as healthy after a test as it was before.

use atoll_testkit::Atoll;
use atoll_testkit::wait::eventually;

use crate::support::{CONFIG_MAPS, config_map, config_map_with};

/// How much more memory a server may use after a test: enough for memory that allocators keep, but not for
/// leaks.
const MEMORY_TOLERANCE: u64 = 64 << 20;

/// The state of a server before a test.
pub struct HealthCheck<'a> {
    atoll: &'a Atoll,
    resident: u64,
    descriptors: usize,
}

impl<'a> HealthCheck<'a> {
    pub async fn before(atoll: &'a Atoll) -> HealthCheck<'a> {
        // Lazily created resources exist after this.
        write_and_read(atoll).await;
        HealthCheck { atoll, resident: atoll.resident(), descriptors: settled_descriptors(atoll).await }
    }

    /// Asserts that the server responds, has no more open files and memory than before, and did not panic.
    pub async fn after(self) {
        write_and_read(self.atoll).await;
        let log = self.atoll.log();
        assert!(!log.contains("panic"), "{log}");
        eventually("the server has no more open files than before", async || {
            self.atoll.descriptors() <= self.descriptors
        })
        .await;
        // Unused memory is returned some seconds later.
        eventually("the server uses as much memory as before", async || {
            self.atoll.resident().saturating_sub(self.resident) < MEMORY_TOLERANCE
        })
        .await;
    }
}

/// Returns the number of open files once closed connections are no longer counted.
async fn settled_descriptors(atoll: &Atoll) -> usize {
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

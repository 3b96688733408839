//! Work that takes long is done on threads of its own, so that nobody else's requests wait for it.

use std::sync::{Arc, LazyLock};

use atoll_meta::Status;
use tokio::sync::Semaphore;

use crate::definitions;
use crate::row::Row;

/// As much of this work is done at once as leaves half of the machine to others.
static SLOTS: LazyLock<Arc<Semaphore>> = LazyLock::new(|| {
    let cores = std::thread::available_parallelism().map_or(2, std::num::NonZero::get);
    Arc::new(Semaphore::new((cores / 2).max(1)))
});

/// Whether checking an object of this row may take long: schemas and expressions are compiled.
pub(crate) fn is_slow(row: &Row) -> bool {
    definitions::defines(row) || row.group == "admissionregistration.k8s.io"
}

/// Does the work on a thread for such work, when its turn has come. It is done to its end even if nobody waits for it
/// any longer.
pub(crate) async fn offload<T, F>(work: F) -> Result<T, Status>
where
    T: Send + 'static,
    F: FnOnce() -> T + Send + 'static,
{
    let failed =
        |error: &dyn std::fmt::Display| Status::internal_error(format!("checking the object: {error}"));
    let turn = SLOTS.clone().acquire_owned().await.map_err(|error| failed(&error))?;
    let done = tokio::task::spawn_blocking(move || {
        let _turn = turn;
        work()
    });
    done.await.map_err(|error| failed(&error))
}

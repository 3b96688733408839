//! The threads of the controllers. What tenants write determines how long a controller computes, and a
//! controller that computes blocks its thread: threads of their own keep it from delaying requests.

use std::num::NonZeroUsize;
use std::thread::available_parallelism;

use tokio::runtime::{Builder, Handle, Runtime};

/// The least number of threads. With few cores too, several controllers that compute for long must not stop the
/// others.
const MIN_THREADS: usize = 8;

pub struct ControllerThreads {
    /// `None` if the controllers share the threads of requests.
    runtime: Option<Runtime>,
}

impl ControllerThreads {
    /// Starts the threads.
    pub fn start() -> Result<ControllerThreads, String> {
        let threads = available_parallelism().map_or(1, NonZeroUsize::get).max(MIN_THREADS);
        let runtime = Builder::new_multi_thread()
            .worker_threads(threads)
            .thread_name("controllers")
            .enable_all()
            .build();
        Ok(ControllerThreads { runtime: Some(runtime.map_err(|error| error.to_string())?) })
    }

    /// Uses the threads of requests. The controllers of a simulated cluster do, because it has no tenants.
    pub fn shared() -> ControllerThreads {
        ControllerThreads { runtime: None }
    }

    pub fn handle(&self) -> Handle {
        self.runtime.as_ref().map_or_else(Handle::current, |runtime| runtime.handle().clone())
    }
}

impl Drop for ControllerThreads {
    fn drop(&mut self) {
        // A runtime must not wait for its threads while it is dropped by a task.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

//! Work that must be done until it succeeds: each piece once at a time, failures later and later.

use std::collections::HashMap;
use std::future::Future;
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, Semaphore, mpsc};
use tokio::time::sleep;

const FIRST_DELAY: Duration = Duration::from_millis(100);
const LAST_DELAY: Duration = Duration::from_secs(10);

/// How a piece of work ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Done,
    /// Not yet; try again later.
    Again,
}

/// Pieces of work by key.
pub struct Queue<K> {
    incoming: mpsc::UnboundedSender<K>,
}

impl<K> Clone for Queue<K> {
    fn clone(&self) -> Self {
        Queue { incoming: self.incoming.clone() }
    }
}

impl<K: Clone + Eq + Hash + Send + 'static> Queue<K> {
    /// At most `at_once` pieces are worked on together. Ends with the last handle.
    pub fn start<W, F>(at_once: usize, work: W) -> Queue<K>
    where
        W: Fn(K) -> F + Send + Sync + 'static,
        F: Future<Output = Outcome> + Send + 'static,
    {
        let (incoming, wanted) = mpsc::unbounded_channel();
        let places = Arc::new(Semaphore::new(at_once));
        let worker = Worker { running: HashMap::new(), places, work: Arc::new(work) };
        tokio::spawn(worker.run(wanted));
        Queue { incoming }
    }

    /// Asks for `key` to be worked on. Asked again while it is, it is done once more afterwards; while it waits
    /// for its next try, it waits no longer.
    pub fn add(&self, key: K) {
        // Fails only when everything is being torn down.
        let _ = self.incoming.send(key);
    }
}

struct Running {
    /// Asked for again since it began.
    again: bool,
    asked: Arc<Notify>,
}

struct Worker<K, W> {
    /// Keys being worked on or waiting.
    running: HashMap<K, Running>,
    places: Arc<Semaphore>,
    work: Arc<W>,
}

impl<K, W, F> Worker<K, W>
where
    K: Clone + Eq + Hash + Send + 'static,
    W: Fn(K) -> F + Send + Sync + 'static,
    F: Future<Output = Outcome> + Send + 'static,
{
    async fn run(mut self, mut wanted: mpsc::UnboundedReceiver<K>) {
        let (finished, mut done) = mpsc::unbounded_channel();
        loop {
            tokio::select! {
                key = wanted.recv() => match key {
                    Some(key) => match self.running.get_mut(&key) {
                        Some(running) => {
                            running.again = true;
                            running.asked.notify_one();
                        }
                        None => self.spawn(key, finished.clone()),
                    },
                    None => return,
                },
                Some(key) = done.recv() => {
                    if self.running.remove(&key).is_some_and(|running| running.again) {
                        self.spawn(key, finished.clone());
                    }
                }
            }
        }
    }

    fn spawn(&mut self, key: K, finished: mpsc::UnboundedSender<K>) {
        let asked = Arc::new(Notify::new());
        self.running.insert(key.clone(), Running { again: false, asked: asked.clone() });
        let (places, work) = (self.places.clone(), self.work.clone());
        tokio::spawn(async move {
            let mut delay = FIRST_DELAY;
            loop {
                let place = places.acquire().await;
                let outcome = work(key.clone()).await;
                drop(place);
                if outcome == Outcome::Done {
                    break;
                }
                tokio::select! {
                    () = sleep(delay) => delay = (delay * 2).min(LAST_DELAY),
                    // Something has happened, so more may follow soon.
                    () = asked.notified() => delay = FIRST_DELAY,
                }
            }
            let _ = finished.send(key);
        });
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tokio::time::Instant;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn work_is_repeated_until_it_is_done() {
        let tries = Arc::new(AtomicUsize::new(0));
        let (sender, mut done) = mpsc::unbounded_channel();
        let counted = tries.clone();
        let queue = Queue::start(1, move |key: &str| {
            let attempt = counted.fetch_add(1, Ordering::SeqCst) + 1;
            let sender = sender.clone();
            async move {
                if attempt < 3 {
                    return Outcome::Again;
                }
                let _ = sender.send(key);
                Outcome::Done
            }
        });
        queue.add("a");
        assert_eq!(done.recv().await, Some("a"));
        assert_eq!(tries.load(Ordering::SeqCst), 3);
        queue.add("a");
        assert_eq!(done.recv().await, Some("a"), "done once more when asked again");
    }

    #[tokio::test(start_paused = true)]
    async fn asking_again_ends_the_wait_for_the_next_try() {
        let (sender, mut tried) = mpsc::unbounded_channel();
        let queue = Queue::start(1, move |key: &str| {
            let _ = sender.send(key);
            async { Outcome::Again }
        });
        queue.add("a");
        let mut last = Instant::now();
        // By now it waits for as long as it ever will.
        while last.elapsed() < LAST_DELAY {
            last = Instant::now();
            tried.recv().await;
        }
        let asked = Instant::now();
        queue.add("a");
        tried.recv().await;
        assert!(asked.elapsed() < FIRST_DELAY);
        tried.recv().await;
        assert!(asked.elapsed() <= FIRST_DELAY * 2, "and it looks again soon");
    }
}

use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::json;

use super::*;

const COST: Duration = Duration::from_millis(100);

/// Counts reconciliations of Services, which are large if their names say so.
#[derive(Default)]
struct Counter {
    /// Changes so far.
    changes: AtomicUsize,
    /// Changes that the last reconciliation saw, and how many reconciliations there were, by name.
    seen: Mutex<HashMap<String, (usize, usize)>>,
    /// Names of Services that are small now.
    shrunk: Mutex<Vec<String>>,
    running: AtomicUsize,
}

impl Counter {
    async fn sync(&self, key: Key, lane: Lane) -> Result<Size, Status> {
        let is_large =
            key.name.starts_with("large") && !self.shrunk.lock().unwrap().contains(&key.name.to_string());
        let turn = match lane {
            Lane::Shared if is_large => return Ok(Size::Large),
            Lane::Shared => None,
            Lane::Large(turn) => Some(turn),
        };
        let saw = self.changes.load(Ordering::Relaxed);
        if is_large {
            assert_eq!(self.running.fetch_add(1, Ordering::Relaxed), 0, "one at a time");
            tokio::time::sleep(COST).await;
            self.running.fetch_sub(1, Ordering::Relaxed);
        }
        drop(turn);
        let mut seen = self.seen.lock().unwrap();
        let (last, count) = seen.entry(key.name.to_string()).or_default();
        (*last, *count) = (saw, *count + 1);
        match key.name.ends_with("failing") {
            true => Err(Status::plain_internal("refused")),
            false => Ok(if is_large { Size::Large } else { Size::Small }),
        }
    }

    fn seen(&self, name: &str) -> (usize, usize) {
        self.seen.lock().unwrap().get(name).copied().unwrap_or_default()
    }
}

fn start() -> (Queue, Arc<Counter>) {
    let (queue, counter) = (Queue::new(), Arc::new(Counter::default()));
    let (own_queue, own) = (queue.clone(), counter.clone());
    tokio::spawn(async move {
        work("Services", &own_queue, move |key, lane| {
            let own = own.clone();
            async move { own.sync(key, lane).await }
        })
        .await;
    });
    (queue, counter)
}

#[tokio::test(start_paused = true)]
async fn many_changes_of_a_large_service_are_reconciled_together() {
    let (queue, counter) = start();
    for _ in 0..1000 {
        counter.changes.fetch_add(1, Ordering::Relaxed);
        queue.add(Key::new("w", "n", "large"));
        tokio::time::advance(Duration::from_millis(10)).await;
    }
    // The 1,000 changes took 10 s, and a reconciliation with the pause after it takes 1.1 s.
    let (_, count) = counter.seen("large");
    assert!((5..=11).contains(&count), "{count}");
    tokio::time::sleep(COST * (SPACING + 2)).await;
    assert_eq!(counter.seen("large").0, 1000, "the last change is not lost");
}

#[tokio::test(start_paused = true)]
async fn small_services_do_not_wait_for_large_ones() {
    let (queue, counter) = start();
    for number in 0..50 {
        queue.add(Key::new("w", "n", &format!("large-{number}")));
    }
    tokio::time::sleep(Duration::from_millis(1)).await;
    queue.add(Key::new("w", "n", "small"));
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert_eq!(counter.seen("small").1, 1);
    tokio::time::sleep(COST * 60).await;
    assert!((0..50).all(|number| counter.seen(&format!("large-{number}")).1 == 1), "each has its turn");
}

#[tokio::test(start_paused = true)]
async fn a_service_that_is_small_again_is_reconciled_at_once() {
    let (queue, counter) = start();
    let key = Key::new("w", "n", "large");
    queue.add(key.clone());
    tokio::time::sleep(COST * 2).await;
    counter.shrunk.lock().unwrap().push("large".into());
    for before in [1, 2, 3] {
        assert_eq!(counter.seen("large").1, before);
        queue.add(key.clone());
        // Only the first time, it is still in the lane of large Services.
        let wait = if before == 1 { COST * SPACING } else { Duration::from_millis(1) };
        tokio::time::sleep(wait).await;
    }
    assert_eq!(counter.seen("large").1, 4);
}

#[tokio::test(start_paused = true)]
async fn failures_are_retried_less_and_less_often() {
    let (queue, counter) = start();
    queue.add(Key::new("w", "n", "large-failing"));
    tokio::time::sleep(Duration::from_secs(60)).await;
    let first = counter.seen("large-failing").1;
    tokio::time::sleep(Duration::from_secs(600)).await;
    let later = counter.seen("large-failing").1 - first;
    assert!((3..=6).contains(&first) && (9..=11).contains(&later), "{first} {later}");
}

#[tokio::test]
async fn computations_run_on_other_threads() {
    let turns = Arc::new(Semaphore::new(1));
    let turn = Turn { permit: turns.clone().acquire_owned().await.unwrap() };
    let own = std::thread::current().id();
    assert_ne!(turn.run(|| std::thread::current().id()).await, Ok(own));
    assert!(turns.acquire().await.is_ok(), "the next one may start");
}

#[test]
fn services_whose_slices_would_have_too_many_ports_are_refused() {
    let port = |target: Value| move |number: usize| json!({"name": format!("p{number}"), "protocol": "TCP", "targetPort": target.clone()});
    let service = |ports: usize, target: Value| json!({"spec": {"ports": (0..ports).map(port(target)).collect::<Vec<Value>>()}});
    let pods = |count: usize, numbers: usize| -> Vec<Arc<Value>> {
        let port = |number| json!({"name": "web", "protocol": "TCP", "containerPort": number});
        let pod = |number| json!({"spec": {"containers": [{"ports": [port(number % numbers)]}]}});
        (0..count).map(|number| Arc::new(pod(number))).collect()
    };
    for (what, service, pods, expected) in [
        ("numbers", service(50, json!(80)), pods(2000, 2000), true),
        ("the same number", service(50, json!("web")), pods(2000, 1), true),
        ("many numbers", service(50, json!("web")), pods(2000, 2000), true),
        ("more ports with many numbers", service(51, json!("web")), pods(2000, 2000), false),
        ("many ports in many slices", service(5000, json!(80)), pods(2001, 1), false),
    ] {
        assert_eq!(check_ports(&service, &pods).is_ok(), expected, "{what}");
    }
}

use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::json;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::{advance, timeout};

use super::*;

const COST: Duration = Duration::from_millis(100);

/// A finished reconciliation.
struct Done {
    name: String,
    /// Changes that it saw.
    saw: usize,
    at: Instant,
}

/// Reconciles Services, which are large if their names say so.
struct Services {
    done: UnboundedSender<Done>,
    changes: AtomicUsize,
    /// Whether large Services are small now.
    shrunk: Mutex<bool>,
    running: AtomicUsize,
}

impl Services {
    async fn sync(&self, key: Key, lane: Lane) -> Result<Size, Status> {
        let is_large = key.name.starts_with("large") && !*self.shrunk.lock().unwrap();
        let turn = match lane {
            Lane::Shared if is_large => return Ok(Size::Large),
            Lane::Shared => None,
            Lane::Large(turn) => Some(turn),
        };
        let saw = self.changes.load(Ordering::Relaxed);
        if is_large {
            assert_eq!(self.running.fetch_add(1, Ordering::Relaxed), 0, "one at a time");
            advance(COST).await;
            self.running.fetch_sub(1, Ordering::Relaxed);
        }
        drop(turn);
        self.done.send(Done { name: key.name.to_string(), saw, at: Instant::now() }).unwrap();
        match key.name.ends_with("failing") {
            true => Err(Status::plain_internal("refused")),
            false => Ok(if is_large { Size::Large } else { Size::Small }),
        }
    }
}

fn start() -> (Queue, Arc<Services>, UnboundedReceiver<Done>) {
    let (sender, receiver) = unbounded_channel();
    let services = Arc::new(Services {
        done: sender,
        changes: AtomicUsize::new(0),
        shrunk: Mutex::new(false),
        running: AtomicUsize::new(0),
    });
    let queue = Queue::new();
    let (own_queue, own) = (queue.clone(), services.clone());
    tokio::spawn(async move {
        work("Services", &own_queue, move |key, lane| {
            let own = own.clone();
            async move { own.sync(key, lane).await }
        })
        .await;
    });
    (queue, services, receiver)
}

fn key(name: &str) -> Key {
    Key::new("w", "n", name)
}

#[tokio::test(start_paused = true)]
async fn many_changes_of_a_large_service_are_reconciled_together() {
    let (queue, services, mut done) = start();
    for _ in 0..1000 {
        services.changes.fetch_add(1, Ordering::Relaxed);
        queue.add(key("large"));
        advance(Duration::from_millis(10)).await;
    }
    let mut all: Vec<Done> = Vec::new();
    while let Ok(Some(one)) = timeout(LONGEST_PAUSE, done.recv()).await {
        all.push(one);
    }
    // The changes took 10 s.
    assert!((5..=12).contains(&all.len()), "{}", all.len());
    assert!(all.windows(2).all(|pair| pair[1].at - pair[0].at >= COST * (SPACING + 1)));
    assert_eq!(all.last().unwrap().saw, 1000, "the last change is not lost");
}

#[tokio::test(start_paused = true)]
async fn small_services_do_not_wait_for_large_ones() {
    let (queue, _, mut done) = start();
    (0..50).for_each(|number| queue.add(key(&format!("large-{number}"))));
    let mut names = vec![done.recv().await.unwrap().name];
    queue.add(key("small"));
    while let Ok(Some(one)) = timeout(LONGEST_PAUSE, done.recv()).await {
        names.push(one.name);
    }
    let place = names.iter().position(|name| name == "small").unwrap();
    assert!(place < 5, "{place}");
    names.sort();
    names.dedup();
    assert_eq!(names.len(), 51, "each has its turn");
}

#[tokio::test(start_paused = true)]
async fn a_service_that_is_small_again_is_reconciled_at_once() {
    let (queue, services, mut done) = start();
    queue.add(key("large"));
    done.recv().await.unwrap();
    *services.shrunk.lock().unwrap() = true;
    // The first time, it is still in the lane of large Services.
    for (least, most) in [(COST * SPACING, COST * (SPACING + 1)), (Duration::ZERO, COST)] {
        let before = Instant::now();
        queue.add(key("large"));
        let waited = done.recv().await.unwrap().at - before;
        assert!(waited >= least && waited < most, "{waited:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn failures_are_retried_less_and_less_often() {
    let (queue, _, mut done) = start();
    queue.add(key("large-failing"));
    let mut last = done.recv().await.unwrap().at;
    for seconds in [2, 4, 8, 16, 32, 60, 60] {
        let now = done.recv().await.unwrap().at;
        let expected = Duration::from_secs(seconds) + COST;
        assert!(now - last >= expected && now - last < expected + COST, "{:?}: {expected:?}", now - last);
        last = now;
    }
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

use tokio::sync::mpsc;
use tokio::time::timeout;

use super::*;

fn key(workspace: &str, name: &str) -> Key {
    Key::new(workspace, "n", name)
}

/// Returns a queue and the keys that its single worker receives; each work item ends with `outcome`.
fn recorded(
    outcome: impl Fn(&Key) -> Result<Next, Status> + Send + Sync + 'static,
) -> (Queue, mpsc::UnboundedReceiver<(String, Instant)>) {
    let (queue, (sender, receiver)) = (Queue::new(), mpsc::unbounded_channel());
    let (working, outcome) = (queue.clone(), Arc::new(outcome));
    tokio::spawn(async move {
        working
            .work("a test", 1, |key| {
                let (sender, outcome) = (sender.clone(), outcome.clone());
                async move {
                    let _ = sender.send((key.to_string(), Instant::now()));
                    outcome(&key)
                }
            })
            .await;
    });
    (queue, receiver)
}

#[tokio::test(start_paused = true)]
async fn workspaces_take_turns() {
    let (queue, mut done) = recorded(|_| Ok(Next::Done));
    for name in ["1", "2", "3"] {
        queue.add(key("busy", name));
    }
    queue.add(key("busy", "1"));
    queue.add(key("calm", "1"));
    let mut order = Vec::new();
    for _ in 0..4 {
        order.push(done.recv().await.unwrap().0);
    }
    assert_eq!(order, ["busy/n/1", "calm/n/1", "busy/n/2", "busy/n/3"]);
    assert!(timeout(LAST_DELAY, done.recv()).await.is_err(), "a key that was added twice is processed once");
}

#[tokio::test(start_paused = true)]
async fn a_workspace_does_not_occupy_all_workers() {
    let (queue, (sender, mut started)) = (Queue::new(), mpsc::unbounded_channel());
    let release = Arc::new(Semaphore::new(0));
    let (working, blocked) = (queue.clone(), release.clone());
    tokio::spawn(async move {
        working
            .work("a test", 5, |key| {
                let (sender, blocked) = (sender.clone(), blocked.clone());
                async move {
                    let _ = sender.send(key.to_string());
                    if &*key.workspace == "slow" {
                        blocked.acquire().await.unwrap().forget();
                    }
                    Ok(Next::Done)
                }
            })
            .await;
    });
    for number in 0..10 {
        queue.add(key("slow", &number.to_string()));
    }
    for expected in ["slow/n/0", "slow/n/1", "slow/n/2"] {
        assert_eq!(started.recv().await.unwrap(), expected);
    }
    assert!(timeout(LAST_DELAY, started.recv()).await.is_err(), "the workspace has its share");
    for name in ["1", "2", "3"] {
        queue.add(key("other", name));
        assert_eq!(started.recv().await.unwrap(), format!("other/n/{name}"));
    }
    release.add_permits(10);
    for number in 3..10 {
        assert_eq!(started.recv().await.unwrap(), format!("slow/n/{number}"));
    }
    for (at_once, share) in [(1, 1), (2, 1), (3, 2), (5, 3), (8, 4)] {
        assert_eq!(share_of(at_once), share, "{at_once} workers");
    }
}

#[tokio::test(start_paused = true)]
async fn failures_are_retried_with_backoff() {
    let (queue, mut done) = recorded(|_| Err(Status::internal_error("no")));
    queue.add(key("w", "a"));
    let (_, mut last) = done.recv().await.unwrap();
    for expected in [20, 40, 80, 160] {
        let (_, now) = done.recv().await.unwrap();
        let waited = now - last;
        assert!(
            waited >= Duration::from_millis(expected) && waited < Duration::from_millis(expected + 10),
            "{waited:?} instead of {expected} ms"
        );
        last = now;
    }
    let asked = Instant::now();
    queue.add(key("w", "a"));
    let (_, now) = done.recv().await.unwrap();
    assert!(now - asked < Duration::from_millis(10), "adding the key ends the delay");
}

#[tokio::test(start_paused = true)]
async fn a_panic_is_a_failure() {
    let (queue, mut done) =
        recorded(|key| if &*key.name == "bad" { panic!("intended") } else { Ok(Next::Done) });
    queue.add(key("w", "bad"));
    queue.add(key("w", "good"));
    let mut seen = [done.recv().await.unwrap().0, done.recv().await.unwrap().0];
    seen.sort();
    assert_eq!(seen, ["w/n/bad", "w/n/good"]);
    assert_eq!(done.recv().await.unwrap().0, "w/n/bad");
}

#[tokio::test(start_paused = true)]
async fn the_earliest_requested_time_wins() {
    let (queue, mut done) = recorded(|_| Ok(Next::Done));
    let began = Instant::now();
    queue.add_after(key("w", "a"), Duration::from_secs(60));
    queue.add_after(key("w", "a"), Duration::from_secs(5));
    queue.add_after(key("w", "a"), Duration::from_secs(30));
    let (_, now) = done.recv().await.unwrap();
    assert_eq!((now - began).as_secs(), 5);
    assert!(timeout(Duration::from_secs(120), done.recv()).await.is_err(), "only once");
}

#[tokio::test(start_paused = true)]
async fn key_added_during_processing_is_processed_again() {
    let (queue, (sender, mut done)) = (Queue::new(), mpsc::unbounded_channel());
    let (working, adding) = (queue.clone(), queue.clone());
    tokio::spawn(async move {
        working
            .work("a test", 4, |key| {
                let (sender, adding) = (sender.clone(), adding.clone());
                async move {
                    let first = sender.send(()).is_ok() && &*key.name == "a";
                    if first {
                        adding.add(Key::new("w", "n", "b"));
                        adding.add(Key::new("w", "n", "b"));
                    }
                    Ok(Next::Done)
                }
            })
            .await;
    });
    queue.add(key("w", "a"));
    done.recv().await.unwrap();
    done.recv().await.unwrap();
    assert!(timeout(LAST_DELAY, done.recv()).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn unfinished_key_is_rechecked_with_backoff_and_at_once_if_added() {
    let (queue, mut done) = recorded(|_| Ok(Next::Again));
    queue.add(key("w", "a"));
    let (_, mut last) = done.recv().await.unwrap();
    for expected in [100, 200, 400, 800, 1600, 3200, 6400, 10_000, 10_000] {
        let (_, now) = done.recv().await.unwrap();
        let waited = now - last;
        assert!(
            waited >= Duration::from_millis(expected) && waited < Duration::from_millis(expected + 10),
            "{waited:?} instead of {expected} ms"
        );
        last = now;
    }
    let asked = Instant::now();
    queue.add(key("w", "a"));
    let (_, now) = done.recv().await.unwrap();
    assert!(now - asked < FIRST_RECHECK, "adding the key ends the delay");
    let (_, then) = done.recv().await.unwrap();
    assert!(then - now < FIRST_RECHECK * 2, "the delays restart");
}

#[tokio::test(start_paused = true)]
async fn key_of_an_unknown_workspace_is_dropped() {
    let api = crate::ApiScope::all_workspaces(
        atoll_client::Client::new(Arc::new(Unreachable)),
        Arc::new(crate::Tree::default()),
    );
    let (queue, mut done) = recorded(move |key| api.root(&key.workspace).map(|_| Next::Done));
    queue.add(key("gone", "a"));
    let began = Instant::now();
    let mut tries = 0;
    while timeout(LAST_DELAY * 2, done.recv()).await.is_ok() {
        tries += 1;
    }
    assert_eq!(tries, UNKNOWN_WORKSPACE_ATTEMPTS + 1);
    assert!(began.elapsed() > Duration::from_secs(300), "a workspace may become known late");
}

struct Unreachable;

impl atoll_client::Transport for Unreachable {
    fn send(
        &self,
        _: http::Request<bytes::Bytes>,
    ) -> atoll_client::BoxFuture<'_, Result<http::Response<atoll_client::ResponseBody>, atoll_client::BoxError>>
    {
        Box::pin(async { Err("unreachable".into()) })
    }
}

#[tokio::test(start_paused = true)]
async fn delays_that_are_too_long_to_be_represented_do_no_harm() {
    let (queue, mut done) = recorded(|_| Ok(Next::After(Duration::MAX)));
    queue.add_after(key("w", "a"), Duration::MAX);
    queue.add(key("w", "b"));
    for _ in 0..2 {
        assert_eq!(done.recv().await.unwrap().0, "w/n/b");
        queue.add(key("w", "b"));
    }
}

#[tokio::test(start_paused = true)]
async fn ready_keys_are_processed_in_batches() {
    let (queue, (sender, mut batches)) = (Queue::new(), mpsc::unbounded_channel());
    for name in ["1", "2", "3"] {
        queue.add(key("busy", name));
    }
    queue.add(key("calm", "1"));
    let working = queue.clone();
    tokio::spawn(async move {
        let work = |keys: Vec<Key>| {
            let _ = sender.send(keys.iter().map(Key::to_string).collect::<Vec<_>>());
            // The last key has no outcome.
            let failed = || BatchOutcome::Finished(Err(Status::internal_error("no")));
            let failed = keys.into_iter().rev().skip(1).map(|key| (key, failed()));
            std::future::ready(failed.collect::<Vec<_>>())
        };
        working.work_in_batches("a test", BatchSize { batch: 3, at_once: 3, per_workspace: 3 }, work).await;
    });
    let mut next = async || batches.recv().await.unwrap();
    assert_eq!(next().await, ["busy/n/1", "calm/n/1", "busy/n/2"]);
    assert_eq!(next().await, ["busy/n/3"]);
    // Those that failed are processed again.
    assert_eq!(next().await, ["busy/n/1", "calm/n/1"]);
    assert_eq!(next().await, ["busy/n/1"]);
    assert!(timeout(LAST_DELAY, batches.recv()).await.is_err(), "finished keys are not processed again");
}

#[tokio::test(start_paused = true)]
async fn slow_work_of_a_workspace_does_not_stop_batches() {
    let (queue, (sender, mut batches)) = (Queue::new(), mpsc::unbounded_channel());
    let (end, ended) = tokio::sync::watch::channel(false);
    for name in ["1", "2", "3"] {
        queue.add(key("slow", name));
    }
    let working = queue.clone();
    tokio::spawn(async move {
        let work = |keys: Vec<Key>| {
            let _ = sender.send(keys.iter().map(Key::to_string).collect::<Vec<_>>());
            let outcomes = keys.into_iter().map(|key| {
                let (is_slow, mut ended) = (&*key.workspace == "slow", ended.clone());
                let outcome = match is_slow {
                    true => BatchOutcome::Working(Box::pin(async move {
                        let _ = ended.wait_for(|ended| *ended).await;
                        Ok(Next::Done)
                    })),
                    false => BatchOutcome::Finished(Ok(Next::Done)),
                };
                (key, outcome)
            });
            std::future::ready(outcomes.collect::<Vec<_>>())
        };
        let size = BatchSize { batch: 3, at_once: 4, per_workspace: 2 };
        working.work_in_batches("a test", size, work).await;
    });
    let mut next = async || batches.recv().await.unwrap();
    assert_eq!(next().await, ["slow/n/1", "slow/n/2"]);
    for _ in 0..3 {
        queue.add(key("calm", "1"));
        assert_eq!(next().await, ["calm/n/1"]);
    }
    // A key is processed again only after its work has ended.
    queue.add(key("slow", "1"));
    queue.add(key("calm", "2"));
    assert_eq!(next().await, ["calm/n/2"]);
    end.send_replace(true);
    let mut rest = next().await;
    while rest.len() < 2 {
        rest.extend(next().await);
    }
    assert_eq!(rest, ["slow/n/3", "slow/n/1"]);
}

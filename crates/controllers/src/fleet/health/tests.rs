use std::sync::atomic::{AtomicI64, Ordering};

use atoll_client::{BoxError, BoxFuture, Client, ResponseBody, Transport};
use atoll_informer::{ApiScope, Clock};
use atoll_meta::time::{self, Timestamp};
use bytes::Bytes;
use http::{Request, Response};
use serde_json::json;

use super::*;
use crate::context::WorkloadScope;

const DAY: i64 = 86_400;

/// A transport that is never used.
struct UnusedTransport;

impl Transport for UnusedTransport {
    fn send(&self, _: Request<Bytes>) -> BoxFuture<'_, Result<Response<ResponseBody>, BoxError>> {
        Box::pin(std::future::pending())
    }
}

/// A clock that returns the value it was set to.
#[derive(Clone, Default)]
struct SettableClock(Arc<AtomicI64>);

impl Clock for SettableClock {
    fn now(&self) -> Timestamp {
        Timestamp::new(self.0.load(Ordering::Relaxed), 0)
    }
}

fn health(clock: &SettableClock) -> Health {
    let api = ApiScope::single(Client::new(Arc::new(UnusedTransport)));
    let context = Context::new(api, Arc::new(clock.clone()), WorkloadScope::PodGrain);
    Health {
        recorder: context.events.recorder(COMPONENT),
        clusters: context.informers.of(&resources::CLUSTERS),
        heartbeats: Heartbeats::default(),
        histories: Mutex::default(),
        context,
    }
}

fn lease(seconds: i64) -> Value {
    json!({
        "metadata": {
            "name": "cluster-east", "namespace": "atoll-system", "labels": { "atoll.dev/cluster": "east" },
        },
        "spec": { "renewTime": time::format_micro(seconds, 0), "holderIdentity": "one" },
    })
}

fn cluster(ready: &str, problem: Option<&str>) -> Value {
    let mut cluster = json!({
        "metadata": { "name": "east" }, "spec": { "mode": "push" },
        "status": { "conditions": [{ "type": "Ready", "status": ready }] },
    });
    if let Some(reason) = problem {
        cluster["status"]["problem"] = json!({ "reason": reason, "message": "m" });
    }
    cluster
}

async fn pass(seconds: u64) {
    tokio::time::advance(Duration::from_secs(seconds)).await;
}

/// The clocks of the control plane and of the syncer jump by days, which must not affect readiness.
#[tokio::test(start_paused = true)]
async fn clock_jumps_do_not_affect_readiness() {
    let clock = SettableClock::default();
    let health = health(&clock);
    let key = Key::new("", "", "east");
    let grace_period = health.context.settings.cluster_grace_period;
    let reason = |ready: &str| health.find_fault(&key, &cluster(ready, None)).0.map(|fault| fault.reason);
    let renew = |at: i64| drop(health.heartbeats.observe(&lease(at), grace_period));
    renew(0);
    for (step, jump) in [0, 400 * DAY, -400 * DAY, 3 * DAY, -3 * DAY, 1, -1, 45, -45].into_iter().enumerate()
    {
        clock.0.store(jump, Ordering::Relaxed);
        // The Lease is renewed, however wrong the clocks are.
        for number in 0..6 {
            pass(10).await;
            renew(step as i64 * 1000 + number - jump);
            assert_eq!(reason("True"), None, "{jump}");
        }
        // The Lease is not renewed any more.
        pass(39).await;
        assert_eq!(reason("True"), None, "{jump}");
        clock.0.store(-jump, Ordering::Relaxed);
        assert_eq!(reason("True"), None, "{jump}: the wall clock has no effect");
        pass(1).await;
        assert_eq!(reason("True").as_deref(), Some("SyncerSilent"), "{jump}");
        clock.0.store(jump, Ordering::Relaxed);
        assert_eq!(reason("False").as_deref(), Some("SyncerSilent"), "{jump}");
        // The failure history expires before the next step.
        renew(step as i64 * 1000 + 500);
        pass(30).await;
        for _ in 0..70 {
            renew(step as i64 * 1000 + 501);
            health.find_fault(&key, &cluster("False", None));
            pass(10).await;
            renew(step as i64 * 1000 + 502);
        }
        assert_eq!(reason("False"), None, "{jump}: it is well again by itself");
    }
}

#[tokio::test(start_paused = true)]
async fn transient_faults_do_not_count() {
    let health = health(&SettableClock::default());
    let key = Key::new("", "", "east");
    let grace_period = health.context.settings.cluster_grace_period;
    let heartbeat = |number: i64| drop(health.heartbeats.observe(&lease(number), grace_period));
    let observe = |ready: &str, problem: Option<&str>| {
        let (fault, again) = health.find_fault(&key, &cluster(ready, problem));
        (fault.map(|fault| fault.reason), again)
    };
    heartbeat(1);
    heartbeat(2);
    assert_eq!(observe("False", None).0, None);
    // A connection fails, and recovers.
    let (fault, again) = observe("True", Some("ConnectionRefused"));
    assert_eq!((fault, again), (None, Some(grace_period / TRANSIENT_FRACTION)));
    pass(4).await;
    heartbeat(3);
    assert_eq!(observe("True", None).0, None);
    // The connection fails in two ways, and does not recover.
    assert_eq!(observe("True", Some("ConnectionRefused")).0, None);
    pass(4).await;
    heartbeat(4);
    assert_eq!(observe("True", Some("TimedOut")).0, None);
    pass(1).await;
    assert_eq!(observe("True", Some("TimedOut")).0.as_deref(), Some("TimedOut"));
    // A cluster that was not ready stays not ready.
    pass(1).await;
    assert_eq!(observe("False", Some("TimedOut")).0.as_deref(), Some("TimedOut"));
    heartbeat(5);
    assert_eq!(observe("False", None).0, None);
    // Faults that require an action count immediately.
    assert_eq!(observe("True", Some("CredentialsRefused")).0.as_deref(), Some("CredentialsRefused"));
}

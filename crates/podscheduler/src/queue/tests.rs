use super::*;

fn key(name: &str) -> PodKey {
    ("default".into(), name.into())
}

fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

fn popped(queue: &mut Queue, now: u64) -> Option<String> {
    queue.pop(seconds(now)).map(|(_, name)| name.to_string())
}

#[test]
fn pods_are_ordered_by_priority_and_time() {
    let mut queue = Queue::default();
    for (name, priority, now) in [("late", 0, 2), ("early", 0, 1), ("important", 10, 3)] {
        queue.add(&key(name), priority, seconds(now));
    }
    let order: Vec<_> = (0..4).map(|_| popped(&mut queue, 5)).collect();
    assert_eq!(order, [Some("important".into()), Some("early".into()), Some("late".into()), None]);
}

#[test]
fn only_helpful_events_requeue() {
    let mut queue = Queue::default();
    queue.add(&key("a"), 0, seconds(0));
    assert_eq!(popped(&mut queue, 0).as_deref(), Some("a"));
    queue.unschedulable(&key("a"), BTreeSet::from([Plugin::NodeAffinity]), seconds(0));
    assert_eq!(popped(&mut queue, 100), None);
    queue.requeue_on(ClusterEvent::PodDeleted, seconds(100));
    assert_eq!(popped(&mut queue, 100), None);
    queue.requeue_on(ClusterEvent::NodeLabels, seconds(100));
    assert_eq!(popped(&mut queue, 100).as_deref(), Some("a"));
}

#[test]
fn unschedulable_pod_backs_off() {
    let mut queue = Queue::default();
    let refused = BTreeSet::from([Plugin::NodeResourcesFit]);
    queue.add(&key("a"), 5, seconds(0));
    assert_eq!(popped(&mut queue, 0).as_deref(), Some("a"));
    queue.unschedulable(&key("a"), refused.clone(), seconds(0));
    queue.requeue_on(ClusterEvent::PodDeleted, seconds(0));
    queue.add(&key("b"), 0, seconds(0));
    assert_eq!(popped(&mut queue, 0).as_deref(), Some("b"), "a backs off");
    assert_eq!(popped(&mut queue, 0).as_deref(), Some("a"), "the active queue is empty");
    queue.unschedulable(&key("a"), refused, seconds(0));
    queue.requeue_on(ClusterEvent::PodDeleted, seconds(0));
    assert_eq!(queue.next_flush(seconds(0)), Some(seconds(2)), "the backoff is doubled");
    queue.add(&key("c"), 0, seconds(2));
    assert_eq!(popped(&mut queue, 2).as_deref(), Some("a"), "the backoff is over");
}

#[test]
fn errors_always_back_off() {
    let mut queue = Queue::default();
    queue.add(&key("a"), 0, seconds(0));
    for (failure, pause) in [1, 2, 4, 8, 10, 10].into_iter().enumerate() {
        let now = 100 * failure as u64;
        assert_eq!(popped(&mut queue, now).as_deref(), Some("a"));
        queue.failed(&key("a"), seconds(now));
        assert_eq!(popped(&mut queue, now + pause - 1), None);
        assert_eq!(queue.next_flush(seconds(now)), Some(seconds(now + pause)));
    }
}

#[test]
fn unschedulable_pods_are_requeued_eventually() {
    let mut queue = Queue::default();
    queue.add(&key("a"), 0, seconds(0));
    popped(&mut queue, 0);
    queue.unschedulable(&key("a"), BTreeSet::from([Plugin::NodeName]), seconds(0));
    assert_eq!(queue.next_flush(seconds(10)), Some(seconds(301)));
    assert_eq!(popped(&mut queue, 300), None);
    queue.next_flush(seconds(301));
    assert_eq!(popped(&mut queue, 301).as_deref(), Some("a"));
}

#[test]
fn changed_pod_is_requeued_and_removed_pod_is_not() {
    let mut queue = Queue::default();
    for name in ["a", "b"] {
        queue.add(&key(name), 0, seconds(0));
        popped(&mut queue, 0);
        queue.unschedulable(&key(name), BTreeSet::from([Plugin::NodeName]), seconds(0));
    }
    queue.add(&key("a"), 0, seconds(60));
    queue.remove(&key("b"));
    assert_eq!(popped(&mut queue, 60).as_deref(), Some("a"));
    assert_eq!((popped(&mut queue, 1000), queue.len()), (None, 1));
}

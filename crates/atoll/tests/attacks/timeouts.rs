//! Timeouts that are too long to be represented.

use atoll_testkit::{Atoll, Watch};

#[tokio::test]
async fn watch_with_the_longest_timeout_is_served() {
    let atoll = Atoll::start_bare();
    let longest = i64::MAX;
    let path = format!("/api/v1/namespaces?watch=1&timeoutSeconds={longest}");
    let mut watch = Watch::open(&atoll.admin(), &path).await;
    assert_eq!(watch.event().await.kind, "ADDED");
    let log = atoll.log();
    assert!(!log.contains("panicked"), "{log}");
}

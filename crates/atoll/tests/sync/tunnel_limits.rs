//! One user does not take all streams of a tunnel.

use atoll_testkit::Watch;
use atoll_testkit::wait::eventually;

use crate::{Fleet, Mode};

const PROXY: &str = "/services/clusters/east/proxy";
const WATCH: &str = "/services/clusters/east/proxy/api/v1/namespaces/default/configmaps?watch=true";
/// Most open requests of a user.
const OF_USER: usize = 100;

#[tokio::test(flavor = "multi_thread")]
async fn a_user_leaves_room_in_a_tunnel_for_others() {
    let fleet = Fleet::start(Mode::None, &["east"]);
    let admin = fleet.admin();
    let version = format!("{PROXY}/version");
    eventually("the cluster is connected", async || admin.get(&version).await.status == 200).await;
    let (ann, bob) =
        (admin.acting_as("ann", &["system:masters"]), admin.acting_as("bob", &["system:masters"]));
    let mut watches = Vec::new();
    for _ in 0..OF_USER {
        watches.push(Watch::open(&ann, WATCH).await);
    }
    let refused = ann.get(&version).await;
    let message = refused.expect_status(429, "TooManyRequests");
    assert!(message.contains("100 open requests to cluster east"), "{message}");
    bob.get(&version).await.expect(200);
    watches.clear();
    eventually("ended requests do not count", async || ann.get(&version).await.status == 200).await;
}

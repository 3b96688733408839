//! Many clients that write the same object at the same time.

use atoll_testkit::Atoll;
use serde_json::json;
use tokio::task::JoinSet;

use crate::support::config_map;

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_applies_of_a_new_object_all_succeed() {
    let atoll = Atoll::start_bare();
    let admin = atoll.admin();
    for round in 0..20 {
        let mut applying = JoinSet::new();
        for manager in 0..8 {
            let admin = admin.clone();
            applying.spawn(async move {
                let name = format!("same-{round}");
                let mine = json!({ format!("from-{manager}"): "x" });
                let metadata = json!({ "name": name });
                let config =
                    json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": mine });
                let path = format!("{}?fieldManager=manager-{manager}", config_map(&name));
                admin.apply(&path, config).await
            });
        }
        let mut created = 0;
        while let Some(answer) = applying.join_next().await {
            let answer = answer.unwrap();
            assert!(matches!(answer.status, 200 | 201), "{}", answer.text());
            created += usize::from(answer.status == 201);
        }
        assert_eq!(created, 1, "exactly one request must create it");
        let all = admin.get(&config_map(&format!("same-{round}"))).await.expect(200);
        assert_eq!(all["data"].as_object().unwrap().len(), 8);
    }
}

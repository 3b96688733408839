//! Authentication and the rights of unauthenticated clients.

use atoll_testkit::{Atoll, Setup, Watch};

use crate::support::{CONFIG_MAPS, config_map_with};

#[tokio::test(flavor = "multi_thread")]
async fn tokens_authenticate_users() {
    let tokens = "master,root,1,\"system:masters,ops\"\nplain,ann,2,ops\nalone,bob,3\n";
    let atoll = Setup::new().tokens(tokens).start();
    let admin = atoll.admin();
    admin.token("master").post(CONFIG_MAPS, config_map_with("a", "1")).await.expect(201);
    Watch::open(&admin.token("master"), &format!("{CONFIG_MAPS}?watch=1")).await.event().await;
    for (token, user) in [("plain", "ann"), ("alone", "bob")] {
        let message = admin.token(token).get(CONFIG_MAPS).await.expect_status(403, "Forbidden");
        let expected = format!(
            "configmaps is forbidden: User \"{user}\" cannot list resource \"configmaps\" in API group \"\" in the \
             namespace \"default\""
        );
        assert_eq!(message, expected);
        assert_eq!(admin.token(token).get("/readyz").await.text(), "ok");
    }
    // An unknown token is rejected everywhere, even where none is needed.
    for token in ["wrong", "maste", "master2"] {
        let answer = admin.token(token).get(CONFIG_MAPS).await;
        assert_eq!(answer.expect_status(401, "Unauthorized"), "Unauthorized", "{token:?}");
    }
    admin.token("wrong").get("/readyz").await.expect_status(401, "Unauthorized");
    // A request without a token is anonymous.
    admin.token("").get(CONFIG_MAPS).await.expect_status(403, "Forbidden");
}

#[tokio::test(flavor = "multi_thread")]
async fn anonymous_clients_can_only_read_health_and_version() {
    let atoll = Atoll::start();
    atoll.admin().post(CONFIG_MAPS, config_map_with("a", "1")).await.expect(201);
    let stranger = atoll.admin().anonymous();
    for open in ["/healthz", "/livez", "/readyz", "/readyz?verbose", "/version"] {
        assert_eq!(stranger.get(open).await.status, 200, "{open}");
    }
    let workspaces = "/apis/atoll.dev/v1alpha1/workspaces";
    let closed = [
        "/",
        "/api",
        "/apis",
        "/api/v1",
        "/apis/apps/v1",
        "/openapi/v2",
        "/openapi/v3",
        "/metrics",
        "/atoll/snapshot",
        CONFIG_MAPS,
        "/api/v1/namespaces/default",
        workspaces,
        "/clusters/root/api/v1/namespaces",
        "/clusters/*/api/v1/secrets",
        "/clusters/root:unknown/api/v1/namespaces",
        "/no/such/path",
        "/healthzz",
        "/livez/ping",
        "/version/x",
        "/clusters/root/metrics",
    ];
    for path in closed {
        let answer = stranger.get(path).await;
        // The existence of objects is not revealed either.
        assert_eq!(answer.status, 403, "{path}: {}", answer.text());
        let message = answer.expect_status(403, "Forbidden");
        assert!(message.contains("system:anonymous"), "{message}");
    }
    stranger.post(CONFIG_MAPS, config_map_with("b", "1")).await.expect_status(403, "Forbidden");
    stranger.post("/version", serde_json::json!({})).await.expect_status(403, "Forbidden");
    stranger.delete("/api/v1/namespaces/default").await.expect_status(403, "Forbidden");
}

#[tokio::test(flavor = "multi_thread")]
async fn certificates_of_another_authority_are_rejected() {
    let (first, second) = (Atoll::start(), Atoll::start());
    // The administrator of the first server connects to the second.
    let intruder = second.admin().with_identity_of(&first.admin());
    if let Ok(mut http) = intruder.http1().await {
        let answer = http.request(http::Method::GET, CONFIG_MAPS, atoll_testkit::RequestContent::None).await;
        assert!(
            answer.as_ref().is_err() || answer.is_ok_and(|answer| answer.status == 401),
            "the certificate must be rejected"
        );
    }
    second.admin().get(CONFIG_MAPS).await.expect(200);
}

#[tokio::test(flavor = "multi_thread")]
async fn kubeconfigs_stay_valid_after_a_restart() {
    let mut atoll = Atoll::start();
    let before = atoll.admin();
    atoll.terminate();
    assert!(atoll.wait().success());
    atoll.restart();
    before.get(CONFIG_MAPS).await.expect(200);
    atoll.admin().get(CONFIG_MAPS).await.expect(200);
}

//! What is good in one workspace is nothing in another.

use serde_json::{Value, json};

use crate::support::access::Access;
use crate::support::eventually;
use crate::support::process::Atoll;
use crate::{account, review, token, who};

pub const WORKSPACES: &str = "/apis/atoll.dev/v1alpha1/workspaces";

pub async fn workspace(admin: &Access, name: &str) -> (Access, String) {
    let object =
        json!({ "apiVersion": "atoll.dev/v1alpha1", "kind": "Workspace", "metadata": { "name": name } });
    let created: Value = admin.post(WORKSPACES, object).await.expect(201);
    let id = created["status"]["id"].as_str().unwrap().to_string();
    (admin.workspace(&format!("root:{name}")), id)
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_are_good_where_they_were_made() {
    let atoll = Atoll::start();
    let admin = atoll.admin();
    let (first, id) = workspace(&admin, "first").await;
    let (second, _) = workspace(&admin, "second").await;
    let places = [&admin, &first, &second];
    for place in places {
        account(place, "a").await;
    }
    for home in places {
        let own = token(home, "a", json!({})).await;
        for place in places {
            let is_home = std::ptr::eq(home, place);
            assert_eq!(who(&place.token(&own)).await.is_ok(), is_home, "{} at {}", home.base(), place.base());
            let status = review(place, json!({ "token": own })).await;
            assert_eq!(status["authenticated"] == true, is_home, "{status}");
        }
        // Nor in all of them, nor where there is none.
        for nowhere in ["*", "root:none", "", "first", "root:first:"] {
            assert_eq!(who(&admin.workspace(nowhere).token(&own)).await, Err(401), "{nowhere}");
        }
    }
    // Whoever trusts one issuer does not trust the other.
    let mut http = first.http1().await.unwrap();
    let document = http.get_accepting("/.well-known/openid-configuration", "*/*").await.unwrap().json();
    assert_eq!(document["issuer"], format!("https://kubernetes.default.svc/clusters/{id}"));
    assert_eq!(document["jwks_uri"], format!("https://{}/clusters/root:first/openid/v1/jwks", atoll.address));
    // A workspace that comes after another under its name is another.
    let own = token(&first, "a", json!({})).await;
    admin.delete(&format!("{WORKSPACES}/first")).await.expect(200);
    eventually("it is gone", async || who(&first.token(&own)).await == Err(401)).await;
}

//! OpenAPI as clients without a library fetch it: an index, addresses with hashes, ETags.

use std::io::Read;

use atoll_testkit::{ApiResponse, Atoll, Client};
use flate2::read::GzDecoder;
use http::{HeaderName, header};
use serde_json::{Value, json};

async fn get(client: &Client, path: &str, headers: &[(HeaderName, &str)]) -> ApiResponse {
    let client = client.accepting_anything();
    let client =
        headers.iter().fold(client, |client, (name, value)| client.with_header(name.as_str(), *value));
    client.get(path).await
}

#[tokio::test(flavor = "multi_thread")]
async fn documents_are_cached_by_their_hash() {
    let atoll = Atoll::start();
    let admin = atoll.admin();
    let index = get(&admin, "/openapi/v3", &[]).await.json();
    let address = index["paths"]["apis/apps/v1"]["serverRelativeURL"].as_str().unwrap().to_owned();
    let (path, hash) = address.split_once("?hash=").unwrap();
    assert_eq!((path, hash.len()), ("/openapi/v3/apis/apps/v1", 128), "{address}");

    let found = get(&admin, &address, &[]).await;
    assert_eq!(found.header("cache-control"), Some("public, immutable"));
    assert_eq!(found.header("etag"), Some(format!("\"{hash}\"").as_str()));
    assert!(found.header("expires").unwrap().ends_with(" GMT"), "{:?}", found.headers);
    assert_eq!(found.status, 200, "{}", found.text());
    let document = found.json();
    assert_eq!(document["openapi"], "3.0.0");
    let patch = &document["paths"]["/apis/apps/v1/namespaces/{namespace}/deployments/{name}"]["patch"];
    let kind = json!({ "group": "apps", "version": "v1", "kind": "Deployment" });
    assert_eq!(patch["x-kubernetes-group-version-kind"], kind);
    let parameters = patch["parameters"].as_array().unwrap();
    assert!(parameters.iter().any(|parameter| parameter["name"] == "fieldValidation"), "{patch}");

    // Without a hash the response has no lifetime for caches. With a wrong hash it redirects to the right
    // one.
    let plain = get(&admin, path, &[]).await;
    assert_eq!((plain.status, plain.header("expires")), (200, None));
    let moved = get(&admin, &format!("{path}?hash=0"), &[]).await;
    assert_eq!((moved.status, moved.header("location")), (301, Some(address.as_str())));
    let known = get(&admin, path, &[(header::IF_NONE_MATCH, &format!("\"{hash}\""))]).await;
    assert_eq!((known.status, known.text().as_str()), (304, ""));

    let zipped = get(&admin, path, &[(header::ACCEPT_ENCODING, "gzip")]).await;
    assert_eq!(zipped.header("content-encoding"), Some("gzip"));
    let mut text = String::new();
    GzDecoder::new(&zipped.body[..]).read_to_string(&mut text).unwrap();
    assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), document);
}

#[tokio::test(flavor = "multi_thread")]
async fn version_2_is_served_as_json_and_protobuf() {
    let atoll = Atoll::start();
    let admin = atoll.admin();
    let two = get(&admin, "/openapi/v2", &[]).await;
    let document = two.json();
    let containers = &document["definitions"]["io.k8s.api.core.v1.PodSpec"]["properties"]["containers"];
    assert_eq!(containers["x-kubernetes-patch-merge-key"], "name");
    assert!(document["definitions"]["dev.atoll.v1alpha1.Workspace"]["properties"]["status"].is_object());
    let asked = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";
    let protobuf = get(&admin, "/openapi/v2", &[(header::ACCEPT, asked)]).await;
    assert_eq!(protobuf.status, 200);
    let answered = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";
    assert_eq!(protobuf.header("content-type"), Some(answered));
    assert_eq!(protobuf.header("etag"), two.header("etag"));
    assert!(protobuf.body.windows(3).any(|bytes| bytes == b"2.0"));
    assert_eq!(get(&admin, "/openapi/v2", &[(header::ACCEPT, "application/yaml")]).await.status, 406);
}

#[tokio::test(flavor = "multi_thread")]
async fn index_lists_documents_of_its_workspace() {
    let atoll = Atoll::start();
    let admin = atoll.admin();
    let workspace =
        json!({ "apiVersion": "atoll.dev/v1alpha1", "kind": "Workspace", "metadata": { "name": "team" } });
    admin.post("/apis/atoll.dev/v1alpha1/workspaces", workspace).await.expect(201);
    let index = get(&admin, "/clusters/root:team/openapi/v3", &[]).await.json();
    for entry in index["paths"].as_object().unwrap().values() {
        let address = entry["serverRelativeURL"].as_str().unwrap();
        assert!(address.starts_with("/clusters/root:team/openapi/v3/"), "{address}");
        assert_eq!(get(&admin, address, &[]).await.status, 200, "{address}");
    }
}

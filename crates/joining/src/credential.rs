//! Credentials of ServiceAccounts: a self-contained kubeconfig with a token, and the Secret that stores it.

use atoll_client::kubeconfig::{Context, is_token};
use atoll_client::path;
use atoll_fleet::marks::SYSTEM_NAMESPACE;
pub use atoll_fleet::marks::{CLUSTER, EXPIRES};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::Method;
use serde_json::{Value, json};

use crate::api::Api;
use crate::client::Problem;

/// Requested lifetime of tokens. The server may grant less.
const LIFETIME_SECONDS: u32 = 365 * 86_400;

/// A token from a TokenRequest.
pub struct ServiceAccountToken {
    pub token: String,
    /// Expiry in RFC 3339 format, or empty if unknown.
    pub expires: String,
}

/// Requests a token for a ServiceAccount in Atoll's namespace.
pub async fn request_token(api: &Api, account: &str) -> Result<ServiceAccountToken, Problem> {
    let path = format!("/api/v1/namespaces/{SYSTEM_NAMESPACE}/serviceaccounts/{account}/token");
    let request = json!({
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": { "expirationSeconds": LIFETIME_SECONDS },
    });
    let answer = api.call_as(Method::POST, &path, "application/json", Some(&request)).await?;
    let text = |name: &str| answer["status"][name].as_str().unwrap_or_default().to_string();
    let expires = Some(text("expirationTimestamp")).filter(|text| atoll_meta::time::parse(text).is_ok());
    let token = ServiceAccountToken { token: text("token"), expires: expires.unwrap_or_default() };
    match is_token(&token.token) {
        false => Err(Problem::from(format!("the server returned no token for ServiceAccount {account}"))),
        true => Ok(token),
    }
}

/// The same server with a token as the only credential.
pub fn context(admin: &Context, server: &str, token: &str) -> Context {
    Context {
        server: server.to_string(),
        authority_pem: admin.authority_pem.clone(),
        token: Some(token.to_string()),
        ..Context::default()
    }
}

/// Renders the kubeconfig of a context with a token.
pub fn kubeconfig(name: &str, user: &str, context: &Context) -> String {
    let authority = context.authority_pem.as_deref().unwrap_or_default();
    with_token(name, user, &context.server, authority, context.token.as_deref().unwrap_or_default())
}

/// Renders a self-contained kubeconfig with a token.
pub fn with_token(name: &str, user: &str, server: &str, authority_pem: &[u8], token: &str) -> String {
    let config = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{ "name": name, "cluster": {
            "server": server, "certificate-authority-data": STANDARD.encode(authority_pem),
        } }],
        "users": [{ "name": user, "user": { "token": token } }],
        "contexts": [{ "name": name, "context": { "cluster": name, "user": user } }],
        "current-context": name,
    });
    serde_saphyr::to_string(&config).unwrap_or_else(|_| config.to_string())
}

/// The name of the Secret with a cluster's credential.
pub fn secret_name(cluster: &str) -> String {
    format!("cluster-{cluster}")
}

pub fn secret_path(cluster: &str) -> String {
    path::object(&path::collection("", "v1", SYSTEM_NAMESPACE, "secrets"), &secret_name(cluster))
}

pub fn secret(cluster: &str, kubeconfig: &str, expires: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": secret_name(cluster), "namespace": SYSTEM_NAMESPACE,
            "labels": { CLUSTER: cluster }, "annotations": { EXPIRES: expires },
        },
        "type": "Opaque",
        "data": { "kubeconfig": STANDARD.encode(kubeconfig) },
    })
}

/// The kubeconfig in a Secret.
pub fn kubeconfig_from_secret(secret: &Value) -> Option<String> {
    let data = secret["data"]["kubeconfig"].as_str()?;
    String::from_utf8(STANDARD.decode(data).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use atoll_client::kubeconfig::Kubeconfig;

    #[test]
    fn credentials_contain_only_the_token() {
        let admin = Context {
            server: "https://east:6443".into(),
            authority_pem: Some(b"authority".to_vec()),
            certificate_pem: Some(b"certificate".to_vec()),
            key_pem: Some(b"key".to_vec()),
            token: Some("admins".into()),
            ..Context::default()
        };
        let text = kubeconfig("east", "atoll-syncer", &context(&admin, &admin.server, "syncers"));
        let read = Kubeconfig::parse(&text).expect("a kubeconfig");
        let found = read.context(read.current(), None).expect("a context with everything inline");
        assert_eq!((found.server.as_str(), found.token.as_deref()), ("https://east:6443", Some("syncers")));
        assert_eq!(found.authority_pem, admin.authority_pem);
        assert_eq!((found.certificate_pem, found.key_pem), (None, None));
        assert!(!text.contains("admins"));
    }

    #[test]
    fn kubeconfigs_round_trip_through_secrets() {
        let secret = secret("east", "kind: Config\n", "2027-11-16T00:00:00Z");
        assert_eq!(kubeconfig_from_secret(&secret).as_deref(), Some("kind: Config\n"));
        assert_eq!(secret["metadata"]["name"], "cluster-east");
        assert_eq!(kubeconfig_from_secret(&json!({})), None);
    }
}

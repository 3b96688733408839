//! Trusted kubelets of nodes in workspaces below root. By default, the server sends no client certificate to
//! such nodes and refuses addresses of its own machine, because tenants can write Nodes. A ConfigMap in
//! root's namespace `atoll-system` names the address of a kubelet that is treated like those of root, and the
//! CA of its certificate. `atoll sim nodes` writes one for the nodes that it simulates in a workspace, if its
//! user may write there.

use atoll_fleet::marks::{KUBELETS, SYSTEM_NAMESPACE};
use atoll_meta::{json, object};
use atoll_registry::Registry;
use atoll_registry::bootstrap::ROOT;
use atoll_watch::Scope;
use serde_json::Value;

/// Returns the CA (PEM) of a trusted kubelet at this address in this workspace.
pub fn authority(registry: &Registry, workspace: &str, host: &str, port: u16) -> Option<Vec<u8>> {
    let scope = Scope::new("", "configmaps", Some(ROOT), Some(SYSTEM_NAMESPACE));
    let snapshot = registry.snapshot();
    let stored = snapshot.list(&scope, None).filter_map(|found| json::parse(&found.json()).ok());
    stored.map(|parsed| parsed.value).find_map(|found| trusted_authority(&found, workspace, host, port))
}

fn trusted_authority(config_map: &Value, workspace: &str, host: &str, port: u16) -> Option<Vec<u8>> {
    let data = &config_map["data"];
    let is_match = object::label(config_map, KUBELETS) == Some(workspace)
        && data["host"] == host
        && data["port"].as_str() == Some(port.to_string().as_str());
    let authority = data["certificateAuthority"].as_str().filter(|_| is_match)?;
    Some(authority.as_bytes().to_vec())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_matching_workspace_and_address_is_trusted() {
        let data = json!({ "host": "127.0.0.1", "port": "4711", "certificateAuthority": "pem" });
        let config_map = json!({ "metadata": { "labels": { KUBELETS: "w" } }, "data": data });
        assert_eq!(trusted_authority(&config_map, "w", "127.0.0.1", 4711).as_deref(), Some(&b"pem"[..]));
        assert_eq!(trusted_authority(&config_map, "v", "127.0.0.1", 4711), None);
        assert_eq!(trusted_authority(&config_map, "w", "127.0.0.2", 4711), None);
        assert_eq!(trusted_authority(&config_map, "w", "127.0.0.1", 4712), None);
        assert_eq!(trusted_authority(&json!({ "data": data }), "w", "127.0.0.1", 4711), None);
    }
}

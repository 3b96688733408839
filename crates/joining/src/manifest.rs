//! The objects of an agent in pull mode in its cluster.

use atoll_fleet::agent::AGENT;
use atoll_fleet::marks::SYSTEM_NAMESPACE;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::rights::{self, ACCOUNT, Access};

/// User that agents run as; the image works with any.
const USER: u32 = 65532;

/// An agent to install.
pub struct AgentManifest<'a> {
    /// Name of the cluster in the control plane.
    pub cluster: &'a str,
    pub image: &'a str,
    /// Address of the registering workspace.
    pub server: &'a str,
    pub authority_pem: &'a [u8],
    /// Name in the agent's certificates.
    pub user: &'a str,
    /// The join token.
    pub token: &'a str,
}

impl AgentManifest<'_> {
    /// Returns all objects, in the order in which they must be created.
    pub fn objects(&self, access: Access, groups: &[String]) -> Vec<Value> {
        let namespace =
            json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": SYSTEM_NAMESPACE } });
        let account = json!({
            "apiVersion": "v1", "kind": "ServiceAccount",
            "metadata": { "name": ACCOUNT, "namespace": SYSTEM_NAMESPACE },
        });
        // The uid of the namespace, which would own them, is not known yet.
        let mut cluster_wide =
            [rights::cluster_role(access, groups, &Value::Null), rights::binding(Some(&Value::Null))];
        for object in &mut cluster_wide {
            object["metadata"].as_object_mut().map(|metadata| metadata.remove("ownerReferences"));
        }
        let mut objects = vec![namespace, account];
        objects.extend(cluster_wide);
        objects.extend([rights::agent_role(access), rights::binding(None), self.secret(), self.deployment()]);
        objects
    }

    /// Returns the Secret in which the agent keeps its credential.
    pub fn secret(&self) -> Value {
        let encode = |value: &[u8]| STANDARD.encode(value);
        json!({
            "apiVersion": "v1", "kind": "Secret", "type": "Opaque",
            "metadata": { "name": AGENT, "namespace": SYSTEM_NAMESPACE },
            "data": {
                "server": encode(self.server.as_bytes()), "ca.crt": encode(self.authority_pem),
                "user": encode(self.user.as_bytes()), "token": encode(self.token.as_bytes()),
            },
        })
    }

    pub fn deployment(&self) -> Value {
        let labels = json!({ "app.kubernetes.io/name": AGENT });
        let container = json!({
            "name": "agent", "image": self.image, "args": ["syncer", self.cluster, "--in-cluster"],
            "resources": { "requests": { "cpu": "10m", "memory": "64Mi" } },
            "securityContext": {
                "allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true,
                "capabilities": { "drop": ["ALL"] },
            },
        });
        let pod = json!({
            "serviceAccountName": ACCOUNT, "containers": [container],
            "securityContext": {
                "runAsNonRoot": true, "runAsUser": USER, "seccompProfile": { "type": "RuntimeDefault" },
            },
        });
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": { "name": AGENT, "namespace": SYSTEM_NAMESPACE, "labels": labels },
            "spec": {
                // Two agents would take turns with the lease and the tunnel.
                "replicas": 1, "strategy": { "type": "Recreate" }, "selector": { "matchLabels": labels },
                "template": { "metadata": { "labels": labels }, "spec": pod },
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn manifests_grant_what_a_syncer_needs_and_the_agents_secret() {
        let manifest = AgentManifest {
            cluster: "east",
            image: "localhost/atoll:1",
            server: "https://above:6443/clusters/root:team",
            authority_pem: b"authority",
            user: "system:atoll:agent:east:u",
            token: "t.o.k",
        };
        let objects = manifest.objects(Access::Manage, &["example.com".into()]);
        let kinds: Vec<&str> = objects.iter().filter_map(|object| object["kind"].as_str()).collect();
        let expected = [
            "Namespace",
            "ServiceAccount",
            "ClusterRole",
            "ClusterRoleBinding",
            "Role",
            "RoleBinding",
            "Secret",
            "Deployment",
        ];
        assert_eq!(kinds, expected);
        assert!(objects.iter().all(|object| object["metadata"]["ownerReferences"].is_null()));
        let mut role = rights::cluster_role(Access::Manage, &["example.com".into()], &Value::Null);
        role["metadata"].as_object_mut().map(|metadata| metadata.remove("ownerReferences"));
        assert_eq!(objects[2], role);
        let own = objects[4]["rules"].as_array().and_then(|rules| rules.last()).cloned().unwrap_or_default();
        assert_eq!(own["resourceNames"], json!([AGENT]));
        assert_eq!(objects[6]["data"]["token"], STANDARD.encode("t.o.k"));
        assert_eq!(objects[7]["spec"]["template"]["spec"]["serviceAccountName"], ACCOUNT);
        assert_eq!(
            objects[7]["spec"]["template"]["spec"]["containers"][0]["args"],
            json!(["syncer", "east", "--in-cluster"])
        );
    }
}

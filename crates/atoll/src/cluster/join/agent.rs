//! The account, kubeconfigs and command line of an agent: a syncer that runs outside the control plane.

use std::path::Path;

use atoll_authn::authority::write_private;
use atoll_fleet::marks::SYSTEM_NAMESPACE;
use serde_json::json;

use super::super::control_plane_connection::ControlPlaneConnection;
use super::super::step_printer::StepPrinter;
use crate::advice::{Failure, invocation};
use crate::command::JoinOptions;
use crate::process::{quoted, quoted_path};
use atoll_joining::credential;

const ROLES: &str = "/apis/rbac.authorization.k8s.io/v1";

/// Writes both kubeconfigs and returns the command line that uses them.
pub async fn prepare(
    options: &JoinOptions,
    fleet: &ControlPlaneConnection,
    cluster: &str,
    steps: &mut StepPrinter,
) -> Result<String, Failure> {
    let name = options.name.as_str();
    let control_plane = steps.step("creating an account for the syncer", account(name, fleet)).await?;
    let directory = std::path::absolute(&options.write_to).map_err(|error| error.to_string())?;
    let from = directory.join(format!("{name}.control-plane.kubeconfig"));
    let to = directory.join(format!("{name}.cluster.kubeconfig"));
    steps
        .step("writing kubeconfigs", async {
            write(&from, &control_plane)?;
            write(&to, cluster)?;
            let message = format!("wrote {} and {}", quoted_path(&from), quoted_path(&to));
            Ok((message, ()))
        })
        .await?;
    Ok(line(name, &from, &to))
}

fn line(name: &str, from: &Path, to: &Path) -> String {
    format!(
        "{} syncer --from-kubeconfig {} --to-kubeconfig {} {}",
        invocation(),
        quoted_path(from),
        quoted_path(to),
        quoted(name)
    )
}

/// Writes a kubeconfig readable by its owner only, because it contains a token.
fn write(path: &Path, text: &str) -> Result<(), Failure> {
    write_private(path, text)
        .map_err(|error| Failure::new(error.to_string(), "choose a writable directory with --write-to"))
}

fn account_name(cluster: &str) -> String {
    format!("syncer-{cluster}")
}

pub fn account_path(cluster: &str) -> String {
    format!("/api/v1/namespaces/{SYSTEM_NAMESPACE}/serviceaccounts/{}", account_name(cluster))
}

pub fn role_name(cluster: &str) -> String {
    format!("atoll:syncer:{cluster}")
}

/// Paths of the Role that lets a syncer renew its own token, and of its RoleBinding.
pub fn renewal_paths(cluster: &str) -> [String; 2] {
    let role = role_name(cluster);
    ["roles", "rolebindings"]
        .map(|resource| format!("{ROLES}/namespaces/{SYSTEM_NAMESPACE}/{resource}/{role}"))
}

/// Creates an account above that may only sync this cluster. Returns a kubeconfig for it.
async fn account(name: &str, fleet: &ControlPlaneConnection) -> Result<(String, String), Failure> {
    let (account, role) = (account_name(name), role_name(name));
    let api = &fleet.api;
    let object = json!({
        "apiVersion": "v1", "kind": "ServiceAccount",
        "metadata": { "name": account, "namespace": SYSTEM_NAMESPACE },
    });
    let accounts = format!("/api/v1/namespaces/{SYSTEM_NAMESPACE}/serviceaccounts");
    api.create_if_absent(&accounts, &object).await?;
    let rules = json!([
        {
            "apiGroups": ["atoll.dev"], "resources": ["clusters"], "resourceNames": [name],
            "verbs": ["get", "sync"],
        },
        { "nonResourceURLs": [format!("/services/sync/{name}")], "verbs": ["get", "post"] },
    ]);
    let group = "rbac.authorization.k8s.io";
    let object = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": { "name": role },
        "rules": rules,
    });
    api.apply(&format!("{ROLES}/clusterroles/{role}"), &object).await?;
    let object = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": { "name": role },
        "roleRef": { "apiGroup": group, "kind": "ClusterRole", "name": role },
        "subjects": [{ "kind": "ServiceAccount", "name": account, "namespace": SYSTEM_NAMESPACE }],
    });
    api.apply(&format!("{ROLES}/clusterrolebindings/{role}"), &object).await?;
    // Allow only tokens of the account itself.
    let own = json!([{
        "apiGroups": [""], "resources": ["serviceaccounts/token"], "resourceNames": [account], "verbs": ["create"],
    }]);
    let [role_at, binding_at] = renewal_paths(name);
    let object = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
        "metadata": { "name": role, "namespace": SYSTEM_NAMESPACE }, "rules": own,
    });
    api.apply(&role_at, &object).await?;
    let object = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
        "metadata": { "name": role, "namespace": SYSTEM_NAMESPACE },
        "roleRef": { "apiGroup": group, "kind": "Role", "name": role },
        "subjects": [{ "kind": "ServiceAccount", "name": account, "namespace": SYSTEM_NAMESPACE }],
    });
    api.apply(&binding_at, &object).await?;
    let token = credential::request_token(api, &account).await?;
    let admin = fleet.session.config.context()?;
    let context = credential::context(&admin, &admin.server, &token.token);
    let message = format!(
        "created ServiceAccount {SYSTEM_NAMESPACE}/{account}; it may only sync {name}, until {}",
        token.expires
    );
    Ok((message, credential::kubeconfig("atoll", &account, &context)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_lines_have_two_kubeconfigs_and_a_name() {
        assert_eq!(
            line("east", Path::new("/a b/x"), Path::new("/c/y")),
            "atoll syncer --from-kubeconfig '/a b/x' --to-kubeconfig /c/y east"
        );
    }
}

//! The claim: the ConfigMap in a member cluster that says which control plane it has joined.

use atoll_fleet::marks::{CLAIM, CONTROL_PLANE, SYSTEM_NAMESPACE};
use serde_json::{Value, json};

use crate::{Failure, invocation};

/// The id of the root workspace.
const ROOT: &str = "root";

/// The contents of a claim.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Claim {
    /// Id of the control plane.
    pub control_plane: String,
    /// Id of the workspace.
    pub workspace: String,
    /// Uid of the Cluster.
    pub cluster: String,
    /// Address of the control plane when it claimed the cluster, for messages.
    pub address: String,
    /// Name of the Cluster, for messages.
    pub name: String,
}

/// The meaning of a claim for a control plane that wants to join the cluster.
#[derive(Debug, PartialEq, Eq)]
pub enum ClaimState {
    /// The cluster is unclaimed, or claimed by this control plane and workspace.
    Free,
    OtherControlPlane,
    OtherWorkspace,
}

/// Value of the control plane in a claim that was released. No control plane has this id.
pub const RELEASED: &str = "released";

pub fn path() -> String {
    format!("/api/v1/namespaces/{SYSTEM_NAMESPACE}/configmaps/{CLAIM}")
}

impl Claim {
    pub fn of(config_map: &Value) -> Claim {
        let text = |name: &str| config_map["data"][name].as_str().unwrap_or_default().to_string();
        Claim {
            control_plane: text("controlPlane"),
            workspace: text("workspace"),
            cluster: text("cluster"),
            address: text("address"),
            name: text("name"),
        }
    }

    pub fn config_map(&self) -> Value {
        let mut object = json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": { "name": CLAIM, "namespace": SYSTEM_NAMESPACE },
            "data": {
                "controlPlane": self.control_plane, "workspace": self.workspace, "cluster": self.cluster,
                "address": self.address, "name": self.name,
            },
        });
        if self.control_plane != RELEASED {
            object["metadata"]["labels"] = json!({ CONTROL_PLANE: self.control_plane });
        }
        object
    }

    /// The state of the claim for this control plane and workspace, as far as their ids can be read.
    pub fn state(&self, control_plane: Option<&str>, workspace: Option<&str>) -> ClaimState {
        let is_claimed = !self.control_plane.is_empty() && self.control_plane != RELEASED;
        let same_workspace = workspace == Some(self.workspace.as_str());
        // Workspace ids are unique, except that every control plane has a root.
        let is_known_by_workspace = same_workspace && self.workspace != ROOT;
        match control_plane {
            _ if !is_claimed => ClaimState::Free,
            Some(id) if id != self.control_plane => ClaimState::OtherControlPlane,
            None if !is_known_by_workspace => ClaimState::OtherControlPlane,
            _ if workspace.is_some() && !same_workspace => ClaimState::OtherWorkspace,
            _ => ClaimState::Free,
        }
    }

    /// The failure for a cluster that another control plane or workspace has claimed. `kubectl` is the
    /// command line that reaches the cluster.
    pub fn conflict(&self, state: &ClaimState, kubectl: &str) -> Option<Failure> {
        let what = match state {
            ClaimState::Free => return None,
            ClaimState::OtherControlPlane => {
                let at = if self.address.is_empty() { "" } else { " at " };
                format!(
                    "the cluster belongs to another control plane{at}{}, with the id {}",
                    self.address, self.control_plane
                )
            }
            ClaimState::OtherWorkspace => {
                format!("the cluster has joined another workspace of this control plane, with the id {}", {
                    &self.workspace
                })
            }
        };
        let name = if self.name.is_empty() { "NAME" } else { &self.name };
        Some(Failure::new(
            what,
            format!(
                "remove it there first: {} cluster remove {name}; if that control plane no longer exists, delete the claim: \
                 {kubectl} --namespace {SYSTEM_NAMESPACE} delete configmap {CLAIM}",
                invocation()
            ),
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn claims_of_others_are_recognized() {
        let claim = |control_plane: &str, workspace: &str| Claim {
            control_plane: control_plane.into(),
            workspace: workspace.into(),
            ..Claim::default()
        };
        for (found, control_plane, workspace, expected) in [
            (claim("", ""), Some("me"), Some("w"), ClaimState::Free),
            (claim(RELEASED, "w"), Some("me"), Some("w"), ClaimState::Free),
            (claim("me", "w"), Some("me"), Some("w"), ClaimState::Free),
            (claim("me", "w"), Some("me"), None, ClaimState::Free),
            (claim("me", "v"), Some("me"), Some("w"), ClaimState::OtherWorkspace),
            (claim("you", "w"), Some("me"), Some("w"), ClaimState::OtherControlPlane),
            (claim("you", "root"), Some("me"), Some("root"), ClaimState::OtherControlPlane),
            (claim("you", "root"), None, Some("root"), ClaimState::OtherControlPlane),
            (claim("me", "w"), None, Some("w"), ClaimState::Free),
            (claim("me", "v"), None, Some("w"), ClaimState::OtherControlPlane),
            (claim("me", "v"), None, None, ClaimState::OtherControlPlane),
        ] {
            assert_eq!(found.state(control_plane, workspace), expected, "{found:?}");
        }
    }

    #[test]
    fn claims_round_trip_and_refusals_name_the_claimant() {
        let claim = Claim {
            control_plane: "id".into(),
            workspace: "w".into(),
            cluster: "u".into(),
            address: "https://there:6443".into(),
            name: "east".into(),
        };
        assert_eq!(Claim::of(&claim.config_map()), claim);
        let failure = claim.conflict(&ClaimState::OtherControlPlane, "kubectl").expect("it is refused");
        assert!(
            failure.message.contains("https://there:6443") && failure.message.contains("id"),
            "{failure}"
        );
        assert!(failure.hint.expect("a hint").contains("atoll cluster remove east"));
        assert!(claim.conflict(&ClaimState::Free, "kubectl").is_none());
    }
}

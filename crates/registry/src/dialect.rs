//! Dialects: APIs of other systems, served unchanged in workspaces that enable them. This module defines the
//! hooks of a dialect and calls them; the dialects themselves are in other crates.
//!
//! ```text
//!   ConfigMap atoll-system/atoll-dialects ─► enabled: where a dialect applies, with all workspaces below
//!   Dialect ─► kinds: definitions, views, subresources ─► reserve: no other definition of these kinds there
//!           ─► sealing: fields that move to a Secret      protection: annotations and labels of the server
//!           ─► intent: clusters that an object asks for   mutate, validate: admission
//!           ─► namespaces and shares below, claims of tokens, texts of the command
//! ```
//!
//! A dialect has no loop here: its controllers use the API as all others do.

mod enabled;
pub mod intent;
mod kinds;
mod protection;
mod reserve;
pub mod sealing;

use std::sync::Arc;

use atoll_fleet::marks::SYSTEM_NAMESPACE;
use atoll_meta::Status;
use atoll_store::Key;
use serde_json::{Map, Value};

use crate::row::{ObjectRef, Row};

pub(crate) use enabled::EnabledDialects;
pub use intent::{Intent, IntentSource};
pub(crate) use kinds::DialectKinds;
pub use kinds::{DialectKind, Spelling};
pub use sealing::SealedField;

/// The ConfigMap with the dialects that are enabled in a workspace, one key for each.
pub const MARKER: &str = "atoll-dialects";

/// The value of a dialect in that ConfigMap.
pub const ENABLED: &str = "enabled";
/// The value while objects that only show others are removed, before the dialect is disabled.
pub const DISABLING: &str = "disabling";

/// The key of that ConfigMap.
pub fn marker(workspace: &str) -> Key {
    Key::object("", "configmaps", workspace, SYSTEM_NAMESPACE, MARKER)
}

/// A dialect that is compiled into the program.
pub type SharedDialect = Arc<dyn Dialect>;

/// The hooks of a dialect. They apply in workspaces that enable the dialect, and in all below them. All hooks
/// are pure: they neither read nor write anything but their arguments. The default of each does nothing.
///
/// For a write, the order is: sealed fields are moved, protected metadata is restored, `mutate`, the validation
/// of the kind, `validate`. No hook sees the value of a sealed field.
pub trait Dialect: Send + Sync + 'static {
    /// The name in commands, and the key in the ConfigMap of dialects. It is also the value of a label, so it
    /// has only lowercase letters, digits and hyphens.
    fn name(&self) -> &'static str;

    /// Complete CustomResourceDefinitions, with their status. Each is compiled once for all workspaces. Where
    /// the dialect is enabled, no workspace can have a definition of the same name.
    ///
    /// No controller completes them: a definition needs `spec.conversion`, all of `spec.names`, and in its
    /// status the accepted names, the stored versions and the conditions `NamesAccepted` and `Established`
    /// with the value `True`. Otherwise its kind is not served.
    fn definitions(&self) -> Vec<Value> {
        Vec::new()
    }

    /// Kinds among the definitions whose objects are stored as objects of another one.
    fn views(&self) -> Vec<DialectView> {
        Vec::new()
    }

    /// Subresources of kinds, which may be kinds of the dialect or any others.
    fn subresources(&self) -> Vec<DialectSubresource> {
        Vec::new()
    }

    /// Fields of the dialect's kinds that are moved to a Secret before an object is stored. The Secret is
    /// deleted some minutes after its object, unless a controller of the dialect does it earlier.
    fn sealed_fields(&self) -> Vec<SealedField> {
        Vec::new()
    }

    /// Annotations and labels of objects of a resource that only the server and its controllers set. In
    /// requests of all other users, administrators included, they keep their values.
    fn protected(&self, _group: &str, _resource: &str) -> ProtectedMetadata {
        ProtectedMetadata::default()
    }

    /// Changes an object of any kind before it is created or updated, also by the server's controllers and
    /// through subresources: see [`DialectWrite::subresource`].
    ///
    /// # Errors
    ///
    /// The write is refused.
    fn mutate(&self, _write: &DialectWrite<'_>, _new: &mut Value) -> Result<(), Status> {
        Ok(())
    }

    /// Checks an object before it is created or updated, after it was validated.
    ///
    /// # Errors
    ///
    /// The write is refused.
    fn validate(&self, _write: &DialectWrite<'_>, _new: &Value) -> Result<(), Status> {
        Ok(())
    }

    /// The value of `by` in placements that the dialect's controller decides, which no other dialect has. A
    /// dialect with one can select the objects of [`Dialect::intents`] with the label [`intent::label`].
    fn placed_by(&self) -> Option<&'static str> {
        None
    }

    /// The clusters that an object asks for, with the label or annotation that names each. It has an effect
    /// only with [`Dialect::placed_by`] and a controller that writes the placements.
    ///
    /// Called for every object of every workspace that is written or loaded, whether or not the workspace
    /// enables the dialect, so it must be fast.
    fn intents<'a>(&self, _object: &'a Value) -> Vec<Intent<'a>> {
        Vec::new()
    }

    /// ClusterPlacementPolicies that `atoll dialect enable` creates in the workspace, unless they exist: how
    /// the other system places work. Users may change and delete them.
    fn policies(&self) -> Vec<Value> {
        Vec::new()
    }

    /// The name of a namespace in a cluster. Without one, the syncer chooses it. A namespace that exists
    /// there and belongs to others is never used, whatever its name.
    fn namespace_below(&self, _namespace: &NamespaceAbove<'_>) -> Option<String> {
        None
    }

    /// Labels and annotations that an object gets in the clusters on which it is placed.
    fn share_metadata(&self, _share: &ShareTarget<'_>, _object: &Value) -> ShareMetadata {
        ShareMetadata::default()
    }

    /// Further claims of the tokens of a ServiceAccount, by name. Registered and Kubernetes' own claims
    /// cannot be replaced.
    fn token_claims(&self, _account: &ObjectRef<'_>, _object: &Value) -> Map<String, Value> {
        Map::new()
    }

    /// Whether an object of the dialect only shows one that exists without it. The dialect can be disabled
    /// while such objects exist.
    fn is_reflection(&self, _object: &Value) -> bool {
        false
    }

    /// Texts for the command `atoll dialect`.
    fn texts(&self) -> DialectTexts {
        DialectTexts::default()
    }
}

/// A kind whose objects are stored in the spelling of another kind of the same dialect. Both are served.
#[derive(Clone, Copy, Debug)]
pub struct DialectView {
    pub group: &'static str,
    pub resource: &'static str,
    /// Group and plural of the stored kind.
    pub stored: (&'static str, &'static str),
    /// Converts a valid object to the stored spelling. `apiVersion` and `kind` are set afterwards.
    pub to_stored: fn(&mut Value),
    /// Converts a stored object to the spelling of this kind.
    pub to_view: fn(&mut Value),
}

/// A subresource that a dialect adds to a kind.
#[derive(Clone, Copy, Debug)]
pub struct DialectSubresource {
    pub group: &'static str,
    pub resource: &'static str,
    pub name: &'static str,
    /// The kind of the body, for discovery.
    pub kind: &'static str,
    /// `get` returns the result; `create` and `update` write it.
    pub verbs: &'static [&'static str],
    /// Computes the result from the object and the body, which is null for `get`.
    pub handle: fn(&SubresourceRequest<'_>) -> Result<Value, Status>,
}

/// A request to a subresource of a dialect.
pub struct SubresourceRequest<'a> {
    pub verb: &'a str,
    /// The object as it is stored, in the version of the request.
    pub object: &'a Value,
    pub body: &'a Value,
}

/// Annotations and labels that clients cannot set, change or remove.
#[derive(Clone, Copy, Debug, Default)]
pub struct ProtectedMetadata {
    pub annotations: &'static [&'static str],
    pub labels: &'static [&'static str],
}

/// A write for which admission is called.
pub struct DialectWrite<'a> {
    pub row: &'a Row,
    /// Empty for the object itself.
    pub subresource: &'a str,
    pub object_ref: ObjectRef<'a>,
    /// The user who writes.
    pub user: &'a str,
    /// The object that is replaced; `None` if one is created.
    pub old: Option<&'a Value>,
}

/// A namespace above that a cluster is about to get objects of.
pub struct NamespaceAbove<'a> {
    pub workspace: &'a str,
    pub namespace: &'a str,
    /// The Namespace.
    pub object: &'a Value,
    /// The Cluster.
    pub cluster: &'a Value,
}

/// An object on its way to a cluster.
pub struct ShareTarget<'a> {
    pub workspace: &'a str,
    pub group: &'a str,
    pub resource: &'a str,
    /// The Cluster.
    pub cluster: &'a Value,
}

/// Labels and annotations of a share below.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ShareMetadata {
    pub labels: Vec<(String, String)>,
    pub annotations: Vec<(String, String)>,
}

/// Texts for the command `atoll dialect`.
#[derive(Clone, Copy, Debug, Default)]
pub struct DialectTexts {
    /// One line about the dialect, for `--help`.
    pub about: &'static str,
    /// A paragraph for `--help`, without line breaks: the command wraps it.
    pub help: &'static str,
    /// The group and version that it serves, for lists.
    pub serves: &'static str,
    /// A sentence that is printed after the dialect was enabled.
    pub enabled: &'static str,
    /// A sentence that is printed after the dialect was disabled. `{atoll}` stands for the program.
    pub disabled: &'static str,
    /// The noun for objects that must be deleted before it can be disabled.
    pub objects: &'static str,
}

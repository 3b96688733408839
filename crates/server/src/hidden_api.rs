//! Parts of the API that are not served to some clients.

use std::sync::Arc;

/// An API group and version.
pub type GroupVersion = (String, String);

/// The hidden parts of the API.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HiddenApi {
    /// API versions, in order.
    pub versions: Arc<[GroupVersion]>,
    /// Whether workspaces are hidden.
    pub workspaces: bool,
}

impl HiddenApi {
    pub fn hides(&self, group: &str, version: &str) -> bool {
        self.versions.iter().any(|(hidden, of)| hidden == group && of == version)
    }
}

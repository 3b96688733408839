//! The last decisions about an object, which are stored with its placement.

use atoll_meta::text::{clean, is_control};
use serde::{Deserialize, Serialize};

use super::Placement;

/// Maximum number of decisions.
pub const MAX_DECISIONS: usize = 5;
/// Maximum size of all decisions as JSON.
pub const MAX_DECISIONS_BYTES: usize = 1024;
/// Sizes to which a decision is cut if it alone is too large.
const SHORT_BY: usize = 128;
const SHORT_REASON: usize = 256;

/// A decision that led to a placement.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlacementDecision {
    /// Time in RFC 3339.
    pub time: String,
    /// The decision maker, as in [`Placement::by`].
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub by: String,
    pub reason: String,
}

impl Placement {
    /// Appends a decision. The oldest ones are dropped if there are too many or if they are too large.
    pub fn record(&mut self, decision: PlacementDecision) {
        self.decisions.push(decision);
        let excess = self.decisions.len().saturating_sub(MAX_DECISIONS);
        self.decisions.drain(..excess);
        while self.decisions.len() > 1 && size(&self.decisions) > MAX_DECISIONS_BYTES {
            self.decisions.remove(0);
        }
        if size(&self.decisions) > MAX_DECISIONS_BYTES
            && let Some(only) = self.decisions.last_mut()
        {
            only.by = clean(&only.by, SHORT_BY);
            only.reason = clean(&only.reason, SHORT_REASON);
        }
    }

    /// Size of the decisions as JSON.
    pub fn decisions_size(&self) -> usize {
        size(&self.decisions)
    }
}

fn size(decisions: &[PlacementDecision]) -> usize {
    serde_json::to_vec(decisions).map_or(0, |text| text.len())
}

/// Whether a text consists of one to `most` characters without line breaks and control characters.
pub fn is_printable(text: &str, most: usize) -> bool {
    let is_plain = |character: char| !is_control(character) && !matches!(character, '\n' | '\r' | '\t');
    !text.is_empty() && text.chars().count() <= most && text.chars().all(is_plain)
}

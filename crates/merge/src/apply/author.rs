//! Who writes, and what a write of theirs cannot reach.

use super::set::Set;

/// Who writes, by which way, and when.
#[derive(Clone, Copy, Debug)]
pub struct Author<'a> {
    /// The field manager that the request names, or how its client calls itself.
    pub manager: &'a str,
    /// Empty for the object itself.
    pub subresource: &'a str,
    /// Now, as it is written in objects.
    pub time: &'a str,
    pub resets: Resets,
}

/// The fields that a write of an object, or of a part of it, leaves as they were. Nobody can own them that way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resets {
    /// All that is at or below these paths.
    At(&'static [&'static [&'static str]]),
    /// All that is not at or below these paths, in which a star stands for any step.
    AllBut(&'static [&'static [&'static str]]),
}

impl Resets {
    pub const NONE: Resets = Resets::At(&[]);

    pub(super) fn filter(self, set: &mut Set<'_>) {
        match self {
            Resets::At(paths) => paths.iter().for_each(|path| set.remove(path, true)),
            Resets::AllBut(patterns) => set.retain(patterns),
        }
    }
}

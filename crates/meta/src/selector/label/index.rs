//! The requirements of a long selector, combined by key. The cost of matching an object depends on the number
//! of its labels, not on the number of requirements.

use std::cmp::Ordering;
use std::mem::{size_of, size_of_val};

use super::{LabelOperator, LabelSet, Requirement};

/// Number of comparisons up to which they are made one by one.
const MAX_COMPARISONS: usize = 8;

#[derive(Clone, Debug)]
pub(super) struct LabelIndex {
    /// One for each key, sorted by key.
    groups: Box<[Group]>,
    /// Number of groups that an object without the label does not match.
    required: usize,
    /// Whether requirements on one key contradict each other.
    is_contradictory: bool,
}

/// The requirements on one key.
#[derive(Clone, Debug)]
struct Group {
    /// Position of the first requirement.
    first: u32,
    is_required: bool,
    /// `None` if there is only one short requirement, which is checked as it is.
    combined: Option<Box<Combined>>,
}

#[derive(Clone, Debug, Default)]
struct Combined {
    is_forbidden: bool,
    /// The only values that the label may have, sorted.
    allowed: Option<Box<[ValuePosition]>>,
    /// Values that the label must not have, sorted.
    excluded: Box<[ValuePosition]>,
    /// The value is an integer above this one.
    above: Option<i64>,
    /// The value is an integer below this one.
    below: Option<i64>,
}

/// The positions of a requirement and of one of its values.
type ValuePosition = (u32, u32);

impl LabelIndex {
    /// Returns `None` for short selectors. The requirements are sorted by key.
    pub(super) fn new(requirements: &[Requirement]) -> Option<Box<LabelIndex>> {
        let comparisons: usize = requirements.iter().map(Requirement::comparisons).sum();
        if comparisons <= MAX_COMPARISONS || u32::try_from(comparisons).is_err() {
            return None;
        }
        let (mut groups, mut first, mut is_contradictory) = (Vec::new(), 0, false);
        for group in requirements.chunk_by(|one, other| one.key == other.key) {
            let is_required = group.iter().any(|requirement| requirement.operator.is_required());
            let is_short = group.len() == 1 && group[0].comparisons() <= MAX_COMPARISONS;
            let combined = (!is_short).then(|| Box::new(Combined::new(requirements, group, first)));
            is_contradictory |=
                combined.as_ref().is_some_and(|combined| combined.is_contradictory(is_required));
            groups.push(Group { first, is_required, combined });
            first += u32::try_from(group.len()).unwrap_or_default();
        }
        let required = groups.iter().filter(|group| group.is_required).count();
        Some(Box::new(LabelIndex { groups: groups.into(), required, is_contradictory }))
    }

    /// Returns the number of keys.
    pub(super) fn keys(&self) -> usize {
        self.groups.len()
    }

    /// Returns the approximate number of bytes in memory.
    pub(super) fn memory(&self) -> usize {
        let combined = self.groups.iter().filter_map(|group| group.combined.as_deref());
        let combined = combined.map(|combined| {
            let allowed = combined.allowed.as_deref().map_or(0, size_of_val);
            size_of::<Combined>() + allowed + size_of_val(&*combined.excluded)
        });
        size_of_val(&*self.groups) + combined.sum::<usize>()
    }

    pub(super) fn matches<'a>(
        &self,
        requirements: &[Requirement],
        lookup: impl Fn(&str) -> Option<&'a str>,
    ) -> bool {
        !self.is_contradictory
            && self.groups.iter().all(|group| {
                let key = &requirements[group.first as usize].key;
                group.matches(requirements, lookup(key))
            })
    }

    pub(super) fn matches_labels(&self, requirements: &[Requirement], labels: &impl LabelSet) -> bool {
        if self.is_contradictory || labels.count() < self.required {
            return false;
        }
        if self.groups.len() <= labels.count() {
            return self.matches(requirements, |key| labels.label(key));
        }
        let key_of = |group: &Group| requirements[group.first as usize].key.as_str();
        let mut present = 0;
        for (key, value) in labels.pairs() {
            let Ok(position) = self.groups.binary_search_by(|group| key_of(group).cmp(key)) else { continue };
            let group = &self.groups[position];
            if !group.matches(requirements, Some(value)) {
                return false;
            }
            present += usize::from(group.is_required);
        }
        present == self.required
    }
}

impl Group {
    fn matches(&self, requirements: &[Requirement], actual: Option<&str>) -> bool {
        match (&self.combined, actual) {
            (None, actual) => requirements[self.first as usize].matches(actual),
            (Some(_), None) => !self.is_required,
            (Some(combined), Some(actual)) => combined.matches(requirements, actual),
        }
    }
}

impl Combined {
    /// `group` starts at the position `first` of `all`.
    fn new(all: &[Requirement], group: &[Requirement], first: u32) -> Combined {
        let mut combined = Combined::default();
        let (mut allowed, mut excluded, mut lists) = (Vec::new(), Vec::new(), 0);
        for (position, requirement) in (first..).zip(group) {
            let positions = (0..).zip(&requirement.values).map(|(value, _)| (position, value));
            let bound = || requirement.values.first().and_then(|value| value.parse::<i64>().ok());
            match requirement.operator {
                LabelOperator::In | LabelOperator::Equals | LabelOperator::DoubleEquals => {
                    allowed.extend(positions);
                    lists += 1;
                }
                LabelOperator::NotIn | LabelOperator::NotEquals => excluded.extend(positions),
                LabelOperator::Exists => {}
                LabelOperator::DoesNotExist => combined.is_forbidden = true,
                LabelOperator::GreaterThan => {
                    combined.above = combined.above.max(Some(bound().unwrap_or(i64::MAX)));
                }
                LabelOperator::LessThan => {
                    let bound = bound().unwrap_or(i64::MIN);
                    combined.below = Some(combined.below.map_or(bound, |below| below.min(bound)));
                }
            }
        }
        excluded.sort_unstable_by(|one, other| text(all, *one).cmp(text(all, *other)));
        excluded.dedup_by(|one, other| text(all, *one) == text(all, *other));
        if lists > 0 {
            allowed.sort_unstable_by(|one, other| {
                text(all, *one).cmp(text(all, *other)).then_with(|| one.0.cmp(&other.0))
            });
            allowed.dedup_by(|one, other| one.0 == other.0 && text(all, *one) == text(all, *other));
            let same = |one: &ValuePosition, other: &ValuePosition| text(all, *one) == text(all, *other);
            // A value is allowed if every list contains it.
            let common = allowed.chunk_by(same).filter(|lists_with| lists_with.len() == lists);
            let common = common.map(|lists_with| lists_with[0]);
            combined.allowed =
                Some(common.filter(|value| !contains(all, &excluded, text(all, *value))).collect());
        } else {
            combined.excluded = excluded.into();
        }
        combined
    }

    fn is_contradictory(&self, is_required: bool) -> bool {
        let is_between = match (self.above, self.below) {
            (Some(above), Some(below)) => above.checked_add(1).is_some_and(|least| least < below),
            _ => true,
        };
        is_required && self.is_forbidden
            || self.allowed.as_ref().is_some_and(|allowed| allowed.is_empty())
            || !is_between
    }

    fn matches(&self, all: &[Requirement], actual: &str) -> bool {
        let is_listed = match &self.allowed {
            Some(allowed) => contains(all, allowed, actual),
            None => !contains(all, &self.excluded, actual),
        };
        let is_within = || {
            let Ok(number) = actual.parse::<i64>() else { return false };
            self.above.is_none_or(|above| number > above) && self.below.is_none_or(|below| number < below)
        };
        !self.is_forbidden && is_listed && (self.above.is_none() && self.below.is_none() || is_within())
    }
}

fn text(all: &[Requirement], (requirement, value): ValuePosition) -> &str {
    &all[requirement as usize].values[value as usize]
}

fn contains(all: &[Requirement], sorted: &[ValuePosition], wanted: &str) -> bool {
    let compare = |position: &ValuePosition| -> Ordering { text(all, *position).cmp(wanted) };
    sorted.binary_search_by(compare).is_ok()
}

//! The comparisons of a long selector, combined by field.

use std::mem::size_of_val;

use super::{FieldOperator, FieldTerm};

/// Number of comparisons up to which they are made one by one.
const MAX_COMPARISONS: usize = 8;

#[derive(Clone, Debug)]
pub(super) struct FieldIndex {
    groups: Box<[Group]>,
    /// Whether a field must have two values, or one that it must not have.
    is_contradictory: bool,
}

/// The comparisons of one field, as positions of terms.
#[derive(Clone, Debug)]
struct Group {
    equal: Option<u32>,
    /// Terms with values that the field must not have, sorted by value. Empty if one value is required.
    excluded: Box<[u32]>,
}

impl FieldIndex {
    /// Returns `None` for short selectors.
    pub(super) fn new(terms: &[FieldTerm]) -> Option<Box<FieldIndex>> {
        let count = u32::try_from(terms.len()).ok().filter(|_| terms.len() > MAX_COMPARISONS)?;
        let term = |position: &u32| &terms[*position as usize];
        let order = |position: &u32| {
            let FieldTerm { field, operator, value } = term(position);
            (field.as_str(), *operator == FieldOperator::NotEq, value.as_str())
        };
        let mut positions: Vec<u32> = (0..count).collect();
        positions.sort_by(|one, other| order(one).cmp(&order(other)));
        positions.dedup_by(|one, other| order(one) == order(other));
        let (mut groups, mut is_contradictory) = (Vec::new(), false);
        for group in positions.chunk_by(|one, other| term(one).field == term(other).field) {
            let (equal, excluded) = group
                .split_at(group.partition_point(|position| term(position).operator == FieldOperator::Eq));
            is_contradictory |= match equal {
                [] => false,
                [equal] => excluded.iter().any(|other| term(other).value == term(equal).value),
                _ => true,
            };
            let excluded = if equal.is_empty() { excluded.into() } else { Box::default() };
            groups.push(Group { equal: equal.first().copied(), excluded });
        }
        Some(Box::new(FieldIndex { groups: groups.into(), is_contradictory }))
    }

    /// Returns the number of fields.
    pub(super) fn fields(&self) -> usize {
        self.groups.len()
    }

    /// Returns the approximate number of bytes in memory.
    pub(super) fn memory(&self) -> usize {
        let excluded = self.groups.iter().map(|group| size_of_val(&*group.excluded));
        size_of_val(&*self.groups) + excluded.sum::<usize>()
    }

    pub(super) fn matches<T: AsRef<str>>(
        &self,
        terms: &[FieldTerm],
        lookup: impl Fn(&str) -> Option<T>,
    ) -> bool {
        let term = |position: u32| &terms[position as usize];
        !self.is_contradictory
            && self.groups.iter().all(|group| {
                let Some(first) = group.equal.or(group.excluded.first().copied()) else { return true };
                let found = lookup(&term(first).field);
                let actual = found.as_ref().map_or("", AsRef::as_ref);
                match group.equal {
                    Some(equal) => term(equal).value == actual,
                    None => {
                        let compare = |position: &u32| term(*position).value.as_str().cmp(actual);
                        group.excluded.binary_search_by(compare).is_err()
                    }
                }
            })
    }
}

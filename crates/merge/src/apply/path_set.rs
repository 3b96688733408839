//! Sets of paths as trees with sorted nodes.

// upstream: sigs.k8s.io/structured-merge-diff/v6/fieldpath/set.go
// upstream: sigs.k8s.io/structured-merge-diff/v6/fieldpath/path.go

use std::cmp::Ordering;
use std::fmt;

use super::element::Element;

/// A set of paths.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Set<'a> {
    /// Sorted by element. Each node is a member or has children.
    pub(super) nodes: Vec<SetNode<'a>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SetNode<'a> {
    pub element: Element<'a>,
    /// Whether the path that ends here is in the set.
    pub member: bool,
    pub below: Set<'a>,
}

/// A path element that the left or both of two sets have.
enum Sides<'x, 'a, 'b> {
    Left(&'x SetNode<'a>),
    Both(&'x SetNode<'a>, &'x SetNode<'b>),
}

impl<'a> Set<'a> {
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Returns the number of paths.
    pub fn len(&self) -> usize {
        self.nodes.iter().map(|node| usize::from(node.member) + node.below.len()).sum()
    }

    /// Adds an element that sorts after all existing ones, unless it is neither a member nor has children.
    pub(super) fn push(&mut self, element: Element<'a>, member: bool, below: Set<'a>) {
        if member || !below.is_empty() {
            self.nodes.push(SetNode { element, member, below });
        }
    }

    pub(super) fn find(&self, element: &Element<'_>) -> Option<&SetNode<'a>> {
        let found = self.nodes.binary_search_by(|node| node.element.cmp(element));
        found.ok().and_then(|index| self.nodes.get(index))
    }

    pub(super) fn field(&self, name: &str) -> Option<&SetNode<'a>> {
        self.find(&Element::Field(name))
    }

    /// Whether a path of fields is in the set.
    pub fn has(&self, path: &[&str]) -> bool {
        let Some((last, way)) = path.split_last() else { return false };
        let set = way.iter().try_fold(self, |set, name| set.field(name).map(|node| &node.below));
        set.and_then(|set| set.field(last)).is_some_and(|node| node.member)
    }

    pub fn of_path(path: &[&'a str]) -> Set<'a> {
        let mut set = Set::default();
        for (index, name) in path.iter().rev().enumerate() {
            let below = std::mem::take(&mut set);
            set.push(Element::Field(name), index == 0, below);
        }
        set
    }

    pub fn union(self, other: Set<'a>) -> Set<'a> {
        if self.is_empty() {
            return other;
        }
        if other.is_empty() {
            return self;
        }
        let mut nodes = Vec::with_capacity(self.nodes.len() + other.nodes.len());
        let mut left = self.nodes.into_iter().peekable();
        let mut right = other.nodes.into_iter().peekable();
        loop {
            let order = match (left.peek(), right.peek()) {
                (Some(left), Some(right)) => left.element.cmp(&right.element),
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (None, None) => break,
            };
            match order {
                Ordering::Less => nodes.extend(left.next()),
                Ordering::Greater => nodes.extend(right.next()),
                Ordering::Equal => {
                    if let (Some(mut node), Some(other)) = (left.next(), right.next()) {
                        node.member |= other.member;
                        node.below = std::mem::take(&mut node.below).union(other.below);
                        nodes.push(node);
                    }
                }
            }
        }
        Set { nodes }
    }

    /// Returns the union of all sets. Merging them in pairs copies each path only a few times, however many sets
    /// there are.
    pub(super) fn union_of(mut sets: Vec<Set<'a>>) -> Set<'a> {
        while sets.len() > 1 {
            let mut pairs = sets.into_iter();
            sets = std::iter::from_fn(|| {
                let left = pairs.next()?;
                Some(left.union(pairs.next().unwrap_or_default()))
            })
            .collect();
        }
        sets.pop().unwrap_or_default()
    }

    /// Iterates over the elements of this set in order. Those of the other set between them are skipped quickly,
    /// because a small set may be compared with a large one many times.
    fn sides<'x, 'b>(&'x self, other: &'x Set<'b>) -> impl Iterator<Item = Sides<'x, 'a, 'b>> {
        let mut rest = other.nodes.as_slice();
        self.nodes.iter().map(move |left| {
            rest = skip_before(rest, &left.element);
            match rest.split_first() {
                Some((right, after)) if right.element == left.element => {
                    rest = after;
                    Sides::Both(left, right)
                }
                _ => Sides::Left(left),
            }
        })
    }

    pub fn intersection(&self, other: &Set<'_>) -> Set<'a> {
        let mut out = Set::default();
        for sides in self.sides(other) {
            if let Sides::Both(left, right) = sides {
                let below = left.below.intersection(&right.below);
                out.push(left.element.clone(), left.member && right.member, below);
            }
        }
        out
    }

    /// Returns the paths of this set that are not in the other. Paths below those of the other stay.
    pub fn difference(&self, other: &Set<'_>) -> Set<'a> {
        let mut out = Set::default();
        for sides in self.sides(other) {
            match sides {
                Sides::Left(node) => out.nodes.push(node.clone()),
                Sides::Both(left, right) => {
                    let below = left.below.difference(&right.below);
                    out.push(left.element.clone(), left.member && !right.member, below);
                }
            }
        }
        out
    }

    pub fn is_disjoint(&self, other: &Set<'_>) -> bool {
        self.sides(other).all(|sides| match sides {
            Sides::Both(left, right) => {
                !(left.member && right.member) && left.below.is_disjoint(&right.below)
            }
            Sides::Left(_) => true,
        })
    }

    pub fn is_subset(&self, other: &Set<'_>) -> bool {
        self.sides(other).all(|sides| match sides {
            Sides::Left(_) => false,
            Sides::Both(left, right) => (right.member || !left.member) && left.below.is_subset(&right.below),
        })
    }

    /// Removes a path of fields, and the paths below it if `deep`.
    pub(super) fn remove(&mut self, path: &[&str], deep: bool) {
        let Some((first, rest)) = path.split_first() else { return };
        let step = Element::Field(first);
        let Ok(index) = self.nodes.binary_search_by(|node| node.element.cmp(&step)) else { return };
        let node = &mut self.nodes[index];
        match rest {
            [] if deep => {
                self.nodes.remove(index);
                return;
            }
            [] => node.member = false,
            rest => node.below.remove(rest, deep),
        }
        if !node.member && node.below.is_empty() {
            self.nodes.remove(index);
        }
    }

    /// Keeps only paths at or below one of the patterns. A star matches any element.
    pub(super) fn retain(&mut self, patterns: &[&[&str]]) {
        self.nodes.retain_mut(|node| {
            let matches =
                |step: &str| step == "*" || matches!(node.element, Element::Field(name) if name == step);
            let rests: Vec<&[&str]> = patterns
                .iter()
                .filter_map(|pattern| pattern.split_first())
                .filter(|(first, _)| matches(first))
                .map(|(_, rest)| rest)
                .collect();
            if rests.is_empty() {
                return false;
            }
            if rests.iter().all(|rest| !rest.is_empty()) {
                node.below.retain(&rests);
            }
            node.member || !node.below.is_empty()
        });
    }

    /// Calls `visit` with each path in upstream's order: on each level first the paths that end there.
    pub fn visit(&self, visit: &mut dyn FnMut(&Path<'_, 'a>)) {
        self.visit_below(&mut Vec::new(), visit);
    }

    fn visit_below<'x>(&'x self, way: &mut Vec<&'x Element<'a>>, visit: &mut dyn FnMut(&Path<'_, 'a>)) {
        for node in self.nodes.iter().filter(|node| node.member) {
            way.push(&node.element);
            visit(&Path(way));
            way.pop();
        }
        for node in &self.nodes {
            way.push(&node.element);
            node.below.visit_below(way, visit);
            way.pop();
        }
    }

    /// Whether a path is in the set.
    pub fn contains(&self, path: &Path<'_, '_>) -> bool {
        let Some((last, way)) = path.0.split_last() else { return false };
        let set = way.iter().try_fold(self, |set, step| set.find(step).map(|node| &node.below));
        set.and_then(|set| set.find(last)).is_some_and(|node| node.member)
    }
}

/// Returns the nodes without those before an element, in steps that double until they reach it.
fn skip_before<'x, 'b>(nodes: &'x [SetNode<'b>], element: &Element<'_>) -> &'x [SetNode<'b>] {
    let is_before = |node: &SetNode<'b>| node.element < *element;
    let mut bound = 1;
    while nodes.get(bound - 1).is_some_and(is_before) {
        bound *= 2;
    }
    let (low, high) = (bound / 2, bound.min(nodes.len()));
    let skipped = low + nodes[low..high].partition_point(is_before);
    &nodes[skipped..]
}

/// A path, displayed as in conflicts: `.spec.ports[port=80,protocol="TCP"].nodePort`.
pub struct Path<'x, 'a>(pub &'x [&'x Element<'a>]);

impl fmt::Display for Path<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|element| element.fmt(f))
    }
}

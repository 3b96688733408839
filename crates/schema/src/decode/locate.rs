//! Finds where problems are in the text, all of them in one pass over it: an object may have very many members, and
//! looking for each on its own would take forever.

use std::collections::HashMap;

use crate::normalise::{Problem, Segment, Trouble};
use crate::text::Node;

/// Where something is in the text: its place among its siblings, after that of each of its holders.
pub(super) type Place = Vec<usize>;

#[derive(Clone, Default)]
pub(super) struct Spot<'n> {
    pub place: Place,
    /// A number as it is written.
    pub literal: Option<&'n str>,
}

/// The spot of each problem. Of a key that stands twice the last counts, since that is the value which was looked at;
/// except for an unknown key, on which Go remarks where it stands first.
pub(super) fn locate<'n>(root: &'n Node, problems: &[Problem]) -> Vec<Spot<'n>> {
    let mut search = Search { problems, place: Vec::new(), spots: vec![Spot::default(); problems.len()] };
    let all: Vec<usize> = (0..problems.len()).collect();
    search.node(root, &all, 0);
    search.spots
}

struct Search<'p, 'n> {
    problems: &'p [Problem],
    place: Place,
    spots: Vec<Spot<'n>>,
}

impl Problem {
    /// Whether it is about a key of the node that is so many steps down.
    fn is_unknown_key(&self, depth: usize) -> bool {
        matches!(self.trouble, Trouble::Unknown) && self.path.len() == depth + 1
    }
}

impl<'p, 'n> Search<'p, 'n> {
    /// Looks for some of the problems below a node that is so many steps down.
    fn node(&mut self, node: &'n Node, wanted: &[usize], depth: usize) {
        let problems = self.problems;
        let mut members: HashMap<&'p str, Vec<usize>> = HashMap::new();
        let mut elements: HashMap<usize, Vec<usize>> = HashMap::new();
        for &problem in wanted {
            // Paths are innermost first.
            let path = &problems[problem].path;
            match path.len().checked_sub(depth + 1).map(|step| &path[step]) {
                None => self.arrive(problem, node),
                Some(Segment::Index(index)) => elements.entry(*index).or_default().push(problem),
                Some(segment) => members.entry(segment.name().unwrap_or_default()).or_default().push(problem),
            }
        }
        match node {
            Node::Object(pairs) if !members.is_empty() => {
                let mut stands: HashMap<&str, (usize, usize)> = HashMap::with_capacity(members.len());
                for (index, (key, _)) in pairs.iter().enumerate() {
                    if members.contains_key(key.as_str()) {
                        stands.entry(key).or_insert((index, index)).1 = index;
                    }
                }
                for (key, wanted) in members {
                    let Some(&(first, last)) = stands.get(key) else { continue };
                    let (unknown, other): (Vec<usize>, Vec<usize>) =
                        wanted.into_iter().partition(|problem| problems[*problem].is_unknown_key(depth));
                    self.step(first, &pairs[first].1, &unknown, depth);
                    self.step(last, &pairs[last].1, &other, depth);
                }
            }
            Node::Array(nodes) => {
                for (index, wanted) in &elements {
                    if let Some(element) = nodes.get(*index) {
                        self.step(*index, element, wanted, depth);
                    }
                }
            }
            _ => {}
        }
    }

    fn step(&mut self, index: usize, node: &'n Node, wanted: &[usize], depth: usize) {
        if wanted.is_empty() {
            return;
        }
        self.place.push(index);
        self.node(node, wanted, depth + 1);
        self.place.pop();
    }

    fn arrive(&mut self, problem: usize, node: &'n Node) {
        let spot = &mut self.spots[problem];
        spot.place.clone_from(&self.place);
        spot.literal = match node {
            Node::Number(literal) => Some(literal),
            _ => None,
        };
    }
}

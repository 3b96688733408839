//! Finds the positions of problems in the text in a single pass, because an object may have very many members
//! and problems.

// upstream: sigs.k8s.io/json/internal/golang/encoding/json/decode.go

use std::collections::HashMap;

use atoll_meta::json::DocumentNode;

use crate::normalise::{Problem, ProblemKind, Segment};

/// Position in the text: the index of each ancestor among its siblings, and of the value itself.
pub(super) type Position = Vec<usize>;

#[derive(Clone, Default)]
pub(super) struct Located<'n> {
    pub position: Position,
    /// Notation of a number.
    pub literal: Option<&'n str>,
}

/// Returns the position of each problem. If a key occurs twice the last occurrence counts, because that value
/// was decoded; except for an unknown key, which Go reports at its first occurrence.
pub(super) fn locate<'n>(root: &'n DocumentNode, problems: &[Problem]) -> Vec<Located<'n>> {
    let mut search =
        Search { problems, position: Vec::new(), located: vec![Located::default(); problems.len()] };
    let all: Vec<usize> = (0..problems.len()).collect();
    search.node(root, &all, 0);
    search.located
}

struct Search<'p, 'n> {
    problems: &'p [Problem],
    position: Position,
    located: Vec<Located<'n>>,
}

impl Problem {
    /// Whether the problem is about an unknown key of the node at this depth.
    fn is_unknown_key(&self, depth: usize) -> bool {
        matches!(self.kind, ProblemKind::Unknown) && self.path.len() == depth + 1
    }
}

impl<'p, 'n> Search<'p, 'n> {
    /// Searches for some of the problems below a node at this depth.
    fn node(&mut self, node: &'n DocumentNode, problem_indexes: &[usize], depth: usize) {
        let problems = self.problems;
        let mut members: HashMap<&'p str, Vec<usize>> = HashMap::new();
        let mut elements: HashMap<usize, Vec<usize>> = HashMap::new();
        for &problem in problem_indexes {
            // Paths are innermost first.
            let path = &problems[problem].path;
            match path.len().checked_sub(depth + 1).map(|step| &path[step]) {
                None => self.arrive(problem, node),
                Some(Segment::Index(index)) => elements.entry(*index).or_default().push(problem),
                Some(segment) => members.entry(segment.name().unwrap_or_default()).or_default().push(problem),
            }
        }
        match node {
            DocumentNode::Object(pairs) if !members.is_empty() => {
                let mut stands: HashMap<&str, (usize, usize)> = HashMap::with_capacity(members.len());
                for (index, (key, _)) in pairs.iter().enumerate() {
                    if members.contains_key(key.as_str()) {
                        stands.entry(key).or_insert((index, index)).1 = index;
                    }
                }
                for (key, problem_indexes) in members {
                    let Some(&(first, last)) = stands.get(key) else { continue };
                    let (unknown, other): (Vec<usize>, Vec<usize>) = problem_indexes
                        .into_iter()
                        .partition(|problem| problems[*problem].is_unknown_key(depth));
                    self.step(first, &pairs[first].1, &unknown, depth);
                    self.step(last, &pairs[last].1, &other, depth);
                }
            }
            DocumentNode::Array(nodes) => {
                for (index, problem_indexes) in &elements {
                    if let Some(element) = nodes.get(*index) {
                        self.step(*index, element, problem_indexes, depth);
                    }
                }
            }
            _ => {}
        }
    }

    fn step(&mut self, index: usize, node: &'n DocumentNode, problem_indexes: &[usize], depth: usize) {
        if problem_indexes.is_empty() {
            return;
        }
        self.position.push(index);
        self.node(node, problem_indexes, depth + 1);
        self.position.pop();
    }

    fn arrive(&mut self, problem: usize, node: &'n DocumentNode) {
        let located = &mut self.located[problem];
        located.position.clone_from(&self.position);
        located.literal = match node {
            DocumentNode::Number(literal) => Some(literal),
            _ => None,
        };
    }
}

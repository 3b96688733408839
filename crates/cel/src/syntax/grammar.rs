//! The grammar as a graph, for computing the expected tokens at an error.
//!
//! The messages of upstream's generated parser depend on its states. So this has the same states: one before
//! and after each element, and one for each decision.

// upstream: github.com/google/cel-go/parser/gen/CEL.g4

use std::sync::LazyLock;

use super::lexer::Kind;

/// A set of token kinds, one bit each.
pub type Set = u64;
/// The end of a rule can be reached without a token.
pub const EPSILON: Set = 1 << 63;

/// A state of the grammar.
pub type State = usize;

/// The rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    Start,
    Expression,
    Or,
    And,
    Relation,
    Sum,
    Unary,
    Member,
    Primary,
    Arguments,
    ListItems,
    Fields,
    Field,
    Entries,
    FieldName,
    Item,
    Literal,
}

pub const RULES: usize = 17;

/// An element of a rule with its states.
#[derive(Debug)]
pub enum Element {
    /// One of these tokens, and the state after it.
    Token(State, Set, State),
    /// Another rule, the minimum precedence of its operators, and the state after it.
    Rule(State, Rule, u8, State),
    Optional(State, Vec<Element>),
    /// A loop with its entry and loop-back states.
    Star(State, Vec<Element>, State),
    Plus(State, Vec<Element>, State),
    Choice(State, Vec<Vec<Element>>),
}

enum Plan {
    Token(Set),
    Rule(Rule, u8),
    Optional(Vec<Plan>),
    Star(Vec<Plan>),
    Plus(Vec<Plan>),
    Choice(Vec<Vec<Plan>>),
}

enum Edge {
    Free(State),
    Token(Set),
    Rule(Rule),
    End,
}

/// The whole grammar.
pub struct Grammar {
    edges: Vec<Vec<Edge>>,
    starts: [State; RULES],
    pub rules: Vec<Vec<Element>>,
}

/// Returns the set of these kinds.
pub fn set(kinds: &[Kind]) -> Set {
    kinds.iter().fold(0, |set, kind| set | 1 << *kind as u8)
}

pub static GRAMMAR: LazyLock<Grammar> = LazyLock::new(|| {
    let mut grammar = Grammar { edges: Vec::new(), starts: [0; RULES], rules: Vec::new() };
    for start in 0..RULES {
        grammar.starts[start] = grammar.state();
    }
    for (index, plans) in plans().into_iter().enumerate() {
        let end = grammar.state();
        grammar.edges[end].push(Edge::End);
        let start = grammar.starts[index];
        let rule = grammar.sequence(plans, start, end);
        grammar.rules.push(rule);
    }
    grammar
});

/// Returns the rules in order.
fn plans() -> Vec<Vec<Plan>> {
    let token = |kind: Kind| Plan::Token(set(&[kind]));
    let rule = |rule: Rule| Plan::Rule(rule, 0);
    let maybe = |kind: Kind| Plan::Optional(vec![Plan::Token(set(&[kind]))]);
    let relations = set(&[
        Kind::Less,
        Kind::LessEquals,
        Kind::GreaterEquals,
        Kind::Greater,
        Kind::Equals,
        Kind::NotEquals,
        Kind::In,
    ]);
    let pair = |key: Rule| vec![rule(key), token(Kind::Colon), rule(Rule::Expression)];
    let more = |mut plans: Vec<Plan>| {
        plans.insert(0, token(Kind::Comma));
        Plan::Star(plans)
    };
    vec![
        vec![rule(Rule::Expression), token(Kind::End)],
        vec![
            rule(Rule::Or),
            Plan::Optional(vec![
                token(Kind::Question),
                rule(Rule::Or),
                token(Kind::Colon),
                rule(Rule::Expression),
            ]),
        ],
        vec![rule(Rule::And), Plan::Star(vec![token(Kind::Or), rule(Rule::And)])],
        vec![rule(Rule::Relation), Plan::Star(vec![token(Kind::And), rule(Rule::Relation)])],
        vec![rule(Rule::Sum), Plan::Star(vec![Plan::Token(relations), Plan::Rule(Rule::Relation, 2)])],
        vec![
            rule(Rule::Unary),
            Plan::Star(vec![Plan::Choice(vec![
                vec![Plan::Token(set(&[Kind::Star, Kind::Slash, Kind::Percent])), Plan::Rule(Rule::Sum, 3)],
                vec![Plan::Token(set(&[Kind::Plus, Kind::Minus])), Plan::Rule(Rule::Sum, 2)],
            ])]),
        ],
        vec![Plan::Choice(vec![
            vec![rule(Rule::Member)],
            vec![Plan::Plus(vec![token(Kind::Exclamation)]), rule(Rule::Member)],
            vec![Plan::Plus(vec![token(Kind::Minus)]), rule(Rule::Member)],
        ])],
        vec![
            rule(Rule::Primary),
            Plan::Star(vec![Plan::Choice(vec![
                vec![token(Kind::Dot), maybe(Kind::Question), rule(Rule::FieldName)],
                vec![
                    token(Kind::Dot),
                    token(Kind::Identifier),
                    token(Kind::LeftParenthesis),
                    Plan::Optional(vec![rule(Rule::Arguments)]),
                    token(Kind::RightParenthesis),
                ],
                vec![
                    token(Kind::LeftBracket),
                    maybe(Kind::Question),
                    rule(Rule::Expression),
                    token(Kind::RightBracket),
                ],
            ])]),
        ],
        vec![Plan::Choice(vec![
            vec![maybe(Kind::Dot), token(Kind::Identifier)],
            vec![
                maybe(Kind::Dot),
                token(Kind::Identifier),
                token(Kind::LeftParenthesis),
                Plan::Optional(vec![rule(Rule::Arguments)]),
                token(Kind::RightParenthesis),
            ],
            vec![token(Kind::LeftParenthesis), rule(Rule::Expression), token(Kind::RightParenthesis)],
            vec![
                token(Kind::LeftBracket),
                Plan::Optional(vec![rule(Rule::ListItems)]),
                maybe(Kind::Comma),
                token(Kind::RightBracket),
            ],
            vec![
                token(Kind::LeftBrace),
                Plan::Optional(vec![rule(Rule::Entries)]),
                maybe(Kind::Comma),
                token(Kind::RightBrace),
            ],
            vec![
                maybe(Kind::Dot),
                token(Kind::Identifier),
                Plan::Star(vec![token(Kind::Dot), token(Kind::Identifier)]),
                token(Kind::LeftBrace),
                Plan::Optional(vec![rule(Rule::Fields)]),
                maybe(Kind::Comma),
                token(Kind::RightBrace),
            ],
            vec![rule(Rule::Literal)],
        ])],
        vec![rule(Rule::Expression), more(vec![rule(Rule::Expression)])],
        vec![rule(Rule::Item), more(vec![rule(Rule::Item)])],
        pair(Rule::Field).into_iter().chain([more(pair(Rule::Field))]).collect(),
        vec![maybe(Kind::Question), rule(Rule::FieldName)],
        pair(Rule::Item).into_iter().chain([more(pair(Rule::Item))]).collect(),
        vec![Plan::Choice(vec![vec![token(Kind::Identifier)], vec![token(Kind::EscapedIdentifier)]])],
        vec![maybe(Kind::Question), rule(Rule::Expression)],
        vec![Plan::Choice(vec![
            vec![maybe(Kind::Minus), token(Kind::Int)],
            vec![token(Kind::Uint)],
            vec![maybe(Kind::Minus), token(Kind::Float)],
            vec![token(Kind::String)],
            vec![token(Kind::Bytes)],
            vec![token(Kind::True)],
            vec![token(Kind::False)],
            vec![token(Kind::Null)],
        ])],
    ]
}

impl Grammar {
    fn state(&mut self) -> State {
        self.edges.push(Vec::new());
        self.edges.len() - 1
    }

    fn sequence(&mut self, plans: Vec<Plan>, from: State, to: State) -> Vec<Element> {
        let (mut elements, mut at) = (Vec::new(), from);
        for plan in plans {
            let next = self.state();
            elements.push(self.element(plan, at, next));
            at = next;
        }
        self.edges[at].push(Edge::Free(to));
        elements
    }

    fn element(&mut self, plan: Plan, from: State, to: State) -> Element {
        match plan {
            Plan::Token(set) => {
                self.edges[from].push(Edge::Token(set));
                Element::Token(from, set, to)
            }
            Plan::Rule(rule, precedence) => {
                self.edges[from].push(Edge::Rule(rule));
                Element::Rule(from, rule, precedence, to)
            }
            Plan::Optional(plans) => {
                let inside = self.state();
                self.edges[from].extend([Edge::Free(inside), Edge::Free(to)]);
                Element::Optional(from, self.sequence(plans, inside, to))
            }
            Plan::Star(plans) => {
                let (inside, back) = (self.state(), self.state());
                self.edges[from].extend([Edge::Free(inside), Edge::Free(to)]);
                self.edges[back].push(Edge::Free(from));
                Element::Star(from, self.sequence(plans, inside, back), back)
            }
            Plan::Plus(plans) => {
                let back = self.state();
                self.edges[back].extend([Edge::Free(from), Edge::Free(to)]);
                let inside = self.state();
                self.edges[from].push(Edge::Free(inside));
                Element::Plus(from, self.sequence(plans, inside, back), back)
            }
            Plan::Choice(choices) => {
                let mut made = Vec::new();
                for plans in choices {
                    let inside = self.state();
                    self.edges[from].push(Edge::Free(inside));
                    made.push(self.sequence(plans, inside, to));
                }
                Element::Choice(from, made)
            }
        }
    }

    /// Returns the tokens that can come next within the rule, with [`EPSILON`] if its end can.
    pub fn next(&self, state: State) -> Set {
        self.walk(state, &mut vec![false; self.edges.len()])
    }

    fn walk(&self, state: State, seen: &mut [bool]) -> Set {
        if std::mem::replace(&mut seen[state], true) {
            return 0;
        }
        let mut found = 0;
        for edge in &self.edges[state] {
            found |= match edge {
                Edge::Free(to) => self.walk(*to, seen),
                Edge::Token(set) => *set,
                // No rule here can be empty.
                Edge::Rule(rule) => self.walk(self.starts[*rule as usize], seen) & !EPSILON,
                Edge::End => EPSILON,
            };
        }
        found
    }

    /// Returns the tokens that can come next, given the states after the entered rules.
    pub fn expected(&self, state: State, outer_states: &[State]) -> Set {
        let mut found = self.next(state);
        for follow in outer_states.iter().rev() {
            if found & EPSILON == 0 {
                return found;
            }
            found = (found & !EPSILON) | self.next(*follow);
        }
        match found & EPSILON {
            0 => found,
            _ => (found & !EPSILON) | set(&[Kind::End]),
        }
    }
}

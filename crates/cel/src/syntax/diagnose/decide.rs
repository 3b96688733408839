//! Decisions of the grammar by lookahead.

// upstream: github.com/google/cel-go/parser/gen/CEL.g4

use super::super::grammar::{EPSILON, Element, GRAMMAR, Rule, Set, State, set};
use super::super::lexer::Kind;
use super::RecoveringParser;

impl RecoveringParser<'_, '_> {
    /// Whether the token after a minus is possible.
    pub(super) fn may_follow_minus(&self) -> bool {
        let Element::Choice(_, choices) = &Self::grammar().rules[Rule::Unary as usize][0] else {
            return true;
        };
        first(&choices[0]) & (1 << self.ahead(1) as u8) != 0
    }

    /// Whether a loop continues.
    pub(super) fn continues(&self, inside: &'static [Element], rule: Rule, precedence: u8) -> bool {
        if !self.is_next(first(inside)) {
            return false;
        }
        match (rule, self.ahead(0)) {
            (Rule::Relation, _) => precedence <= 1,
            (Rule::Sum, Kind::Star | Kind::Slash | Kind::Percent) => precedence <= 2,
            (Rule::Sum, _) => precedence <= 1,
            // A comma before the closing bracket does not belong to the loop.
            (Rule::ListItems | Rule::Fields | Rule::Entries, _) => {
                let item = match rule {
                    Rule::Fields => set(&[Kind::Question, Kind::Identifier, Kind::EscapedIdentifier]),
                    _ => Self::grammar().next(item_start()),
                };
                item & (1 << self.ahead(1) as u8) != 0
            }
            _ => true,
        }
    }

    /// Returns the alternative that matches, or the position of the token at which none does.
    pub(super) fn choose(&self, choices: &'static [Vec<Element>], rule: Rule) -> Result<usize, usize> {
        let number = |kind: Kind| matches!(kind, Kind::Int | Kind::Float);
        match (rule, self.ahead(0)) {
            (Rule::Unary, Kind::Exclamation) => Ok(1),
            (Rule::Unary, Kind::Minus) => match self.ahead(1) {
                kind if number(kind) => Ok(0),
                _ if self.may_follow_minus() => Ok(2),
                _ => Err(self.at + 1),
            },
            (Rule::Unary, _) => Ok(0),
            (Rule::Literal, Kind::Minus) => match self.ahead(1) {
                Kind::Int => Ok(0),
                Kind::Float => Ok(2),
                _ => Err(self.at + 1),
            },
            (Rule::Member, Kind::LeftBracket) => Ok(2),
            (Rule::Member, Kind::Dot) => match (self.ahead(1), self.ahead(2)) {
                (Kind::Identifier, Kind::LeftParenthesis) => Ok(1),
                (Kind::Identifier | Kind::EscapedIdentifier | Kind::Question, _) => Ok(0),
                _ => Err(self.at + 1),
            },
            (Rule::Primary, Kind::Dot | Kind::Identifier) => {
                let dot = usize::from(self.ahead(0) == Kind::Dot);
                if self.ahead(dot) != Kind::Identifier {
                    return Err(self.at + dot);
                }
                let mut ahead = dot + 1;
                if self.ahead(ahead) == Kind::LeftParenthesis {
                    return Ok(1);
                }
                while self.ahead(ahead) == Kind::Dot && self.ahead(ahead + 1) == Kind::Identifier {
                    ahead += 2;
                }
                Ok(if self.ahead(ahead) == Kind::LeftBrace { 5 } else { 0 })
            }
            _ => {
                let fits = |choice: &Vec<Element>| self.is_next(first(choice));
                choices.iter().position(fits).ok_or(self.at)
            }
        }
    }
}

/// Returns the tokens with which elements can start.
pub(super) fn first(elements: &[Element]) -> Set {
    let state = match &elements[0] {
        Element::Token(_, set, _) => return *set,
        Element::Rule(state, ..)
        | Element::Optional(state, _)
        | Element::Star(state, ..)
        | Element::Plus(state, ..)
        | Element::Choice(state, _) => *state,
    };
    GRAMMAR.next(state) & !EPSILON
}

/// Returns the state before an item of a list.
fn item_start() -> State {
    match &GRAMMAR.rules[Rule::ListItems as usize][0] {
        Element::Rule(state, ..) => *state,
        _ => 0,
    }
}

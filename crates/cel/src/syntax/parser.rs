//! The grammar, by recursive descent. It only knows right from wrong; what to say of wrong syntax is for
//! [`super::diagnose`].

mod primary;

use std::sync::Arc;

use super::diagnose::diagnose;
use super::lexer::{Kind, Token, tokens};
use super::macros;
use super::tree::{Id, Node, Tree};
use crate::source::{Issues, Place};
use crate::value::{Text, Value};

/// How deep expressions may nest, as upstream counts it.
const DEPTH: usize = 250;
/// How many characters they may have.
const LENGTH: usize = 100_000;

/// Names that variables cannot have.
pub(super) const RESERVED: [&str; 17] = [
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
];

/// Reads an expression, or says what is wrong with it.
pub fn parse(text: &str) -> Result<Tree, Issues> {
    let mut issues = Issues::new(text);
    if text.len() > LENGTH {
        let length = text.chars().count();
        if length > LENGTH {
            let message = format!("expression code point size exceeds limit: size: {length}, limit {LENGTH}");
            issues.add(Place::NOWHERE, message);
            return Err(issues);
        }
    }
    let (tokens, unreadable) = tokens(text);
    let tree = Tree { nodes: Vec::new(), offsets: Vec::new(), root: 0 };
    let mut parser =
        Parser { text, tokens: &tokens, at: 0, tree, issues, visited: Vec::new(), entered: [0; 4] };
    let root = parser.expression().and_then(|root| parser.expect(Kind::End).map(|_| root));
    let Parser { mut tree, mut issues, visited, .. } = parser;
    match root {
        Ok(root) if unreadable.is_empty() => {
            tree.root = root;
            if visited[root] > DEPTH {
                issues.add(Place::NOWHERE, "max recursion depth exceeded");
            }
        }
        Err(Stop::TooDeep) => {
            issues.add(Place::NOWHERE, format!("expression recursion limit exceeded: {DEPTH}"))
        }
        _ => {
            // What was found on the way comes after what the syntax is blamed for, and again.
            issues = Issues::new(text);
            diagnose(text, &tokens, &unreadable, &mut issues);
        }
    }
    match issues.is_empty() {
        true => Ok(tree),
        false => Err(issues),
    }
}

/// Why reading ended.
pub(super) enum Stop {
    /// This token cannot be here.
    Syntax,
    TooDeep,
}

/// The rules whose nesting is bounded.
#[derive(Clone, Copy)]
enum Rule {
    Expression,
    Relation,
    Sum,
    Member,
}

pub(super) struct Parser<'a> {
    text: &'a str,
    tokens: &'a [Token],
    at: usize,
    pub(super) tree: Tree,
    pub(super) issues: Issues,
    /// How deep each node is, counting what upstream's visitor counts.
    visited: Vec<usize>,
    entered: [usize; 4],
}

type Read = Result<Id, Stop>;

impl<'a> Parser<'a> {
    fn kind(&self) -> Kind {
        self.tokens[self.at].kind
    }

    fn ahead(&self, count: usize) -> Kind {
        self.tokens.get(self.at + count).map_or(Kind::End, |token| token.kind)
    }

    fn next(&mut self) -> Token {
        let token = self.tokens[self.at];
        if token.kind != Kind::End {
            self.at += 1;
        }
        token
    }

    fn take(&mut self, kind: Kind) -> Option<Token> {
        (self.kind() == kind).then(|| self.next())
    }

    fn expect(&mut self, kind: Kind) -> Result<Token, Stop> {
        match self.kind() == kind {
            true => Ok(self.next()),
            false => Err(Stop::Syntax),
        }
    }

    fn text_of(&self, token: Token) -> &'a str {
        &self.text[token.start..token.end]
    }

    fn enter(&mut self, rule: Rule) -> Result<(), Stop> {
        self.entered[rule as usize] += 1;
        if self.entered[rule as usize] > DEPTH { Err(Stop::TooDeep) } else { Ok(()) }
    }

    fn leave(&mut self, rule: Rule, times: usize) {
        self.entered[rule as usize] -= times;
    }

    /// A node at a place in the text.
    pub(super) fn node(&mut self, offset: usize, node: Node) -> Id {
        let children = match &node {
            Node::Select { operand, .. } => self.visited[*operand],
            Node::Call { target, arguments, .. } => {
                target.iter().chain(arguments).map(|child| self.visited[*child]).max().unwrap_or(0)
            }
            Node::List { items } => items.iter().map(|(item, _)| self.visited[*item]).max().unwrap_or(0),
            Node::Map { entries } => entries
                .iter()
                .map(|(key, value, _)| self.visited[*key].max(self.visited[*value]))
                .max()
                .unwrap_or(0),
            Node::Message { fields, .. } => {
                fields.iter().map(|(_, value, ..)| self.visited[*value]).max().unwrap_or(0)
            }
            Node::Loop(it) => [it.range, it.step, it.result, it.start]
                .iter()
                .map(|part| self.visited[*part])
                .max()
                .unwrap_or(0),
            _ => 0,
        };
        self.tree.nodes.push(node);
        self.tree.offsets.push(offset);
        self.visited.push(children);
        self.tree.nodes.len() - 1
    }

    /// Counts a node that upstream's visitor counts.
    fn deeper(&mut self, id: Id) -> Id {
        self.visited[id] += 1;
        id
    }

    /// Blames a place, and gives a node to go on with.
    pub(super) fn blame(&mut self, offset: usize, message: impl Into<String>) -> Id {
        self.issues.add(Place::of(self.text, offset), message);
        self.node(offset, Node::Wrong)
    }

    fn operator(&mut self, token: Token, function: &'static str, arguments: Vec<Id>) -> Id {
        self.node(token.start, Node::Call { target: None, function: function.into(), arguments })
    }

    fn expression(&mut self) -> Read {
        self.enter(Rule::Expression)?;
        let condition = self.logic(Kind::Or)?;
        let result = match self.take(Kind::Question) {
            None => condition,
            Some(token) => {
                let yes = self.logic(Kind::Or)?;
                self.expect(Kind::Colon)?;
                let no = self.expression()?;
                let id = self.operator(token, "_?_:_", vec![condition, yes, no]);
                self.deeper(id)
            }
        };
        self.leave(Rule::Expression, 1);
        Ok(result)
    }

    /// `||` or `&&`: the tree over several terms is balanced, so that long chains are not deep.
    fn logic(&mut self, kind: Kind) -> Read {
        let operand = |parser: &mut Self| match kind {
            Kind::Or => parser.logic(Kind::And),
            _ => parser.relation(),
        };
        let mut terms = vec![operand(self)?];
        let mut operators = Vec::new();
        while let Some(token) = self.take(kind) {
            operators.push(token);
            terms.push(operand(self)?);
        }
        let function = if kind == Kind::Or { "_||_" } else { "_&&_" };
        Ok(self.balanced(function, &terms, &operators))
    }

    fn balanced(&mut self, function: &'static str, terms: &[Id], operators: &[Token]) -> Id {
        if operators.is_empty() {
            return terms[0];
        }
        let middle = operators.len() / 2;
        let left = self.balanced(function, &terms[..=middle], &operators[..middle]);
        let right = self.balanced(function, &terms[middle + 1..], &operators[middle + 1..]);
        self.operator(operators[middle], function, vec![left, right])
    }

    fn relation(&mut self) -> Read {
        self.enter(Rule::Relation)?;
        let mut left = self.sum(0)?;
        let mut times = 1;
        loop {
            let function = match self.kind() {
                Kind::Less => "_<_",
                Kind::LessEquals => "_<=_",
                Kind::GreaterEquals => "_>=_",
                Kind::Greater => "_>_",
                Kind::Equals => "_==_",
                Kind::NotEquals => "_!=_",
                Kind::In => "@in",
                _ => break,
            };
            self.enter(Rule::Relation)?;
            times += 1;
            let token = self.next();
            self.enter(Rule::Relation)?;
            let right = self.sum(0)?;
            self.leave(Rule::Relation, 1);
            left = self.operator(token, function, vec![left, right]);
            self.deeper(left);
        }
        self.leave(Rule::Relation, times);
        Ok(left)
    }

    /// Sums and products, of operators that bind at least so tightly.
    fn sum(&mut self, tightness: u8) -> Read {
        self.enter(Rule::Sum)?;
        let mut left = self.unary()?;
        let mut times = 1;
        loop {
            let (function, own) = match self.kind() {
                Kind::Star => ("_*_", 2),
                Kind::Slash => ("_/_", 2),
                Kind::Percent => ("_%_", 2),
                Kind::Plus => ("_+_", 1),
                Kind::Minus => ("_-_", 1),
                _ => break,
            };
            if own < tightness {
                break;
            }
            self.enter(Rule::Sum)?;
            times += 1;
            let token = self.next();
            let right = self.sum(own + 1)?;
            left = self.operator(token, function, vec![left, right]);
            self.deeper(left);
        }
        self.leave(Rule::Sum, times);
        Ok(left)
    }

    fn unary(&mut self) -> Read {
        let (kind, function) = match self.kind() {
            Kind::Exclamation => (Kind::Exclamation, "!_"),
            // A minus before a number belongs to the number.
            Kind::Minus if !matches!(self.ahead(1), Kind::Int | Kind::Float) => (Kind::Minus, "-_"),
            _ => return self.member(),
        };
        let first = self.next();
        let mut count = 1;
        while self.take(kind).is_some() {
            count += 1;
        }
        let operand = self.member()?;
        Ok(match count % 2 {
            0 => operand,
            _ => self.operator(first, function, vec![operand]),
        })
    }

    fn member(&mut self) -> Read {
        self.enter(Rule::Member)?;
        let mut operand = self.primary()?;
        let mut times = 1;
        loop {
            match self.kind() {
                Kind::Dot => {
                    self.enter(Rule::Member)?;
                    times += 1;
                    operand = self.select(operand)?;
                }
                Kind::LeftBracket => {
                    self.enter(Rule::Member)?;
                    times += 1;
                    let token = self.next();
                    let function = if self.take(Kind::Question).is_some() { "_[?_]" } else { "_[_]" };
                    let index = self.expression()?;
                    self.expect(Kind::RightBracket)?;
                    operand = self.operator(token, function, vec![operand, index]);
                    self.deeper(operand);
                }
                _ => break,
            }
        }
        self.leave(Rule::Member, times);
        Ok(operand)
    }

    fn select(&mut self, operand: Id) -> Read {
        let dot = self.next();
        let optional = self.take(Kind::Question).is_some();
        let name = self.field()?;
        if !optional
            && self.kind() == Kind::LeftParenthesis
            && self.tokens[self.at - 1].kind == Kind::Identifier
        {
            let open = self.next();
            let arguments = self.arguments()?;
            let call = macros::expand(self, open.start, Some(operand), &name, arguments);
            return Ok(self.deeper(call));
        }
        let select = match optional {
            false => self.node(dot.start, Node::Select { operand, field: name, test: false }),
            true => {
                let place = self.tokens[self.at - 1].start;
                let field = self.node(place, Node::Literal(Value::String(Text::Shared(name))));
                self.operator(dot, "_?._", vec![operand, field])
            }
        };
        Ok(self.deeper(select))
    }

    /// The name of a field.
    fn field(&mut self) -> Result<Arc<str>, Stop> {
        match self.kind() {
            Kind::Identifier => {
                let token = self.next();
                Ok(self.text_of(token).into())
            }
            Kind::EscapedIdentifier => {
                let token = self.next();
                // Upstream has the syntax but Kubernetes does not switch it on.
                self.blame(token.start, "unsupported syntax: '`'");
                Ok("".into())
            }
            _ => Err(Stop::Syntax),
        }
    }

    /// Arguments up to the closing parenthesis.
    fn arguments(&mut self) -> Result<Vec<Id>, Stop> {
        let mut arguments = Vec::new();
        if self.take(Kind::RightParenthesis).is_some() {
            return Ok(arguments);
        }
        loop {
            arguments.push(self.expression()?);
            if self.take(Kind::Comma).is_none() {
                self.expect(Kind::RightParenthesis)?;
                return Ok(arguments);
            }
        }
    }
}

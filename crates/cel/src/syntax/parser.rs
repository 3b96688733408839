//! A recursive descent parser. It only detects syntax errors; [`super::diagnose`] reports them.

// upstream: github.com/google/cel-go/parser/parser.go

mod primary;

use std::sync::Arc;

use super::diagnose::diagnose;
use super::lexer::{Kind, Token, tokens};
use super::macros;
use super::tree::{Id, Node, Tree};
use crate::source::{Issues, Location};
use crate::value::{Text, Value};

/// Maximum nesting depth, as upstream counts it.
const MAX_DEPTH: usize = 250;
/// Maximum number of characters.
const MAX_LENGTH: usize = 100_000;

/// Parses an expression.
pub fn parse(text: &str) -> Result<Tree, Issues> {
    let mut issues = Issues::new(text);
    if text.len() > MAX_LENGTH {
        let length = text.chars().count();
        if length > MAX_LENGTH {
            let message =
                format!("expression code point size exceeds limit: size: {length}, limit {MAX_LENGTH}");
            issues.add(Location::NONE, message);
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
            if visited[root] > MAX_DEPTH {
                issues.add(Location::NONE, "max recursion depth exceeded");
            }
        }
        Err(ParseError::TooDeep) => {
            issues.add(Location::NONE, format!("expression recursion limit exceeded: {MAX_DEPTH}"))
        }
        _ => {
            // Discard the errors found so far: `diagnose` reports all errors in upstream's order.
            issues = Issues::new(text);
            diagnose(text, &tokens, &unreadable, &mut issues);
        }
    }
    match issues.is_empty() {
        true => Ok(tree),
        false => Err(issues),
    }
}

/// The reason why parsing stopped.
pub(super) enum ParseError {
    /// Unexpected token.
    Syntax,
    TooDeep,
}

/// Rules with limited nesting.
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
    /// Depth of each node, as upstream's visitor counts it.
    visited: Vec<usize>,
    entered: [usize; 4],
}

type ParseResult = Result<Id, ParseError>;

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

    fn expect(&mut self, kind: Kind) -> Result<Token, ParseError> {
        match self.kind() == kind {
            true => Ok(self.next()),
            false => Err(ParseError::Syntax),
        }
    }

    fn text_of(&self, token: Token) -> &'a str {
        &self.text[token.start..token.end]
    }

    fn enter(&mut self, rule: Rule) -> Result<(), ParseError> {
        self.entered[rule as usize] += 1;
        if self.entered[rule as usize] > MAX_DEPTH { Err(ParseError::TooDeep) } else { Ok(()) }
    }

    fn leave(&mut self, rule: Rule, times: usize) {
        self.entered[rule as usize] -= times;
    }

    /// Adds a node at an offset.
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
            Node::Comprehension(it) => [it.range, it.step, it.result, it.start]
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
    fn count_depth(&mut self, id: Id) -> Id {
        self.visited[id] += 1;
        id
    }

    /// Reports an error and returns a placeholder node.
    pub(super) fn report_error(&mut self, offset: usize, message: impl Into<String>) -> Id {
        self.issues.add(Location::at(self.text, offset), message);
        self.node(offset, Node::Invalid)
    }

    fn operator(&mut self, token: Token, function: &'static str, arguments: Vec<Id>) -> Id {
        self.node(token.start, Node::Call { target: None, function: function.into(), arguments })
    }

    fn expression(&mut self) -> ParseResult {
        self.enter(Rule::Expression)?;
        let condition = self.logic(Kind::Or)?;
        let result = match self.take(Kind::Question) {
            None => condition,
            Some(token) => {
                let yes = self.logic(Kind::Or)?;
                self.expect(Kind::Colon)?;
                let no = self.expression()?;
                let id = self.operator(token, "_?_:_", vec![condition, yes, no]);
                self.count_depth(id)
            }
        };
        self.leave(Rule::Expression, 1);
        Ok(result)
    }

    /// Parses `||` or `&&`. The tree over several terms is balanced, so that long chains are not deep.
    fn logic(&mut self, kind: Kind) -> ParseResult {
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

    fn relation(&mut self) -> ParseResult {
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
            self.count_depth(left);
        }
        self.leave(Rule::Relation, times);
        Ok(left)
    }

    /// Parses sums and products of operators with at least this precedence.
    fn sum(&mut self, precedence: u8) -> ParseResult {
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
            if own < precedence {
                break;
            }
            self.enter(Rule::Sum)?;
            times += 1;
            let token = self.next();
            let right = self.sum(own + 1)?;
            left = self.operator(token, function, vec![left, right]);
            self.count_depth(left);
        }
        self.leave(Rule::Sum, times);
        Ok(left)
    }

    fn unary(&mut self) -> ParseResult {
        let (kind, function) = match self.kind() {
            Kind::Exclamation => (Kind::Exclamation, "!_"),
            // A minus before a number literal belongs to the literal.
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

    fn member(&mut self) -> ParseResult {
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
                    self.count_depth(operand);
                }
                _ => break,
            }
        }
        self.leave(Rule::Member, times);
        Ok(operand)
    }

    fn select(&mut self, operand: Id) -> ParseResult {
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
            return Ok(self.count_depth(call));
        }
        let select = match optional {
            false => self.node(dot.start, Node::Select { operand, field: name, test: false }),
            true => {
                let offset = self.tokens[self.at - 1].start;
                let field = self.node(offset, Node::Literal(Value::String(Text::Shared(name))));
                self.operator(dot, "_?._", vec![operand, field])
            }
        };
        Ok(self.count_depth(select))
    }

    /// Parses the name of a field.
    fn field(&mut self) -> Result<Arc<str>, ParseError> {
        match self.kind() {
            Kind::Identifier => {
                let token = self.next();
                Ok(self.text_of(token).into())
            }
            Kind::EscapedIdentifier => {
                let token = self.next();
                // Kubernetes does not enable this syntax.
                self.report_error(token.start, "unsupported syntax: '`'");
                Ok("".into())
            }
            _ => Err(ParseError::Syntax),
        }
    }

    /// Parses arguments up to the closing parenthesis.
    fn arguments(&mut self) -> Result<Vec<Id>, ParseError> {
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

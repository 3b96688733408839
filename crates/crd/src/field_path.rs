//! Field paths of rules and selectable fields: names after dots, and quoted names in brackets.

// upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/validation.go

use atoll_meta::FieldPath;
use serde_json::Value;

use crate::compile::{self, CompileMode};
use crate::node::{Node, Rest};

/// Resolves a path in a schema: returns the path in upstream's notation and the type there. `brackets` says
/// whether they are allowed.
///
/// # Errors
///
/// Upstream's message if the path is invalid.
pub fn find(schema: &Value, path: &str, brackets: bool) -> Result<(FieldPath, Option<&'static str>), String> {
    let schema = compile::schema(Some(schema), false, CompileMode::Defaults);
    let (path, node) = resolve(&schema.nodes, schema.root(), path, brackets)?;
    Ok((path, node.and_then(|node| node.types.single())))
}

pub(crate) fn resolve<'n>(
    nodes: &'n [Node],
    node: &'n Node,
    path: &str,
    brackets: bool,
) -> Result<(FieldPath, Option<&'n Node>), String> {
    let mut walk = Resolver { nodes, node: Some(node), path: FieldPath::nil() };
    let mut tokens = Tokens { rest: path };
    let ended = || "unexpected end of JSON path".to_owned();
    while let Some(token) = tokens.next() {
        match token {
            "[" if !brackets => return Err("array notation is not allowed".to_owned()),
            "[" => {
                let name = tokens.next().ok_or_else(ended)?;
                let inner = name.strip_prefix('\'').and_then(|name| name.strip_suffix('\''));
                let Some(inner) = inner.filter(|_| name.len() >= 2) else {
                    return Err(format!("expected single quoted string but got {name}"));
                };
                walk.step(&unescape(inner)?)?;
                match tokens.next() {
                    Some("]") => {}
                    Some(other) => return Err(format!("expected ] but got {other}")),
                    None => return Err(ended()),
                }
            }
            "." => walk.step(tokens.next().ok_or_else(ended)?)?,
            other => return Err(format!("expected [ or . but got: {other}")),
        }
    }
    Ok((walk.path, walk.node))
}

struct Resolver<'n> {
    nodes: &'n [Node],
    /// `None` where any value is allowed.
    node: Option<&'n Node>,
    path: FieldPath,
}

impl Resolver<'_> {
    fn step(&mut self, name: &str) -> Result<(), String> {
        let unknown = || "does not refer to a valid field".to_owned();
        let node = self.node.ok_or_else(unknown)?;
        let next = if node.properties.is_empty() {
            self.path = self.path.key(name);
            match node.rest {
                Rest::Unspecified => return Err(unknown()),
                Rest::Allowed | Rest::Forbidden => None,
                Rest::Node(rest) => Some(rest),
            }
        } else {
            self.path = self.path.child(name.to_owned());
            Some(node.property(name).ok_or_else(unknown)?)
        };
        self.node = next.map(|id| &self.nodes[id.0 as usize]);
        Ok(())
    }
}

/// A tokenizer: dots, brackets, names and quoted strings.
struct Tokens<'t> {
    rest: &'t str,
}

impl<'t> Tokens<'t> {
    fn next(&mut self) -> Option<&'t str> {
        if self.rest.is_empty() {
            return None;
        }
        let bytes = self.rest.as_bytes();
        let length = if bytes[0] == b'\'' {
            let end = (1..bytes.len()).find(|at| bytes[*at] == b'\'' && bytes[*at - 1] != b'\\');
            end.map_or(bytes.len(), |end| end + 1)
        } else {
            self.rest.find(['.', '[', ']']).unwrap_or(bytes.len()).max(1)
        };
        let (token, rest) = self.rest.split_at(length);
        self.rest = rest;
        Some(token)
    }
}

fn unescape(text: &str) -> Result<String, String> {
    let mut out = String::with_capacity(text.len());
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        if character != '\\' {
            out.push(character);
            continue;
        }
        match characters.next() {
            Some('a') => out.push('\u{7}'),
            Some('b') => out.push('\u{8}'),
            Some('f') => out.push('\u{c}'),
            Some('n') => out.push('\n'),
            Some('r') => out.push('\r'),
            Some('t') => out.push('\t'),
            Some('v') => out.push('\u{b}'),
            Some(plain @ ('\'' | '\\')) => out.push(plain),
            Some(other) => return Err(format!("invalid string literal: invalid escape char \\{other}")),
            None => out.push('\\'),
        }
    }
    Ok(out)
}

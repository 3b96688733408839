//! Literal format strings with literal arguments: `"%d".format([1])`.

// upstream: github.com/google/cel-go/ext/formatting.go

use super::Checked;
use crate::library::template::{self, Clause};
use crate::syntax::tree::{Id, Node};
use crate::types::Type;
use crate::value::Value;

/// A mistake in a format string, and its node if it is not the call as a whole.
struct FormatError {
    node: Option<Id>,
    message: String,
}

impl From<String> for FormatError {
    fn from(message: String) -> FormatError {
        FormatError { node: None, message }
    }
}

/// Returns the mistake, if any, in a call of `format` with a literal format string and a literal list.
pub fn check(checked: &Checked, id: Id) -> Option<(Id, String)> {
    let nodes = &checked.tree.nodes;
    let Node::Call { target: Some(target), function, arguments } = &nodes[id] else { return None };
    let (Node::Literal(Value::String(text)), [list]) = (&nodes[*target], &arguments[..]) else { return None };
    let Node::List { items } = &nodes[*list] else { return None };
    if &**function != "format" {
        return None;
    }
    let used = template::check(text, items.len(), |node, clause| {
        match unsupported_argument(checked, clause, items[node].0) {
            Some(unsupported_argument) => {
                let reason = clause.error_for(checked.types[unsupported_argument].name());
                Err(FormatError {
                    node: Some(unsupported_argument),
                    message: format!("error during formatting: {reason}"),
                })
            }
            None => Ok(()),
        }
    });
    match used {
        Err(fault) => Some((fault.node.unwrap_or(id), fault.message)),
        Ok(used) if used < items.len() => {
            let supplied = items.len();
            Some((
                id,
                format!("too many arguments supplied to string.format (expected {used}, got {supplied})"),
            ))
        }
        Ok(_) => None,
    }
}

/// Returns the argument, or the part of it, that the clause does not accept.
fn unsupported_argument(checked: &Checked, clause: Clause, id: Id) -> Option<Id> {
    use Type::{Bool, Bytes, Double, Duration, Dyn, Int, List, Map, Null, String, Timestamp, Uint};
    let kind = &checked.types[id];
    let is_fine = matches!(kind, Dyn)
        || match clause {
            Clause::Text => matches!(
                kind,
                List(_)
                    | Map(_)
                    | Int
                    | Uint
                    | Double
                    | Bool
                    | String
                    | Timestamp
                    | Bytes
                    | Duration
                    | Type::Type(_)
                    | Null
            ),
            Clause::Decimal | Clause::Octal => matches!(kind, Int | Uint),
            Clause::Fixed(_) | Clause::Scientific(_) => matches!(kind, Double | String),
            Clause::Binary => matches!(kind, Int | Uint | Bool),
            Clause::Hexadecimal { .. } => matches!(kind, Int | Uint | String | Bytes),
        };
    if !is_fine {
        return Some(id);
    }
    if clause != Clause::Text {
        return None;
    }
    match &checked.tree.nodes[id] {
        Node::List { items } => {
            items.iter().find_map(|(item, _)| unsupported_argument(checked, clause, *item))
        }
        Node::Map { entries } => entries
            .iter()
            .flat_map(|(key, value, _)| [*key, *value])
            .find_map(|part| unsupported_argument(checked, clause, part)),
        _ => None,
    }
}

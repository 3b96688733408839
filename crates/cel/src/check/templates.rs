//! Templates that are written down with their arguments: `"%d".format([1])`.

use super::Checked;
use crate::library::template::{self, Clause};
use crate::syntax::tree::{Id, Node};
use crate::types::Type;
use crate::value::Value;

/// What is wrong with a template, and where if it is not the call as a whole.
struct Fault {
    place: Option<Id>,
    message: String,
}

impl From<String> for Fault {
    fn from(message: String) -> Fault {
        Fault { place: None, message }
    }
}

/// What is wrong with a call, if it is one of a template that is written down with a list of arguments.
pub fn check(checked: &Checked, id: Id) -> Option<(Id, String)> {
    let nodes = &checked.tree.nodes;
    let Node::Call { target: Some(target), function, arguments } = &nodes[id] else { return None };
    let (Node::Literal(Value::String(text)), [list]) = (&nodes[*target], &arguments[..]) else { return None };
    let Node::List { items } = &nodes[*list] else { return None };
    if &**function != "format" {
        return None;
    }
    let taken =
        template::check(text, items.len(), |place, clause| match refused(checked, clause, items[place].0) {
            Some(refused) => {
                let reason = clause.refusal(checked.types[refused].name());
                Err(Fault { place: Some(refused), message: format!("error during formatting: {reason}") })
            }
            None => Ok(()),
        });
    match taken {
        Err(fault) => Some((fault.place.unwrap_or(id), fault.message)),
        Ok(taken) if taken < items.len() => {
            let given = items.len();
            Some((
                id,
                format!("too many arguments supplied to string.format (expected {taken}, got {given})"),
            ))
        }
        Ok(_) => None,
    }
}

/// The argument, or the part of it, that the clause is not for.
fn refused(checked: &Checked, clause: Clause, id: Id) -> Option<Id> {
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
        Node::List { items } => items.iter().find_map(|(item, _)| refused(checked, clause, *item)),
        Node::Map { entries } => entries
            .iter()
            .flat_map(|(key, value, _)| [*key, *value])
            .find_map(|part| refused(checked, clause, part)),
        _ => None,
    }
}

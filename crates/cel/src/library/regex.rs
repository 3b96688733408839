//! `kubernetes.regex`: what a pattern finds.

use std::sync::Arc;

use ::regex::Regex;

use super::arguments::{int, part, text};
use super::costs::{estimate_find, find as find_cost};
use super::{Function, Library, Overload};
use crate::error::Error;
use crate::regexp;
use crate::value::Value;

pub static LIBRARY: Library = Library {
    name: "kubernetes.regex",
    functions: &[
        Function {
            name: "find",
            overloads: &[Overload::new("string_find_string", "string.(string) -> string", find)
                .costs(find_cost, estimate_find)],
        },
        Function {
            name: "findAll",
            overloads: &[
                Overload::new("string_find_all_string", "string.(string) -> list(string)", find_all)
                    .costs(find_cost, estimate_find),
                Overload::new("string_find_all_string_int", "string.(string, int) -> list(string)", find_all)
                    .costs(find_cost, estimate_find),
            ],
        },
    ],
    types: &[],
};

/// Looks for a pattern in the first argument. The second one is the pattern as text.
pub type Search = for<'a> fn(&Regex, &[Value<'a>]) -> Result<Value<'a>, Error>;

fn find<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>, Error> {
    search_first(&*pattern(arguments)?, arguments)
}

fn find_all<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>, Error> {
    search_all(&*pattern(arguments)?, arguments)
}

fn pattern(arguments: &[Value<'_>]) -> Result<Arc<Regex>, Error> {
    regexp::compile(text(arguments, 1)?).map_err(|error| Error::new(format!("Illegal regex: {error}")))
}

/// What matches first, or an empty text.
pub fn search_first<'a>(regex: &Regex, arguments: &[Value<'a>]) -> Result<Value<'a>, Error> {
    let found = regex.find(text(arguments, 0)?).map_or("", |found| found.as_str());
    Ok(part(&arguments[0], found))
}

/// All that matches, or the first so many.
pub fn search_all<'a>(regex: &Regex, arguments: &[Value<'a>]) -> Result<Value<'a>, Error> {
    let whole = text(arguments, 0)?;
    let limit = if arguments.len() > 2 { int(arguments, 2)? } else { -1 };
    let mut found = Vec::new();
    let mut end = None;
    for each in regex.find_iter(whole) {
        if usize::try_from(limit).is_ok_and(|limit| found.len() >= limit) {
            break;
        }
        // Nothing, right after a match, is no match.
        if each.is_empty() && end == Some(each.start()) {
            continue;
        }
        end = Some(each.end());
        found.push(part(&arguments[0], each.as_str()));
    }
    Ok(Value::from(found))
}

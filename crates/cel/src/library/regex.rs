//! `kubernetes.regex`: pattern search.

// upstream: staging/src/k8s.io/apiserver/pkg/cel/library/regex.go

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

/// Searches the first argument for a pattern. The second argument is the source of the pattern.
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

/// Returns the first match, or an empty string.
pub fn search_first<'a>(regex: &Regex, arguments: &[Value<'a>]) -> Result<Value<'a>, Error> {
    let found = regex.find(text(arguments, 0)?).map_or("", |found| found.as_str());
    Ok(part(&arguments[0], found))
}

/// Returns all matches, or up to a limit.
pub fn search_all<'a>(regex: &Regex, arguments: &[Value<'a>]) -> Result<Value<'a>, Error> {
    let whole = text(arguments, 0)?;
    let limit = if arguments.len() > 2 { int(arguments, 2)? } else { -1 };
    let mut found = Vec::new();
    let mut end = None;
    for each in regex.find_iter(whole) {
        if usize::try_from(limit).is_ok_and(|limit| found.len() >= limit) {
            break;
        }
        // An empty match right after another match does not count.
        if each.is_empty() && end == Some(each.start()) {
            continue;
        }
        end = Some(each.end());
        found.push(part(&arguments[0], each.as_str()));
    }
    Ok(Value::from(found))
}

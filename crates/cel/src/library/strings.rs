//! `cel.lib.ext.strings`: string functions.

// upstream: github.com/google/cel-go/ext/strings.go

use super::arguments::{int, list, part, text};
use super::costs::{
    estimate_copy, estimate_format, estimate_join, estimate_quote, estimate_replace, estimate_split,
    estimate_walk, join as join_cost, read, read_twice, walk,
};
use super::text as texts;
use super::{Function, Library, Overload, template};
use crate::error::Error;
use crate::value::Value;

/// Maximum length of a result. Longer ones are rejected as too expensive; upstream would run out of memory.
const MAX_BYTES: usize = 64 << 20;

pub static LIBRARY: Library = Library {
    name: "cel.lib.ext.strings",
    functions: &[
        Function {
            name: "charAt",
            overloads: &[Overload::new("string_char_at_int", "string.(int) -> string", char_at)],
        },
        Function {
            name: "indexOf",
            overloads: &[
                Overload::new("string_index_of_string", "string.(string) -> int", index_of)
                    .costs(walk, estimate_walk),
                Overload::new("string_index_of_string_int", "string.(string, int) -> int", index_of)
                    .costs(walk, estimate_walk),
            ],
        },
        Function {
            name: "lastIndexOf",
            overloads: &[
                Overload::new("string_last_index_of_string", "string.(string) -> int", last_index_of)
                    .costs(walk, estimate_walk),
                Overload::new(
                    "string_last_index_of_string_int",
                    "string.(string, int) -> int",
                    last_index_of,
                )
                .costs(walk, estimate_walk),
            ],
        },
        Function {
            name: "lowerAscii",
            overloads: &[Overload::new("string_lower_ascii", "string.() -> string", |arguments| {
                Ok(text(arguments, 0)?.to_ascii_lowercase().into())
            })
            .costs(read, estimate_copy)],
        },
        Function {
            name: "upperAscii",
            overloads: &[Overload::new("string_upper_ascii", "string.() -> string", |arguments| {
                Ok(text(arguments, 0)?.to_ascii_uppercase().into())
            })
            .costs(read, estimate_copy)],
        },
        Function {
            name: "replace",
            overloads: &[
                Overload::new("string_replace_string_string", "string.(string, string) -> string", replace)
                    .costs(read_twice, estimate_replace),
                Overload::new(
                    "string_replace_string_string_int",
                    "string.(string, string, int) -> string",
                    replace,
                )
                .costs(read_twice, estimate_replace),
            ],
        },
        Function {
            name: "split",
            overloads: &[
                Overload::new("string_split_string", "string.(string) -> list(string)", split)
                    .costs(read_twice, estimate_split),
                Overload::new("string_split_string_int", "string.(string, int) -> list(string)", split)
                    .costs(read_twice, estimate_split),
            ],
        },
        Function {
            name: "substring",
            overloads: &[
                Overload::new("string_substring_int", "string.(int) -> string", substring)
                    .costs(read, estimate_copy),
                Overload::new("string_substring_int_int", "string.(int, int) -> string", substring)
                    .costs(read, estimate_copy),
            ],
        },
        Function {
            name: "trim",
            overloads: &[Overload::new("string_trim", "string.() -> string", |arguments| {
                Ok(part(&arguments[0], text(arguments, 0)?.trim()))
            })
            .costs(read, estimate_copy)],
        },
        Function {
            name: "join",
            overloads: &[
                Overload::new("list_join", "list(string).() -> string", join).costs(join_cost, estimate_join),
                Overload::new("list_join_string", "list(string).(string) -> string", join)
                    .costs(join_cost, estimate_join),
            ],
        },
        Function {
            name: "strings.quote",
            overloads: &[Overload::new("strings_quote", "(string) -> string", |arguments| {
                Ok(texts::quote(text(arguments, 0)?).into())
            })
            .costs(read, estimate_quote)],
        },
        Function {
            name: "format",
            overloads: &[Overload::new("string_format", "string.(list(dyn)) -> string", |arguments| {
                Ok(template::format(text(arguments, 0)?, list(arguments, 1)?)?.into())
            })
            .costs(read, estimate_format)],
        },
    ],
    types: &[],
};

fn char_at<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>, Error> {
    let character = texts::char_at(text(arguments, 0)?, int(arguments, 1)?).map_err(Error::new)?;
    Ok(part(&arguments[0], character))
}

fn index_of<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>, Error> {
    let from = if arguments.len() > 2 { int(arguments, 2)? } else { 0 };
    texts::index_of(text(arguments, 0)?, text(arguments, 1)?, from).map(Value::Int).map_err(Error::new)
}

fn last_index_of<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>, Error> {
    let (whole, sought) = (text(arguments, 0)?, text(arguments, 1)?);
    if arguments.len() < 3 {
        return Ok(Value::Int(texts::last_index_of(whole, sought)));
    }
    texts::last_index_of_from(whole, sought, int(arguments, 2)?).map(Value::Int).map_err(Error::new)
}

fn replace<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>, Error> {
    let (whole, old, new) = (text(arguments, 0)?, text(arguments, 1)?, text(arguments, 2)?);
    let limit = if arguments.len() > 3 { int(arguments, 3)? } else { -1 };
    let most = usize::try_from(limit).unwrap_or(usize::MAX).min(whole.len() / old.len().max(1) + 1);
    // Count the occurrences only if the result could exceed the limit.
    if most.saturating_mul(new.len()) > MAX_BYTES {
        let count =
            most.min(if old.is_empty() { whole.chars().count() + 1 } else { whole.matches(old).count() });
        if count.saturating_mul(new.len()) > MAX_BYTES {
            return Err(Error::Cancelled);
        }
    }
    Ok(texts::replace(whole, old, new, limit).into())
}

fn split<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>, Error> {
    let limit = if arguments.len() > 2 { int(arguments, 2)? } else { -1 };
    let parts = texts::split(text(arguments, 0)?, text(arguments, 1)?, limit);
    Ok(Value::from(parts.into_iter().map(|each| part(&arguments[0], each)).collect::<Vec<_>>()))
}

fn substring<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>, Error> {
    let (whole, start) = (text(arguments, 0)?, int(arguments, 1)?);
    let found = if arguments.len() > 2 {
        texts::substring(whole, start..int(arguments, 2)?)
    } else {
        texts::substring_from(whole, start)
    };
    Ok(part(&arguments[0], found.map_err(Error::new)?))
}

fn join<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>, Error> {
    let separator = if arguments.len() > 1 { text(arguments, 1)? } else { "" };
    let mut joined = String::new();
    for (index, item) in list(arguments, 0)?.iter().enumerate() {
        if index > 0 {
            joined.push_str(separator);
        }
        match item? {
            Value::String(text) => joined.push_str(&text),
            other => return Err(Error::new(format!("join: invalid input: {}", other.display()))),
        }
        if joined.len() > MAX_BYTES {
            return Err(Error::Cancelled);
        }
    }
    Ok(joined.into())
}

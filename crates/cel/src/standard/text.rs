//! String predicates: `contains`, `startsWith`, `endsWith` and `matches`.

// upstream: github.com/google/cel-go/common/types/string.go

use crate::error::Error;
use crate::library::Overload;
use crate::regexp;
use crate::value::Value;

pub static CONTAINS: &[Overload] =
    &[Overload::new("contains_string", "string.(string) -> bool", contains).unguarded()];
pub static ENDS_WITH: &[Overload] =
    &[Overload::new("ends_with_string", "string.(string) -> bool", ends_with).unguarded()];
pub static STARTS_WITH: &[Overload] =
    &[Overload::new("starts_with_string", "string.(string) -> bool", starts_with).unguarded()];
pub static MATCHES: &[Overload] = &[
    Overload::new("matches", "(string, string) -> bool", matches).unguarded(),
    Overload::new("matches_string", "string.(string) -> bool", matches).unguarded(),
];

fn both<'a>(arguments: &[Value<'_>], test: impl Fn(&str, &str) -> bool) -> Result<Value<'a>, Error> {
    match arguments {
        [Value::String(text), Value::String(part)] => Ok(Value::Bool(test(text, part))),
        _ => Err(Error::NoSuchOverload),
    }
}

fn contains<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>, Error> {
    both(arguments, |text, part| text.contains(part))
}

fn ends_with<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>, Error> {
    both(arguments, |text, part| text.ends_with(part))
}

fn starts_with<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>, Error> {
    both(arguments, |text, part| text.starts_with(part))
}

fn matches<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>, Error> {
    match arguments {
        [Value::String(text), Value::String(pattern)] => {
            Ok(Value::Bool(regexp::compile(pattern)?.is_match(text)))
        }
        [Value::String(_), _] => Err(Error::NoSuchOverload),
        _ => Err(Error::new("no such overload: matches")),
    }
}

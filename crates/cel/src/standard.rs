//! The standard functions.

// upstream: github.com/google/cel-go/common/stdlib/standard.go

mod aggregate;
mod arithmetic;
mod convert;
mod optional;
mod order;
mod text;
mod times;

pub use aggregate::put_all;
pub use convert::{to_duration, to_timestamp, write_double};

use crate::error::Error;
use crate::library::{Function, Library, Overload};
use crate::value::Value;

/// Placeholder for operators that the evaluator implements itself.
fn special<'a>(_: &[Value<'a>]) -> Result<Value<'a>, Error> {
    Err(Error::NoSuchOverload)
}

/// Returns true for everything but `false`, including errors.
fn not_strictly_false<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>, Error> {
    Ok(match arguments {
        [Value::Bool(it)] => Value::Bool(*it),
        _ => Value::Bool(true),
    })
}

fn not<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>, Error> {
    match arguments {
        [Value::Bool(it)] => Ok(Value::Bool(!it)),
        _ => Err(Error::NoSuchOverload),
    }
}

/// The standard functions.
pub static STANDARD: Library = Library {
    name: "standard",
    types: &[],
    functions: &[
        Function { name: "_?_:_", overloads: &[Overload::new("conditional", "(bool, A, A) -> A", special)] },
        Function {
            name: "_&&_",
            overloads: &[Overload::new("logical_and", "(bool, bool) -> bool", special)],
        },
        Function { name: "_||_", overloads: &[Overload::new("logical_or", "(bool, bool) -> bool", special)] },
        Function {
            name: "!_",
            overloads: &[Overload::new("logical_not", "(bool) -> bool", not).unguarded()],
        },
        Function {
            name: "@not_strictly_false",
            overloads: &[
                Overload::new("not_strictly_false", "(bool) -> bool", not_strictly_false).unguarded()
            ],
        },
        Function { name: "_==_", overloads: &[Overload::new("equals", "(A, A) -> bool", special)] },
        Function { name: "_!=_", overloads: &[Overload::new("not_equals", "(A, A) -> bool", special)] },
        Function { name: "_+_", overloads: arithmetic::ADD },
        Function { name: "_-_", overloads: arithmetic::SUBTRACT },
        Function { name: "_*_", overloads: arithmetic::MULTIPLY },
        Function { name: "_/_", overloads: arithmetic::DIVIDE },
        Function { name: "_%_", overloads: arithmetic::MODULO },
        Function { name: "-_", overloads: arithmetic::NEGATE },
        Function { name: "_<_", overloads: order::LESS },
        Function { name: "_<=_", overloads: order::LESS_EQUALS },
        Function { name: "_>_", overloads: order::GREATER },
        Function { name: "_>=_", overloads: order::GREATER_EQUALS },
        Function { name: "_[_]", overloads: aggregate::INDEX },
        Function { name: "_[?_]", overloads: aggregate::OPTIONAL_INDEX },
        Function { name: "_?._", overloads: aggregate::OPTIONAL_SELECT },
        Function { name: "@in", overloads: aggregate::IN },
        Function { name: "in", overloads: aggregate::IN },
        Function { name: "size", overloads: aggregate::SIZE },
        Function { name: "cel.@mapInsert", overloads: aggregate::INSERT },
        Function { name: "type", overloads: convert::TYPE },
        Function { name: "dyn", overloads: convert::DYN },
        Function { name: "bool", overloads: convert::BOOL },
        Function { name: "bytes", overloads: convert::BYTES },
        Function { name: "double", overloads: convert::DOUBLE },
        Function { name: "duration", overloads: convert::DURATION },
        Function { name: "int", overloads: convert::INT },
        Function { name: "string", overloads: convert::STRING },
        Function { name: "timestamp", overloads: convert::TIMESTAMP },
        Function { name: "uint", overloads: convert::UINT },
        Function { name: "contains", overloads: text::CONTAINS },
        Function { name: "endsWith", overloads: text::ENDS_WITH },
        Function { name: "startsWith", overloads: text::STARTS_WITH },
        Function { name: "matches", overloads: text::MATCHES },
        Function { name: "getFullYear", overloads: times::YEAR },
        Function { name: "getMonth", overloads: times::MONTH },
        Function { name: "getDayOfYear", overloads: times::DAY_OF_YEAR },
        Function { name: "getDayOfMonth", overloads: times::DAY_OF_MONTH },
        Function { name: "getDate", overloads: times::DATE },
        Function { name: "getDayOfWeek", overloads: times::DAY_OF_WEEK },
        Function { name: "getHours", overloads: times::HOURS },
        Function { name: "getMinutes", overloads: times::MINUTES },
        Function { name: "getSeconds", overloads: times::SECONDS },
        Function { name: "getMilliseconds", overloads: times::MILLISECONDS },
        Function { name: "optional.of", overloads: optional::OF },
        Function { name: "optional.ofNonZeroValue", overloads: optional::OF_NON_ZERO },
        Function { name: "optional.none", overloads: optional::NONE },
        Function { name: "optional.unwrap", overloads: optional::UNWRAP },
        Function { name: "unwrapOpt", overloads: optional::UNWRAP_METHOD },
        Function { name: "value", overloads: optional::VALUE },
        Function { name: "hasValue", overloads: optional::HAS_VALUE },
        Function { name: "or", overloads: optional::OR },
        Function { name: "orValue", overloads: optional::OR_VALUE },
        Function { name: "first", overloads: optional::FIRST },
        Function { name: "last", overloads: optional::LAST },
    ],
};

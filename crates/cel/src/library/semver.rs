//! `kubernetes.Semver`: semantic versions.

// upstream: staging/src/k8s.io/apiserver/pkg/cel/library/semverlib.go

use std::cmp::Ordering;

use super::arguments::{any, opaque, text};
use super::costs::{estimate_read, read};
use super::version::Version;
use super::{Function, Library, Overload};
use crate::error::Error;
use crate::value::{Opaque, Value};

pub static LIBRARY: Library = Library {
    name: "kubernetes.Semver",
    functions: &[
        Function {
            name: "semver",
            overloads: &[
                Overload::new("string_to_semver", "(string) -> kubernetes.Semver", semver)
                    .costs(read, estimate_read),
                Overload::new("string_bool_to_semver", "(string, bool) -> kubernetes.Semver", semver)
                    .costs(read, estimate_read),
            ],
        },
        Function {
            name: "isSemver",
            overloads: &[
                Overload::new("is_semver_string", "(string) -> bool", is_semver).costs(read, estimate_read),
                Overload::new("is_semver_string_bool", "(string, bool) -> bool", is_semver)
                    .costs(read, estimate_read),
            ],
        },
        Function {
            name: "isGreaterThan",
            overloads: &[Overload::new(
                "semver_is_greater_than",
                "kubernetes.Semver.(kubernetes.Semver) -> bool",
                |arguments| Ok(Value::Bool(compare(arguments)? == Ordering::Greater)),
            )],
        },
        Function {
            name: "isLessThan",
            overloads: &[Overload::new(
                "semver_is_less_than",
                "kubernetes.Semver.(kubernetes.Semver) -> bool",
                |arguments| Ok(Value::Bool(compare(arguments)? == Ordering::Less)),
            )],
        },
        Function {
            name: "compareTo",
            overloads: &[Overload::new(
                "semver_compare_to",
                "kubernetes.Semver.(kubernetes.Semver) -> int",
                |arguments| Ok(Value::Int(compare(arguments)? as i64)),
            )],
        },
        Function {
            name: "major",
            overloads: &[Overload::new("semver_major", "kubernetes.Semver.() -> int", |arguments| {
                Ok(Value::Int(opaque::<Version>(arguments, 0)?.major as i64))
            })],
        },
        Function {
            name: "minor",
            overloads: &[Overload::new("semver_minor", "kubernetes.Semver.() -> int", |arguments| {
                Ok(Value::Int(opaque::<Version>(arguments, 0)?.minor as i64))
            })],
        },
        Function {
            name: "patch",
            overloads: &[Overload::new("semver_patch", "kubernetes.Semver.() -> int", |arguments| {
                Ok(Value::Int(opaque::<Version>(arguments, 0)?.patch as i64))
            })],
        },
    ],
    types: &[],
};

impl Opaque for Version {
    fn type_name(&self) -> &'static str {
        "kubernetes.Semver"
    }

    fn equals(&self, other: &dyn Opaque) -> bool {
        other.downcast::<Version>() == Some(self)
    }
}

/// Parses a version, with normalization if the second argument is true.
fn parse(arguments: &[Value<'_>]) -> Result<Result<Version, String>, Error> {
    let text = text(arguments, 0)?;
    let is_lenient = arguments.len() > 1 && matches!(any(arguments, 1)?, Value::Bool(true));
    Ok(if is_lenient { Version::parse_lenient(text) } else { Version::parse(text) })
}

fn semver<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>, Error> {
    parse(arguments)?.map(Value::opaque).map_err(Error::new)
}

fn is_semver<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>, Error> {
    Ok(Value::Bool(parse(arguments)?.is_ok()))
}

fn compare(arguments: &[Value<'_>]) -> Result<Ordering, Error> {
    Ok(opaque::<Version>(arguments, 0)?.cmp(opaque::<Version>(arguments, 1)?))
}

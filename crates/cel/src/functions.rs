//! All functions by name.

// upstream: github.com/google/cel-go/common/decls/decls.go

use std::collections::HashMap;
use std::sync::LazyLock;

use crate::cost::standard;
use crate::library::{LIBRARIES, Library, Overload, RuntimeCost};
use crate::signature::Signature;
use crate::standard::STANDARD;
use crate::types::Type;
use crate::value::Value;

/// A function with its overloads.
#[derive(Debug)]
pub struct FunctionDecl {
    /// Name of the function.
    pub name: &'static str,
    /// Overloads in the order in which they are tried.
    pub overloads: Vec<OverloadDecl>,
}

/// An overload with its parsed signature.
#[derive(Debug)]
pub struct OverloadDecl {
    /// The overload.
    pub overload: &'static Overload,
    /// Parsed signature.
    pub signature: Signature,
    /// Names of its type parameters.
    pub parameters: Vec<std::sync::Arc<str>>,
    /// Whether this is a standard function: those have their own cost only if the overload is known before
    /// evaluation.
    pub standard: bool,
    /// Runtime cost. `None` means 1.
    pub cost: Option<RuntimeCost>,
}

impl OverloadDecl {
    /// Whether the overload accepts these values.
    pub fn accepts(&self, arguments: &[Value<'_>]) -> bool {
        self.signature.arguments.len() == arguments.len()
            && self.signature.arguments.iter().zip(arguments).all(|(expected, actual)| fits(expected, actual))
    }
}

/// Whether a value is of a type. Lists and maps are judged by their first element.
fn fits(expected: &Type, actual: &Value<'_>) -> bool {
    match (expected, actual) {
        (Type::Dyn | Type::Parameter(_), _) => true,
        (Type::List(items), Value::List(list)) => match list.get(0) {
            Some(Ok(first)) => fits(items, &first),
            _ => true,
        },
        (Type::Map(both), Value::Map(map)) if !accepts_any(&both[0]) || !accepts_any(&both[1]) => {
            map.keys().first().is_none_or(|key| {
                fits(&both[0], key) && map.find(key).ok().flatten().is_none_or(|value| fits(&both[1], &value))
            })
        }
        (Type::Opaque(_, parameters), Value::Optional(inside)) => {
            expected.name() == actual.type_name()
                && parameters
                    .first()
                    .zip(inside.as_ref())
                    .is_none_or(|(expected, inside)| fits(expected, inside))
        }
        (expected, actual) => expected.name() == actual.type_name(),
    }
}

/// Whether every value is of the type.
fn accepts_any(kind: &Type) -> bool {
    matches!(kind, Type::Dyn | Type::Parameter(_))
}

static FUNCTIONS: LazyLock<HashMap<&'static str, FunctionDecl>> = LazyLock::new(|| {
    let mut functions: HashMap<&'static str, FunctionDecl> = HashMap::new();
    for library in std::iter::once(&STANDARD).chain(LIBRARIES.iter().copied()) {
        for function in library.functions {
            let declaration = functions
                .entry(function.name)
                .or_insert_with(|| FunctionDecl { name: function.name, overloads: Vec::new() });
            declaration
                .overloads
                .extend(function.overloads.iter().map(|overload| declare(library, overload)));
        }
    }
    functions
});

fn declare(library: &'static Library, overload: &'static Overload) -> OverloadDecl {
    let signature = Signature::read(overload.signature);
    let mut parameters = Vec::new();
    for kind in signature.arguments.iter().chain([&signature.result]) {
        collect(kind, &mut parameters);
    }
    let standard = std::ptr::eq(library, &STANDARD);
    let cost = overload.cost.or_else(|| standard.then(|| standard::runtime(overload.id)).flatten());
    OverloadDecl { overload, signature, parameters, standard, cost }
}

/// Collects the type parameters in a type.
fn collect(kind: &Type, into: &mut Vec<std::sync::Arc<str>>) {
    match kind {
        Type::Parameter(name) if !into.contains(name) => into.push(name.clone()),
        other => other.parameters().iter().for_each(|parameter| collect(parameter, into)),
    }
}

/// Returns the function of this name.
pub fn find(name: &str) -> Option<&'static FunctionDecl> {
    FUNCTIONS.get(name)
}

/// Returns the type of this name, if expressions can refer to it.
pub fn type_named(name: &str) -> Option<Type> {
    Some(match name {
        "bool" => Type::Bool,
        "int" => Type::Int,
        "uint" => Type::Uint,
        "double" => Type::Double,
        "string" => Type::String,
        "bytes" => Type::Bytes,
        "null_type" => Type::Null,
        // Upstream's checker resolves the short names of these two, but cannot plan a program with them.
        "timestamp" | "google.protobuf.Timestamp" => Type::Timestamp,
        "duration" | "google.protobuf.Duration" => Type::Duration,
        "list" => Type::list(Type::Dyn),
        "map" => Type::map(Type::Dyn, Type::Dyn),
        "type" => Type::Type(None),
        crate::types::OPTIONAL => Type::optional(Type::Dyn),
        name => {
            let known = LIBRARIES.iter().flat_map(|library| library.types).find(|known| **known == name)?;
            Type::Opaque((*known).into(), [].into())
        }
    })
}

//! All functions that expressions can call, by name.

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
pub struct Declaration {
    /// Its name.
    pub name: &'static str,
    /// Its overloads, in the order in which they are tried.
    pub overloads: Vec<Declared>,
}

/// An overload whose signature was read.
#[derive(Debug)]
pub struct Declared {
    /// The overload.
    pub overload: &'static Overload,
    /// Its types.
    pub signature: Signature,
    /// The names of its type parameters.
    pub parameters: Vec<std::sync::Arc<str>>,
    /// Whether it is one of the language's own: their costs count only where it is known before evaluation which one is meant.
    pub standard: bool,
    /// What a call has cost; 1 without it.
    pub cost: Option<RuntimeCost>,
}

impl Declared {
    /// Whether values can be passed to it.
    pub fn takes(&self, arguments: &[Value<'_>]) -> bool {
        self.signature.arguments.len() == arguments.len()
            && self.signature.arguments.iter().zip(arguments).all(|(wanted, given)| fits(wanted, given))
    }
}

/// Whether a value is of a type. Lists and maps are judged by the first thing that is in them.
fn fits(wanted: &Type, given: &Value<'_>) -> bool {
    match (wanted, given) {
        (Type::Dyn | Type::Parameter(_), _) => true,
        (Type::List(items), Value::List(list)) => match list.get(0) {
            Some(Ok(first)) => fits(items, &first),
            _ => true,
        },
        (Type::Map(both), Value::Map(map)) if !is_open(&both[0]) || !is_open(&both[1]) => {
            map.keys().first().is_none_or(|key| {
                fits(&both[0], key) && map.find(key).ok().flatten().is_none_or(|value| fits(&both[1], &value))
            })
        }
        (Type::Opaque(_, parameters), Value::Optional(inside)) => {
            wanted.name() == given.type_name()
                && parameters.first().zip(inside.as_ref()).is_none_or(|(wanted, inside)| fits(wanted, inside))
        }
        (wanted, given) => wanted.name() == given.type_name(),
    }
}

/// Whether any value is of the type.
fn is_open(kind: &Type) -> bool {
    matches!(kind, Type::Dyn | Type::Parameter(_))
}

static FUNCTIONS: LazyLock<HashMap<&'static str, Declaration>> = LazyLock::new(|| {
    let mut functions: HashMap<&'static str, Declaration> = HashMap::new();
    for library in std::iter::once(&STANDARD).chain(LIBRARIES.iter().copied()) {
        for function in library.functions {
            let declaration = functions
                .entry(function.name)
                .or_insert_with(|| Declaration { name: function.name, overloads: Vec::new() });
            declaration
                .overloads
                .extend(function.overloads.iter().map(|overload| declare(library, overload)));
        }
    }
    functions
});

fn declare(library: &'static Library, overload: &'static Overload) -> Declared {
    let signature = Signature::read(overload.signature);
    let mut parameters = Vec::new();
    for kind in signature.arguments.iter().chain([&signature.result]) {
        collect(kind, &mut parameters);
    }
    let standard = std::ptr::eq(library, &STANDARD);
    let cost = overload.cost.or_else(|| standard.then(|| standard::runtime(overload.id)).flatten());
    Declared { overload, signature, parameters, standard, cost }
}

/// The type parameters in a type.
fn collect(kind: &Type, into: &mut Vec<std::sync::Arc<str>>) {
    match kind {
        Type::Parameter(name) if !into.contains(name) => into.push(name.clone()),
        other => other.parameters().iter().for_each(|parameter| collect(parameter, into)),
    }
}

/// A function by its name.
pub fn find(name: &str) -> Option<&'static Declaration> {
    FUNCTIONS.get(name)
}

/// A type by its name, if expressions can mention it.
pub fn type_named(name: &str) -> Option<Type> {
    Some(match name {
        "bool" => Type::Bool,
        "int" => Type::Int,
        "uint" => Type::Uint,
        "double" => Type::Double,
        "string" => Type::String,
        "bytes" => Type::Bytes,
        "null_type" => Type::Null,
        // Schemas know these two by short names, which then no program can be made of.
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

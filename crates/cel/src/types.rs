//! Types of expressions, as the checker sees them.

use std::fmt;
use std::sync::Arc;

use crate::shape::Shape;

/// The name of the type of optional values.
pub const OPTIONAL: &str = "optional_type";

/// A type.
#[derive(Clone, Debug)]
pub enum Type {
    /// Nothing is known until there is a value.
    Dyn,
    /// What an expression has that is wrong: no further errors come of it.
    Error,
    /// `null`.
    Null,
    /// `true` or `false`.
    Bool,
    /// 64 bits with a sign.
    Int,
    /// 64 bits without one.
    Uint,
    /// Binary floating point of 64 bits.
    Double,
    /// Unicode text.
    String,
    /// Any bytes.
    Bytes,
    /// A point in time.
    Timestamp,
    /// A span of time.
    Duration,
    /// A list of one type.
    List(Arc<Type>),
    /// A map from one type to another.
    Map(Arc<[Type; 2]>),
    /// A type with fields; without a shape it has a name only, such as `kubernetes.Quantity`.
    Object(Arc<str>, Option<Arc<Shape>>),
    /// A type without fields that may have parameters, such as `net.IP` or `optional_type(A)`.
    Opaque(Arc<str>, Arc<[Type]>),
    /// A type parameter of a signature, or one that the checker made up, to be found out.
    Parameter(Arc<str>),
    /// The type of types.
    Type(Option<Arc<Type>>),
}

impl Type {
    /// A list of these.
    pub fn list(items: Type) -> Type {
        Type::List(Arc::new(items))
    }

    /// A map from these to those.
    pub fn map(keys: Type, values: Type) -> Type {
        Type::Map(Arc::new([keys, values]))
    }

    /// One of these, or none.
    pub fn optional(value: Type) -> Type {
        Type::Opaque(OPTIONAL.into(), [value].into())
    }

    /// What is in it, if this is an optional type.
    pub fn unwrapped(&self) -> Option<&Type> {
        match self {
            Type::Opaque(name, parameters) if &**name == OPTIONAL => parameters.first(),
            _ => None,
        }
    }

    /// The name of the type itself, without parameters, as `type(x)` has it.
    pub fn name(&self) -> &str {
        match self {
            Type::Dyn => "dyn",
            Type::Error => "error",
            Type::Null => "null_type",
            Type::Bool => "bool",
            Type::Int => "int",
            Type::Uint => "uint",
            Type::Double => "double",
            Type::String => "string",
            Type::Bytes => "bytes",
            Type::Timestamp => "google.protobuf.Timestamp",
            Type::Duration => "google.protobuf.Duration",
            Type::List(_) => "list",
            Type::Map(_) => "map",
            Type::Object(name, _) | Type::Opaque(name, _) | Type::Parameter(name) => name,
            Type::Type(_) => "type",
        }
    }

    /// Its types in order: the items of a list, keys and values of a map, the parameters of others.
    pub fn parameters(&self) -> &[Type] {
        match self {
            Type::List(items) | Type::Type(Some(items)) => std::slice::from_ref(items),
            Type::Map(both) => both.as_slice(),
            Type::Opaque(_, parameters) => parameters,
            _ => &[],
        }
    }
}

impl PartialEq for Type {
    fn eq(&self, other: &Type) -> bool {
        match (self, other) {
            (Type::List(one), Type::List(two)) => one == two,
            (Type::Map(one), Type::Map(two)) => one == two,
            (Type::Object(one, _), Type::Object(two, _)) | (Type::Parameter(one), Type::Parameter(two)) => {
                one == two
            }
            (Type::Opaque(one, first), Type::Opaque(two, second)) => one == two && first == second,
            (Type::Type(one), Type::Type(two)) => one == two,
            _ => std::mem::discriminant(self) == std::mem::discriminant(other),
        }
    }
}

impl fmt::Display for Type {
    /// As error messages show types.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Type::Error => f.write_str("!error!"),
            Type::Null => f.write_str("null"),
            Type::Timestamp => f.write_str("timestamp"),
            Type::Duration => f.write_str("duration"),
            Type::List(items) => write!(f, "list({items})"),
            Type::Map(both) => write!(f, "map({}, {})", both[0], both[1]),
            Type::Type(Some(of)) => write!(f, "type({of})"),
            Type::Opaque(name, parameters) if !parameters.is_empty() => {
                write!(f, "{name}(")?;
                for (place, parameter) in parameters.iter().enumerate() {
                    write!(f, "{}{parameter}", if place > 0 { ", " } else { "" })?;
                }
                f.write_str(")")
            }
            other => f.write_str(other.name()),
        }
    }
}

//! Static types.

// upstream: github.com/google/cel-go/common/types/types.go

use std::fmt;
use std::sync::Arc;

use crate::shape::Shape;

/// Name of the type of optional values.
pub const OPTIONAL: &str = "optional_type";

/// A type.
#[derive(Clone, Debug)]
pub enum Type {
    /// Unknown until evaluation.
    Dyn,
    /// The type of an invalid expression, which causes no further errors.
    Error,
    /// `null`.
    Null,
    /// `true` or `false`.
    Bool,
    /// 64-bit signed integer.
    Int,
    /// 64-bit unsigned integer.
    Uint,
    /// 64-bit floating point number.
    Double,
    /// Unicode string.
    String,
    /// Byte string.
    Bytes,
    /// Point in time.
    Timestamp,
    /// Duration.
    Duration,
    /// List with an item type.
    List(Arc<Type>),
    /// Map with a key and a value type.
    Map(Arc<[Type; 2]>),
    /// Type with fields; without a shape only a name, such as `kubernetes.Quantity`.
    Object(Arc<str>, Option<Arc<Shape>>),
    /// Type without fields, possibly with parameters, such as `net.IP` or `optional_type(A)`.
    Opaque(Arc<str>, Arc<[Type]>),
    /// Type parameter of a signature, or a type variable of the checker.
    Parameter(Arc<str>),
    /// The type of types.
    Type(Option<Arc<Type>>),
}

impl Type {
    /// Returns a list type.
    pub fn list(items: Type) -> Type {
        Type::List(Arc::new(items))
    }

    /// Returns a map type.
    pub fn map(keys: Type, values: Type) -> Type {
        Type::Map(Arc::new([keys, values]))
    }

    /// Returns an optional type.
    pub fn optional(value: Type) -> Type {
        Type::Opaque(OPTIONAL.into(), [value].into())
    }

    /// Returns the inner type of an optional type.
    pub fn unwrapped(&self) -> Option<&Type> {
        match self {
            Type::Opaque(name, parameters) if &**name == OPTIONAL => parameters.first(),
            _ => None,
        }
    }

    /// Returns the name of the type without parameters, as `type(x)` does.
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

    /// Returns the type parameters: the items of a list, keys and values of a map.
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
    /// Formats a type as in error messages.
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
                for (index, parameter) in parameters.iter().enumerate() {
                    write!(f, "{}{parameter}", if index > 0 { ", " } else { "" })?;
                }
                f.write_str(")")
            }
            other => f.write_str(other.name()),
        }
    }
}

//! `kubernetes.quantity`: resource quantities.

// upstream: staging/src/k8s.io/apiserver/pkg/cel/library/quantity.go

use std::cmp::Ordering;

use super::arguments::{int, opaque, text};
use super::costs::{estimate_read, read};
use super::decimal::Amount;
use super::{Function, Library, Overload};
use crate::error::Error;
use crate::value::{Opaque, Value};

pub static LIBRARY: Library = Library {
    name: "kubernetes.quantity",
    functions: &[
        Function {
            name: "quantity",
            overloads: &[Overload::new("string_to_quantity", "(string) -> kubernetes.Quantity", quantity)
                .costs(read, estimate_read)],
        },
        Function {
            name: "isQuantity",
            overloads: &[Overload::new("is_quantity_string", "(string) -> bool", is_quantity)
                .costs(read, estimate_read)],
        },
        // Unlike the others, this has no receiver.
        Function {
            name: "sign",
            overloads: &[Overload::new("quantity_sign", "(kubernetes.Quantity) -> int", sign)],
        },
        Function {
            name: "isGreaterThan",
            overloads: &[Overload::new(
                "quantity_is_greater_than",
                "kubernetes.Quantity.(kubernetes.Quantity) -> bool",
                |arguments| Ok(Value::Bool(compare(arguments)? == Ordering::Greater)),
            )],
        },
        Function {
            name: "isLessThan",
            overloads: &[Overload::new(
                "quantity_is_less_than",
                "kubernetes.Quantity.(kubernetes.Quantity) -> bool",
                |arguments| Ok(Value::Bool(compare(arguments)? == Ordering::Less)),
            )],
        },
        Function {
            name: "compareTo",
            overloads: &[Overload::new(
                "quantity_compare_to",
                "kubernetes.Quantity.(kubernetes.Quantity) -> int",
                |arguments| Ok(Value::Int(compare(arguments)? as i64)),
            )],
        },
        Function {
            name: "asApproximateFloat",
            overloads: &[Overload::new(
                "quantity_get_float",
                "kubernetes.Quantity.() -> double",
                approximate,
            )],
        },
        Function {
            name: "asInteger",
            overloads: &[Overload::new("quantity_get_int", "kubernetes.Quantity.() -> int", as_integer)],
        },
        Function {
            name: "isInteger",
            overloads: &[Overload::new("quantity_is_integer", "kubernetes.Quantity.() -> bool", is_integer)],
        },
        Function {
            name: "add",
            overloads: &[
                Overload::new(
                    "quantity_add",
                    "kubernetes.Quantity.(kubernetes.Quantity) -> kubernetes.Quantity",
                    add,
                ),
                Overload::new(
                    "quantity_add_int",
                    "kubernetes.Quantity.(int) -> kubernetes.Quantity",
                    add_int,
                ),
            ],
        },
        Function {
            name: "sub",
            overloads: &[
                Overload::new(
                    "quantity_sub",
                    "kubernetes.Quantity.(kubernetes.Quantity) -> kubernetes.Quantity",
                    sub,
                ),
                Overload::new(
                    "quantity_sub_int",
                    "kubernetes.Quantity.(int) -> kubernetes.Quantity",
                    sub_int,
                ),
            ],
        },
    ],
    types: &[],
};

impl Opaque for Amount {
    fn type_name(&self) -> &'static str {
        "kubernetes.Quantity"
    }

    fn equals(&self, other: &dyn Opaque) -> bool {
        other.downcast::<Amount>() == Some(self)
    }
}

fn quantity<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>, Error> {
    Amount::parse(text(arguments, 0)?).map(Value::opaque).map_err(|error| Error::new(error.to_string()))
}

fn is_quantity<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>, Error> {
    Ok(Value::Bool(Amount::parse(text(arguments, 0)?).is_ok()))
}

fn sign<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>, Error> {
    Ok(Value::Int(opaque::<Amount>(arguments, 0)?.sign()))
}

fn compare(arguments: &[Value<'_>]) -> Result<Ordering, Error> {
    Ok(opaque::<Amount>(arguments, 0)?.cmp(opaque::<Amount>(arguments, 1)?))
}

fn approximate<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>, Error> {
    Ok(Value::Double(opaque::<Amount>(arguments, 0)?.approximate()))
}

fn as_integer<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>, Error> {
    let number = opaque::<Amount>(arguments, 0)?.as_integer();
    number.map(Value::Int).ok_or_else(|| Error::new("cannot convert value to integer"))
}

fn is_integer<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>, Error> {
    Ok(Value::Bool(opaque::<Amount>(arguments, 0)?.as_integer().is_some()))
}

fn add<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>, Error> {
    Ok(Value::opaque(opaque::<Amount>(arguments, 0)?.plus(opaque(arguments, 1)?)))
}

fn add_int<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>, Error> {
    Ok(Value::opaque(opaque::<Amount>(arguments, 0)?.plus(&Amount::from_integer(int(arguments, 1)?))))
}

fn sub<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>, Error> {
    Ok(Value::opaque(opaque::<Amount>(arguments, 0)?.minus(opaque(arguments, 1)?)))
}

fn sub_int<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>, Error> {
    Ok(Value::opaque(opaque::<Amount>(arguments, 0)?.minus(&Amount::from_integer(int(arguments, 1)?))))
}

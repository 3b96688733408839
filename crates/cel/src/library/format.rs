//! `kubernetes.format`: named formats.

// upstream: staging/src/k8s.io/apiserver/pkg/cel/library/format.go

use super::arguments::{opaque, text, texts};
use super::costs::{estimate_validate, pattern_cost};
use super::named::Format;
use super::{Function, Library, Overload};
use crate::cost::actual_size;
use crate::error::Error;
use crate::value::{Opaque, Value};

/// Declares `format.uuid()` and others: one function for each format.
macro_rules! constants {
    ($($name:literal)*) => {
        &[
            Function {
                name: "validate",
                overloads: &[Overload::new(
                    "format-validate",
                    "kubernetes.NamedFormat.(string) -> optional(list(string))",
                    validate,
                )
                .costs(validation_cost, estimate_validate)],
            },
            Function {
                name: "format.named",
                overloads: &[Overload::new("format-named", "(string) -> optional(kubernetes.NamedFormat)", named)],
            },
            $(Function {
                name: concat!("format.", $name),
                overloads: &[Overload::new(
                    concat!("format.", $name),
                    "() -> kubernetes.NamedFormat",
                    |_| find($name).ok_or(Error::NoSuchOverload),
                )],
            },)*
        ]
    };
}

pub static LIBRARY: Library = Library {
    name: "kubernetes.format",
    functions: constants![
        "dns1123Label" "dns1123Subdomain" "dns1035Label" "qualifiedName" "dns1123LabelPrefix" "dns1123SubdomainPrefix"
        "dns1035LabelPrefix" "labelValue" "uri" "uuid" "byte" "date" "datetime"
    ],
    types: &[],
};

/// A format as a value.
#[derive(Debug)]
struct FormatValue(&'static Format);

impl Opaque for FormatValue {
    fn type_name(&self) -> &'static str {
        "kubernetes.NamedFormat"
    }

    fn equals(&self, other: &dyn Opaque) -> bool {
        other.downcast::<FormatValue>().is_some_and(|other| self.0.name == other.0.name)
    }
}

fn find<'a>(name: &str) -> Option<Value<'a>> {
    Format::named(name).map(|format| Value::opaque(FormatValue(format)))
}

fn named<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>, Error> {
    Ok(Value::optional(find(text(arguments, 0)?)))
}

fn validate<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>, Error> {
    let format: &FormatValue = opaque(arguments, 0)?;
    let problems = format.0.check(text(arguments, 1)?);
    Ok(Value::optional((!problems.is_empty()).then(|| texts(problems))))
}

/// Cost of validation, as if the format were a pattern.
fn validation_cost(arguments: &[Value<'_>], _: Option<&Value<'_>>) -> u64 {
    match (opaque::<FormatValue>(arguments, 0), arguments.get(1)) {
        (Ok(format), Some(text)) => pattern_cost(actual_size(text), format.0.pattern_length),
        _ => 1,
    }
}

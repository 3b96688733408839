//! `kubernetes.urls`: parsing of URLs.

// upstream: staging/src/k8s.io/apiserver/pkg/cel/library/urls.go

use super::arguments::{opaque, text, texts};
use super::costs::{estimate_copy, read};
use super::go_url::{self, Url};
use super::{Function, Library, Overload};
use crate::error::Error;
use crate::value::{Key, Map, Opaque, Text, Value};

pub static LIBRARY: Library = Library {
    name: "kubernetes.urls",
    functions: &[
        Function {
            name: "url",
            overloads: &[
                Overload::new("string_to_url", "(string) -> kubernetes.URL", url).costs(read, estimate_copy)
            ],
        },
        Function { name: "isURL", overloads: &[Overload::new("is_url_string", "(string) -> bool", is_url)] },
        Function {
            name: "getScheme",
            overloads: &[Overload::new("url_get_scheme", "kubernetes.URL.() -> string", scheme)],
        },
        Function {
            name: "getHost",
            overloads: &[Overload::new("url_get_host", "kubernetes.URL.() -> string", host)],
        },
        Function {
            name: "getHostname",
            overloads: &[Overload::new("url_get_hostname", "kubernetes.URL.() -> string", hostname)],
        },
        Function {
            name: "getPort",
            overloads: &[Overload::new("url_get_port", "kubernetes.URL.() -> string", port)],
        },
        Function {
            name: "getEscapedPath",
            overloads: &[Overload::new("url_get_escaped_path", "kubernetes.URL.() -> string", escaped_path)],
        },
        Function {
            name: "getQuery",
            overloads: &[Overload::new(
                "url_get_query",
                "kubernetes.URL.() -> map(string, list(string))",
                query,
            )],
        },
    ],
    types: &[],
};

impl Opaque for Url {
    fn type_name(&self) -> &'static str {
        "kubernetes.URL"
    }

    fn equals(&self, other: &dyn Opaque) -> bool {
        other.downcast::<Url>().is_some_and(|other| self.to_string() == other.to_string())
    }
}

fn url<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>, Error> {
    match Url::parse(text(arguments, 0)?) {
        Ok(location) => Ok(Value::opaque(location)),
        Err(reason) => Err(Error::new(format!("URL parse error during conversion from string: {reason}"))),
    }
}

fn is_url<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>, Error> {
    Ok(Value::Bool(go_url::check(text(arguments, 0)?).is_ok()))
}

fn scheme<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>, Error> {
    Ok(opaque::<Url>(arguments, 0)?.scheme().to_owned().into())
}

fn host<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>, Error> {
    Ok(opaque::<Url>(arguments, 0)?.host().into())
}

fn hostname<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>, Error> {
    Ok(opaque::<Url>(arguments, 0)?.hostname().into())
}

fn port<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>, Error> {
    Ok(opaque::<Url>(arguments, 0)?.port().into())
}

fn escaped_path<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>, Error> {
    Ok(opaque::<Url>(arguments, 0)?.escaped_path().into())
}

fn query<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>, Error> {
    let parameters = opaque::<Url>(arguments, 0)?.query();
    let entries =
        parameters.into_iter().map(|(name, values)| (Key::String(Text::Shared(name.into())), texts(values)));
    Ok(Value::Map(Map::owned(entries.collect())))
}

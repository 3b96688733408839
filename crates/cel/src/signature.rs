//! Function signatures in text form.
//!
//! `(string, int) -> bool` is called as `f("a", 1)`; `string.(int) -> bool` as `"a".f(1)`. Types are `dyn`,
//! `null`, `bool`, `int`, `uint`, `double`, `string`, `bytes`, `timestamp`, `duration`, `type`, `list(T)`,
//! `map(K, V)`, `type(T)`, `optional(T)`; single capital letters are type parameters; other names are object
//! types (`kubernetes.URL`) or, with parentheses, opaque types (`net.IP()`).

use std::sync::Arc;

use crate::types::Type;

/// A parsed signature.
#[derive(Clone, Debug)]
pub struct Signature {
    /// Whether it is a method. The receiver is the first argument.
    pub receiver: bool,
    /// Argument types.
    pub arguments: Vec<Type>,
    /// Result type.
    pub result: Type,
}

impl Signature {
    /// Parses a signature. Panics on mistakes, because all signatures are constants that tests cover.
    pub fn read(text: &str) -> Signature {
        let mut reader = Reader { text, rest: text };
        let receiver = (!reader.rest.starts_with('(')).then(|| {
            let it = reader.one();
            reader.expect(".");
            it
        });
        reader.expect("(");
        let mut arguments: Vec<Type> = receiver.iter().cloned().collect();
        arguments.extend(reader.many());
        reader.expect(" -> ");
        let result = reader.one();
        assert!(reader.rest.is_empty(), "signature {text:?} goes on with {:?}", reader.rest);
        Signature { receiver: receiver.is_some(), arguments, result }
    }
}

struct Reader<'a> {
    text: &'a str,
    rest: &'a str,
}

impl<'a> Reader<'a> {
    fn expect(&mut self, what: &str) {
        let Some(rest) = self.rest.strip_prefix(what) else {
            panic!("signature {:?} lacks {what:?} before {:?}", self.text, self.rest)
        };
        self.rest = rest;
    }

    fn many(&mut self) -> Vec<Type> {
        let mut types = Vec::new();
        while !self.rest.starts_with(')') {
            types.push(self.one());
            self.rest = self.rest.strip_prefix(", ").unwrap_or(self.rest);
        }
        self.expect(")");
        types
    }

    fn one(&mut self) -> Type {
        let mut length = self
            .rest
            .find(|at: char| !at.is_ascii_alphanumeric() && !"._".contains(at))
            .unwrap_or(self.rest.len());
        // The period before the arguments of a method is not part of the name.
        if self.rest[..length].ends_with('.') {
            length -= 1;
        }
        let name: &'a str = &self.rest[..length];
        self.rest = &self.rest[length..];
        let parameters = match self.rest.strip_prefix('(') {
            Some(rest) => {
                self.rest = rest;
                Some(self.many())
            }
            None => None,
        };
        match (name, parameters.as_deref()) {
            ("dyn", None) => Type::Dyn,
            ("null", None) => Type::Null,
            ("bool", None) => Type::Bool,
            ("int", None) => Type::Int,
            ("uint", None) => Type::Uint,
            ("double", None) => Type::Double,
            ("string", None) => Type::String,
            ("bytes", None) => Type::Bytes,
            ("timestamp", None) => Type::Timestamp,
            ("duration", None) => Type::Duration,
            ("type", None) => Type::Type(None),
            ("type", Some([of])) => Type::Type(Some(Arc::new(of.clone()))),
            ("list", Some([items])) => Type::list(items.clone()),
            ("map", Some([keys, values])) => Type::map(keys.clone(), values.clone()),
            ("optional", Some([value])) => Type::optional(value.clone()),
            (name, None) if name.len() == 1 => Type::Parameter(name.into()),
            (name, None) => Type::Object(name.into(), None),
            (name, Some(parameters)) => Type::Opaque(name.into(), parameters.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Signature;

    #[test]
    fn signatures_are_read() {
        for (text, receiver, arguments, result) in [
            ("(string, int) -> bool", false, "string, int", "bool"),
            ("() -> list(int)", false, "", "list(int)"),
            ("list(A).(A) -> map(A, optional(A))", true, "list(A), A", "map(A, optional_type(A))"),
            ("kubernetes.URL.() -> net.IP()", true, "kubernetes.URL", "net.IP"),
            ("net.IP().(dyn) -> type(A)", true, "net.IP, dyn", "type(A)"),
        ] {
            let read = Signature::read(text);
            let actual: Vec<String> = read.arguments.iter().map(ToString::to_string).collect();
            assert_eq!(
                (read.receiver, &*actual.join(", "), &*read.result.to_string()),
                (receiver, arguments, result),
                "{text}"
            );
        }
    }
}

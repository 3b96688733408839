//! Builders: what the parser makes of a document.

// upstream: sigs.k8s.io/json/internal/golang/encoding/json/decode.go

use serde_json::{Map, Number, Value};

pub trait Builder {
    type Built;
    type Object: Default;

    fn null(&mut self) -> Self::Built;
    fn boolean(&mut self, value: bool) -> Self::Built;
    /// Returns `None` for a number that is out of range.
    fn number(&mut self, literal: &str) -> Option<Self::Built>;
    fn string(&mut self, text: String) -> Self::Built;
    fn array(&mut self, elements: Vec<Self::Built>) -> Self::Built;
    fn member(&mut self, object: &mut Self::Object, key: String, value: Self::Built);
    fn object(&mut self, object: Self::Object) -> Self::Built;
}

/// Builds values. The last of several members with the same key wins.
pub struct Values {
    /// Whether any key occurred twice.
    pub repeated: bool,
    keeps_unsigned: bool,
}

impl Values {
    /// Integers that fit are `i64`, all other numbers `f64`, as in Go's unstructured objects.
    pub fn unstructured() -> Values {
        Values { repeated: false, keeps_unsigned: false }
    }

    /// Integers that fit are `i64` or `u64`, all other numbers `f64`, because fields with raw JSON keep the
    /// notation of numbers.
    pub fn typed() -> Values {
        Values { repeated: false, keeps_unsigned: true }
    }
}

impl Builder for Values {
    type Built = Value;
    type Object = Map<String, Value>;

    fn null(&mut self) -> Value {
        Value::Null
    }

    fn boolean(&mut self, value: bool) -> Value {
        Value::Bool(value)
    }

    fn number(&mut self, literal: &str) -> Option<Value> {
        if let Ok(number) = literal.parse::<i64>() {
            return Some(Value::from(number));
        }
        if let (true, Ok(number)) = (self.keeps_unsigned, literal.parse::<u64>()) {
            return Some(Value::from(number));
        }
        literal.parse().ok().and_then(Number::from_f64).map(Value::Number)
    }

    fn string(&mut self, text: String) -> Value {
        Value::String(text)
    }

    fn array(&mut self, elements: Vec<Value>) -> Value {
        Value::Array(elements)
    }

    fn member(&mut self, object: &mut Map<String, Value>, key: String, value: Value) {
        self.repeated |= object.insert(key, value).is_some();
    }

    fn object(&mut self, object: Map<String, Value>) -> Value {
        Value::Object(object)
    }
}

/// A value that keeps the order of members, duplicates, and the notation of numbers.
#[derive(Debug, PartialEq)]
pub enum DocumentNode {
    /// Null, a boolean or a string.
    Plain,
    Number(String),
    Array(Vec<DocumentNode>),
    Object(Vec<(String, DocumentNode)>),
}

/// Builds nodes.
pub struct Nodes;

impl Builder for Nodes {
    type Built = DocumentNode;
    type Object = Vec<(String, DocumentNode)>;

    fn null(&mut self) -> DocumentNode {
        DocumentNode::Plain
    }

    fn boolean(&mut self, _: bool) -> DocumentNode {
        DocumentNode::Plain
    }

    fn number(&mut self, literal: &str) -> Option<DocumentNode> {
        Some(DocumentNode::Number(literal.to_owned()))
    }

    fn string(&mut self, _: String) -> DocumentNode {
        DocumentNode::Plain
    }

    fn array(&mut self, elements: Vec<DocumentNode>) -> DocumentNode {
        DocumentNode::Array(elements)
    }

    fn member(&mut self, object: &mut Vec<(String, DocumentNode)>, key: String, value: DocumentNode) {
        object.push((key, value));
    }

    fn object(&mut self, object: Vec<(String, DocumentNode)>) -> DocumentNode {
        DocumentNode::Object(object)
    }
}

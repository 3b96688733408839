//! Compiles the JSON of a schema to nodes.

// upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/apiserver/schema/convert.go
// upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/apiserver/validation/validation.go

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use atoll_cel::regexp;
use serde_json::{Map, Value};

use crate::embedded;
use crate::formats::Format;
use crate::limits;
use crate::node::{Check, Extra, Flags, ListType, Node, NodeId, Property, Rest, Types, ValidationRule};
use crate::pattern::Pattern;
use crate::prune;
use crate::schema::Schema;

/// Upstream compiles a schema in two ways, which differ in details.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum CompileMode {
    /// For objects: unknown formats are ignored, and int-or-string has two types.
    #[default]
    Objects,
    /// For the defaults in the schema itself: formats are kept, and int-or-string accepts any type.
    Defaults,
}

/// Compiles a schema and prunes its defaults.
pub(crate) fn schema(source: Option<&Value>, preserves: bool, mode: CompileMode) -> Schema {
    let mut compiler = Compiler { mode, ..Compiler::default() };
    let root = compiler.value(source.unwrap_or(&Value::Null), false);
    let mut nodes = compiler.nodes.into_boxed_slice();
    if mode == CompileMode::Objects {
        cut_defaults(&mut nodes);
    }
    Schema { nodes, root, preserves, rules: OnceLock::new(), patterns: compiler.patterns_size }
}

fn cut_defaults(nodes: &mut [Node]) {
    for index in 0..nodes.len() {
        let Some(mut default) = nodes[index].extra.as_mut().and_then(|extra| extra.default.take()) else {
            continue;
        };
        if default.is_object() || default.is_array() {
            let node = &nodes[index];
            // Invalid metadata is dropped.
            let _ = embedded::coerce(nodes, node, &mut default, node.is(Flags::EMBEDS), true);
            prune::cut(nodes, node, &mut default, node.is(Flags::EMBEDS));
        }
        if let Some(extra) = &mut nodes[index].extra {
            extra.default = Some(default);
        }
    }
}

#[derive(Default)]
struct Compiler {
    nodes: Vec<Node>,
    /// Existing nodes by content.
    known: HashMap<Node, NodeId>,
    names: HashMap<String, Arc<str>>,
    patterns: HashMap<String, Arc<Pattern>>,
    /// Total size of the compiled patterns so far.
    patterns_size: u64,
    mode: CompileMode,
}

type Fields = Map<String, Value>;

fn text<'a>(fields: &'a Fields, name: &str) -> &'a str {
    fields.get(name).and_then(Value::as_str).unwrap_or_default()
}

fn flag(fields: &Fields, name: &str) -> bool {
    fields.get(name).and_then(Value::as_bool).unwrap_or_default()
}

fn list<'a>(fields: &'a Fields, name: &str) -> &'a [Value] {
    fields.get(name).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

impl Compiler {
    /// Compiles a schema to a node. `nested` is set below `allOf` and similar keywords.
    fn value(&mut self, schema: &Value, nested: bool) -> NodeId {
        let nothing = Map::new();
        let node = self.node(schema.as_object().unwrap_or(&nothing), nested);
        if let Some(id) = self.known.get(&node) {
            return *id;
        }
        let id = NodeId(u32::try_from(self.nodes.len()).unwrap_or(u32::MAX));
        self.nodes.push(node.clone());
        self.known.insert(node, id);
        id
    }

    fn name(&mut self, name: &str) -> Arc<str> {
        if let Some(known) = self.names.get(name) {
            return known.clone();
        }
        let shared: Arc<str> = Arc::from(name);
        self.names.insert(name.to_owned(), shared.clone());
        shared
    }

    fn texts(&mut self, fields: &Fields, name: &str) -> Box<[Arc<str>]> {
        list(fields, name).iter().filter_map(Value::as_str).map(|name| self.name(name)).collect()
    }

    fn node(&mut self, fields: &Fields, nested: bool) -> Node {
        let mut node = Node::default();
        let int_or_string = flag(fields, "x-kubernetes-int-or-string");
        node.types = Types::named(text(fields, "type"));
        if int_or_string && self.mode == CompileMode::Objects {
            node.types = Types::INTEGER.with(Types::STRING);
        }
        let flags = &mut node.flags;
        flags.set(Flags::NULLABLE, flag(fields, "nullable"));
        flags.set(Flags::PRESERVES, flag(fields, "x-kubernetes-preserve-unknown-fields"));
        flags.set(Flags::EMBEDS, flag(fields, "x-kubernetes-embedded-resource"));
        flags.set(Flags::INT_OR_STRING, int_or_string);
        flags.set(Flags::ATOMIC_MAP, text(fields, "x-kubernetes-map-type") == "atomic");
        if let Some(properties) = fields.get("properties").and_then(Value::as_object) {
            node.flags.set(Flags::HAS_PROPERTIES, true);
            let properties = properties
                .iter()
                .map(|(name, schema)| Property { name: self.name(name), node: self.value(schema, nested) });
            // Sorted, because the map is sorted.
            node.properties = properties.collect();
        }
        node.items =
            fields.get("items").filter(|items| items.is_object()).map(|items| self.value(items, nested));
        node.rest = match fields.get("additionalProperties") {
            _ if nested && self.mode == CompileMode::Defaults => Rest::Unspecified,
            None | Some(Value::Null) => Rest::Unspecified,
            Some(Value::Bool(true)) => Rest::Allowed,
            Some(Value::Bool(false)) => Rest::Forbidden,
            Some(schema) => Rest::Node(self.value(schema, nested)),
        };
        node.checks = self.checks(fields, node.types);
        node.extra = self.extra(fields);
        self.sum_up(&mut node);
        node
    }

    /// Sets the flags that summarise the nodes below.
    fn sum_up(&self, node: &mut Node) {
        let children = node.properties.iter().map(|property| property.node);
        let children = children.chain(node.items).chain(node.rest.node());
        let mut flags = node.flags;
        flags.set(Flags::HOLDS_EMBEDDED, node.is(Flags::EMBEDS));
        flags.set(Flags::HOLDS_LISTS, node.list() != ListType::Atomic);
        flags.set(Flags::HOLDS_RULES, node.extra.as_ref().is_some_and(|extra| !extra.rules.is_empty()));
        for child in children {
            let child = &self.nodes[child.0 as usize];
            flags.set(Flags::FILLS, child.is(Flags::FILLS) || child.default_value().is_some());
            for inherited in [Flags::HOLDS_EMBEDDED, Flags::HOLDS_LISTS, Flags::HOLDS_RULES] {
                flags.set(inherited, child.is(inherited));
            }
        }
        node.flags = flags;
    }

    fn extra(&mut self, fields: &Fields) -> Option<Box<Extra>> {
        let list_type = fields.get("x-kubernetes-list-type").and_then(Value::as_str);
        let extra = Extra {
            default: fields.get("default").filter(|default| !default.is_null()).cloned(),
            list: match list_type {
                Some("set") => ListType::Set,
                Some("map") => ListType::Map,
                _ => ListType::Atomic,
            },
            has_list_type: list_type.is_some(),
            keys: self.texts(fields, "x-kubernetes-list-map-keys"),
            rules: list(fields, "x-kubernetes-validations").iter().map(rule).collect(),
        };
        (extra != Extra::default()).then(|| Box::new(extra))
    }

    fn nested(&mut self, fields: &Fields, name: &str) -> Option<Box<[NodeId]>> {
        let parts = list(fields, name);
        (!parts.is_empty()).then(|| parts.iter().map(|part| self.value(part, true)).collect())
    }

    /// The checks, in upstream's order.
    fn checks(&mut self, fields: &Fields, types: Types) -> Box<[Check]> {
        let mut checks = Vec::new();
        let float = |name: &str| fields.get(name).and_then(Value::as_f64);
        let count = |name: &str| fields.get(name).and_then(Value::as_i64);
        checks.extend(self.nested(fields, "anyOf").map(Check::AnyOf));
        checks.extend(self.nested(fields, "oneOf").map(Check::OneOf));
        checks.extend(self.nested(fields, "allOf").map(Check::AllOf));
        let not = fields.get("not").filter(|not| not.is_object());
        checks.extend(not.map(|not| Check::Not(self.value(not, true))));
        checks.extend(count("maxLength").map(Check::MaxLength));
        checks.extend(count("minLength").map(Check::MinLength));
        let pattern = text(fields, "pattern");
        if !pattern.is_empty() {
            checks.push(Check::Pattern(self.pattern(pattern)));
        }
        let format = text(fields, "format");
        let mut known = Format::named(format, types);
        if known == Format::Unknown && self.mode == CompileMode::Defaults {
            // Strings are checked against the format whatever the type is.
            known = Format::named(format, Types::STRING);
        }
        if !format.is_empty() && (known != Format::Unknown || self.mode == CompileMode::Defaults) {
            checks.push(Check::Format(known, self.name(format)));
        }
        checks.extend(float("multipleOf").map(Check::MultipleOf));
        let exclusive = flag(fields, "exclusiveMinimum");
        checks.extend(float("minimum").map(|bound| Check::Minimum { bound, exclusive }));
        let exclusive = flag(fields, "exclusiveMaximum");
        checks.extend(float("maximum").map(|bound| Check::Maximum { bound, exclusive }));
        checks.extend(count("minItems").map(Check::MinItems));
        checks.extend(count("maxItems").map(Check::MaxItems));
        checks.extend(flag(fields, "uniqueItems").then_some(Check::UniqueItems));
        let values = list(fields, "enum");
        if !values.is_empty() {
            checks.push(Check::Enum(values.into()));
        }
        checks.extend(count("minProperties").map(Check::MinProperties));
        checks.extend(count("maxProperties").map(Check::MaxProperties));
        let required = self.texts(fields, "required");
        if !required.is_empty() {
            checks.push(Check::Required(required));
        }
        checks.into()
    }

    fn pattern(&mut self, source: &str) -> Arc<Pattern> {
        if let Some(known) = self.patterns.get(source) {
            return known.clone();
        }
        // Only definitions from before there was a limit can exceed it.
        let size = regexp::size(source).unwrap_or_default();
        let total = self.patterns_size.saturating_add(size);
        let pattern = Arc::new(match total {
            _ if total > limits::COMPILED => Pattern::refused(source),
            _ if total > limits::KEEP_COMPILED => Pattern::shared(source),
            _ => Pattern::new(source),
        });
        if total <= limits::COMPILED {
            self.patterns_size = total;
        }
        self.patterns.insert(source.to_owned(), pattern.clone());
        pattern
    }
}

fn rule(rule: &Value) -> ValidationRule {
    let field = |name: &str| rule.get(name).and_then(Value::as_str).unwrap_or_default().into();
    ValidationRule {
        rule: field("rule"),
        message: field("message"),
        message_expression: field("messageExpression"),
        reason: rule.get("reason").and_then(Value::as_str).map(Into::into),
        field_path: field("fieldPath"),
        optional_old_self: rule.get("optionalOldSelf").and_then(Value::as_bool),
    }
}

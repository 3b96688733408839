//! The nodes of a compiled schema, and their public view.

// upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/apiserver/schema/structural.go

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use serde_json::Value;

use crate::formats::Format;
use crate::pattern::Pattern;

/// The index of a node in its schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct NodeId(pub u32);

/// The types that a value may have, one bit each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Types(u8);

impl Types {
    pub const OBJECT: Types = Types(1);
    pub const ARRAY: Types = Types(1 << 1);
    pub const STRING: Types = Types(1 << 2);
    pub const INTEGER: Types = Types(1 << 3);
    pub const NUMBER: Types = Types(1 << 4);
    pub const BOOLEAN: Types = Types(1 << 5);

    /// Names in the order of messages.
    const NAMES: [(Types, &'static str); 6] = [
        (Types::OBJECT, "object"),
        (Types::ARRAY, "array"),
        (Types::INTEGER, "integer"),
        (Types::STRING, "string"),
        (Types::NUMBER, "number"),
        (Types::BOOLEAN, "boolean"),
    ];

    pub fn named(name: &str) -> Types {
        Types::NAMES.iter().find(|(_, known)| *known == name).map_or(Types(0), |(types, _)| *types)
    }

    pub fn with(self, other: Types) -> Types {
        Types(self.0 | other.0)
    }

    pub fn has(self, other: Types) -> bool {
        self.0 & other.0 != 0
    }

    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The names, separated by commas.
    pub fn text(self) -> String {
        let names: Vec<&str> =
            Types::NAMES.iter().filter(|(types, _)| self.has(*types)).map(|(_, name)| *name).collect();
        names.join(",")
    }

    /// The name of the type if there is exactly one.
    pub fn single(self) -> Option<&'static str> {
        Types::NAMES.iter().find(|(types, _)| *types == self).map(|(_, name)| *name)
    }
}

/// Boolean properties of a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Flags(u16);

impl Flags {
    pub const NULLABLE: Flags = Flags(1);
    pub const PRESERVES: Flags = Flags(1 << 1);
    pub const EMBEDS: Flags = Flags(1 << 2);
    pub const INT_OR_STRING: Flags = Flags(1 << 3);
    pub const ATOMIC_MAP: Flags = Flags(1 << 4);
    /// A node below has a default.
    pub const FILLS: Flags = Flags(1 << 5);
    /// This node or one below is an embedded resource.
    pub const HOLDS_EMBEDDED: Flags = Flags(1 << 6);
    /// This node or one below is a set or map list.
    pub const HOLDS_LISTS: Flags = Flags(1 << 7);
    /// There is `properties`, even if empty.
    pub const HAS_PROPERTIES: Flags = Flags(1 << 8);
    /// This node or one below has rules.
    pub const HOLDS_RULES: Flags = Flags(1 << 9);

    pub fn set(&mut self, other: Flags, on: bool) {
        if on {
            self.0 |= other.0;
        }
    }

    pub fn has(self, other: Flags) -> bool {
        self.0 & other.0 != 0
    }
}

/// `additionalProperties`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum Rest {
    /// Not specified.
    #[default]
    Unspecified,
    /// `true`.
    Allowed,
    /// `false`.
    Forbidden,
    /// A schema.
    Node(NodeId),
}

impl Rest {
    pub fn node(self) -> Option<NodeId> {
        match self {
            Rest::Node(id) => Some(id),
            _ => None,
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Property {
    pub name: Arc<str>,
    pub node: NodeId,
}

/// The list type (`x-kubernetes-list-type`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ListType {
    /// Atomic, or not specified.
    #[default]
    Atomic,
    Set,
    Map,
}

/// One check. The order is that of upstream.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Check {
    AnyOf(Box<[NodeId]>),
    OneOf(Box<[NodeId]>),
    AllOf(Box<[NodeId]>),
    Not(NodeId),
    MaxLength(i64),
    MinLength(i64),
    Pattern(Arc<Pattern>),
    Format(Format, Arc<str>),
    MultipleOf(f64),
    Minimum { bound: f64, exclusive: bool },
    Maximum { bound: f64, exclusive: bool },
    MinItems(i64),
    MaxItems(i64),
    UniqueItems,
    Enum(Box<[Value]>),
    MinProperties(i64),
    MaxProperties(i64),
    Required(Box<[Arc<str>]>),
}

/// Rarely used properties of a node.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Extra {
    pub default: Option<Value>,
    pub list: ListType,
    /// Whether a list type is specified.
    pub has_list_type: bool,
    pub keys: Box<[Arc<str>]>,
    pub rules: Box<[ValidationRule]>,
}

/// One of `x-kubernetes-validations`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ValidationRule {
    pub rule: Box<str>,
    pub message: Box<str>,
    pub message_expression: Box<str>,
    pub reason: Option<Box<str>>,
    pub field_path: Box<str>,
    pub optional_old_self: Option<bool>,
}

/// The schema of one value.
#[derive(Clone, Debug, Default)]
pub(crate) struct Node {
    pub types: Types,
    pub flags: Flags,
    pub rest: Rest,
    pub items: Option<NodeId>,
    /// Sorted by name.
    pub properties: Box<[Property]>,
    pub checks: Box<[Check]>,
    pub extra: Option<Box<Extra>>,
}

impl Node {
    pub fn property(&self, name: &str) -> Option<NodeId> {
        let found = self.properties.binary_search_by(|property| property.name.as_ref().cmp(name));
        found.ok().map(|index| self.properties[index].node)
    }

    pub fn default_value(&self) -> Option<&Value> {
        self.extra.as_ref()?.default.as_ref()
    }

    pub fn list(&self) -> ListType {
        self.extra.as_ref().map_or(ListType::Atomic, |extra| extra.list)
    }

    pub fn keys(&self) -> &[Arc<str>] {
        self.extra.as_ref().map_or(&[], |extra| &extra.keys)
    }

    pub fn is(&self, flag: Flags) -> bool {
        self.flags.has(flag)
    }
}

/// Nodes with equal contents are equal.
impl PartialEq for Node {
    fn eq(&self, other: &Node) -> bool {
        self.types == other.types
            && self.flags == other.flags
            && self.rest == other.rest
            && self.items == other.items
            && self.properties == other.properties
            && self.checks == other.checks
            && self.extra == other.extra
    }
}

impl Eq for Node {}

impl Hash for Node {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.types, self.flags, self.rest, self.items).hash(state);
        for property in &self.properties {
            property.name.hash(state);
            property.node.hash(state);
        }
        for check in &self.checks {
            std::mem::discriminant(check).hash(state);
        }
        self.keys().len().hash(state);
    }
}

/// The schema of one value for other crates, which merge, print or compare objects.
#[derive(Clone, Copy)]
pub struct Shape<'s> {
    pub(crate) nodes: &'s [Node],
    pub(crate) node: &'s Node,
}

/// The treatment of fields that are not among the properties.
#[derive(Clone, Copy)]
pub enum Additional<'s> {
    /// Not specified: they are pruned, unless unknown fields are preserved.
    Unspecified,
    Allowed,
    Forbidden,
    /// The object is a map with values of this schema.
    Shape(Shape<'s>),
}

impl<'s> Shape<'s> {
    pub(crate) fn at(&self, id: NodeId) -> Shape<'s> {
        Shape { nodes: self.nodes, node: &self.nodes[id.0 as usize] }
    }

    /// `object`, `array`, …; `None` for int-or-string, and if not specified.
    pub fn type_name(&self) -> Option<&'static str> {
        self.node.types.single()
    }

    /// Whether this is `x-kubernetes-int-or-string`.
    pub fn is_int_or_string(&self) -> bool {
        self.node.is(Flags::INT_OR_STRING)
    }

    pub fn is_nullable(&self) -> bool {
        self.node.is(Flags::NULLABLE)
    }

    /// Whether unknown fields are preserved.
    pub fn preserves_unknown_fields(&self) -> bool {
        self.node.is(Flags::PRESERVES)
    }

    /// Whether this is an embedded resource with its own metadata.
    pub fn is_embedded_resource(&self) -> bool {
        self.node.is(Flags::EMBEDS)
    }

    /// Whether a map or struct is atomic in server-side apply.
    pub fn is_atomic(&self) -> bool {
        self.node.is(Flags::ATOMIC_MAP)
    }

    /// The list type; `None` if not specified.
    pub fn list_type(&self) -> Option<ListType> {
        let extra = self.node.extra.as_ref()?;
        extra.has_list_type.then_some(extra.list)
    }

    /// The key fields of a map list.
    pub fn list_map_keys(&self) -> impl Iterator<Item = &'s str> + use<'s> {
        self.node.keys().iter().map(AsRef::as_ref)
    }

    pub fn default(&self) -> Option<&'s Value> {
        self.node.default_value()
    }

    pub fn items(&self) -> Option<Shape<'s>> {
        Some(self.at(self.node.items?))
    }

    pub fn property(&self, name: &str) -> Option<Shape<'s>> {
        Some(self.at(self.node.property(name)?))
    }

    /// The properties, ordered by name.
    pub fn properties(&self) -> impl Iterator<Item = (&'s str, Shape<'s>)> + use<'s> {
        let shape = *self;
        shape.node.properties.iter().map(move |property| (property.name.as_ref(), shape.at(property.node)))
    }

    pub fn additional(&self) -> Additional<'s> {
        match self.node.rest {
            Rest::Unspecified => Additional::Unspecified,
            Rest::Allowed => Additional::Allowed,
            Rest::Forbidden => Additional::Forbidden,
            Rest::Node(id) => Additional::Shape(self.at(id)),
        }
    }
}

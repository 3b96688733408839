//! The parts of a compiled schema, and how others see them.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use serde_json::Value;

use crate::formats::Format;
use crate::pattern::Pattern;

/// The place of a node in its schema.
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

    /// In the order in which messages name them.
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

    /// The names with commas between.
    pub fn text(self) -> String {
        let names: Vec<&str> =
            Types::NAMES.iter().filter(|(types, _)| self.has(*types)).map(|(_, name)| *name).collect();
        names.join(",")
    }

    /// The only type, if it is one.
    pub fn single(self) -> Option<&'static str> {
        Types::NAMES.iter().find(|(types, _)| *types == self).map(|(_, name)| *name)
    }
}

/// What a node says with yes or no.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Flags(u16);

impl Flags {
    pub const NULLABLE: Flags = Flags(1);
    pub const PRESERVES: Flags = Flags(1 << 1);
    pub const EMBEDS: Flags = Flags(1 << 2);
    pub const INT_OR_STRING: Flags = Flags(1 << 3);
    pub const ATOMIC_MAP: Flags = Flags(1 << 4);
    /// Something below has a default.
    pub const FILLS: Flags = Flags(1 << 5);
    /// Something here or below is an embedded resource.
    pub const HOLDS_EMBEDDED: Flags = Flags(1 << 6);
    /// A list here or below is a set or a map.
    pub const HOLDS_LISTS: Flags = Flags(1 << 7);
    /// There are `properties`, even if none.
    pub const HAS_PROPERTIES: Flags = Flags(1 << 8);
    /// A rule is here or below.
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
    /// Nothing was said.
    #[default]
    Unsaid,
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

/// A list that is more than a row of values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ListType {
    /// One value, or nothing was said.
    #[default]
    Atomic,
    Set,
    Map,
}

/// One condition. The order is that in which upstream asks.
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

/// What few nodes have.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Extra {
    pub default: Option<Value>,
    pub list: ListType,
    /// Whether a list type was said at all.
    pub has_list_type: bool,
    pub keys: Box<[Arc<str>]>,
    pub rules: Box<[Rule]>,
}

/// One of `x-kubernetes-validations`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Rule {
    pub rule: Box<str>,
    pub message: Box<str>,
    pub message_expression: Box<str>,
    pub reason: Option<Box<str>>,
    pub field_path: Box<str>,
    pub optional_old_self: Option<bool>,
}

/// What a schema says about one value.
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

/// Two nodes that say the same are one.
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

/// What a schema says about one value, for whoever merges, prints or compares objects.
#[derive(Clone, Copy)]
pub struct Shape<'s> {
    pub(crate) nodes: &'s [Node],
    pub(crate) node: &'s Node,
}

/// What becomes of fields that are not among the properties.
#[derive(Clone, Copy)]
pub enum Additional<'s> {
    /// Nothing was said: they are dropped, unless unknown fields are kept.
    Unsaid,
    Allowed,
    Forbidden,
    /// They look like this: the object is a map.
    Shape(Shape<'s>),
}

impl<'s> Shape<'s> {
    pub(crate) fn at(&self, id: NodeId) -> Shape<'s> {
        Shape { nodes: self.nodes, node: &self.nodes[id.0 as usize] }
    }

    /// `object`, `array`, …; nothing for an integer or a text, and where nothing was said.
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

    /// Whether fields that the schema does not know are kept.
    pub fn preserves_unknown_fields(&self) -> bool {
        self.node.is(Flags::PRESERVES)
    }

    /// Whether this is a whole object, with metadata of its own.
    pub fn is_embedded_resource(&self) -> bool {
        self.node.is(Flags::EMBEDS)
    }

    /// Whether a map or a struct is one value when it is applied.
    pub fn is_atomic(&self) -> bool {
        self.node.is(Flags::ATOMIC_MAP)
    }

    /// How a list is told to be merged; nothing where the schema does not say.
    pub fn list_type(&self) -> Option<ListType> {
        let extra = self.node.extra.as_ref()?;
        extra.has_list_type.then_some(extra.list)
    }

    /// The fields that tell the items of a map apart.
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

    /// The properties by name, in order.
    pub fn properties(&self) -> impl Iterator<Item = (&'s str, Shape<'s>)> + use<'s> {
        let shape = *self;
        shape.node.properties.iter().map(move |property| (property.name.as_ref(), shape.at(property.node)))
    }

    pub fn additional(&self) -> Additional<'s> {
        match self.node.rest {
            Rest::Unsaid => Additional::Unsaid,
            Rest::Allowed => Additional::Allowed,
            Rest::Forbidden => Additional::Forbidden,
            Rest::Node(id) => Additional::Shape(self.at(id)),
        }
    }
}

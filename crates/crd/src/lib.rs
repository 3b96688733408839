//! CustomResourceDefinitions: schemas, defaults, validation, columns and scale of custom objects, without
//! I/O.
//!
//! ```text
//! CustomResourceDefinition ─ Definition::compile ─ versions ─ Version ─┬ schema: Arc<Schema>
//!                            (once per distinct spec)                 ├ columns, selectable fields
//!                                                                     └ status, scale
//! request ─ Schema::read ─ apply_defaults ─ registry ─ Version::validate_create / validate_update ─ store
//!           │ prune          defaults                 │ value       keywords of the schema
//!           │ nulls                                   │ embedded    metadata of embedded resources
//!           └ metadata                                ├ lists       unique items of sets and maps
//!                                                     └ rules       expressions, under a budget
//! response ─ Column::cell, Scale::read, Definition::convert
//! limits    memory limits of compiled definitions, estimated before compilation
//! publish   OpenAPI from the definition's JSON, because a compiled schema has no descriptions
//! ```
//!
//! A schema is an array of nodes, and equal parts are stored once. Validation first checks only whether an
//! object is valid, without allocation; the errors are found by a second, slower pass in upstream's order and
//! with upstream's messages.

mod apply_defaults;
mod columns;
mod compile;
mod correlate;
mod definition;
mod embedded;
pub mod field_path;
mod formats;
pub mod limits;
mod lists;
mod node;
mod object_path;
mod path;
mod pattern;
mod prune;
pub mod publish;
pub mod rules;
mod scale;
mod schema;
pub mod validate_defaults;
mod validate_object;
mod validate_value;

pub use columns::Column;
pub use definition::{Definition, Names, Selectable, Version};
pub use formats::knows_format;
pub use node::{Additional, ListType, Shape};
pub use path::JsonPath;
pub use pattern::Pattern;
pub use scale::{Scale, ScaleError};
pub use schema::{Origin, Schema};
pub use validate_object::ValidationResult;

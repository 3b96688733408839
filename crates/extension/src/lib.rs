//! Everything that a CustomResourceDefinition says about objects, without I/O.
//!
//! ```text
//! CustomResourceDefinition ─ Definition::compile ─ versions ─ Version ─┬ schema: Arc<Schema>
//!                            (once per distinct spec)                 ├ columns, selectable fields
//!                                                                     └ status, scale
//! request ─ Schema::read ─ Schema::fill ─ registry ─ Schema::validate_create / validate_update ─ store
//!           │ prune          defaults                 │ check       keywords of the schema
//!           │ nulls                                   │ embedded    metadata inside of objects
//!           └ metadata                                ├ lists       sets and maps have no item twice
//!                                                     └ rules       expressions, under a budget
//! answer ── Version::cells, Scale::read, Definition::convert
//! limits    what a definition may take when it is compiled, estimated before it is
//! publish   OpenAPI from the definition's own JSON: a compiled schema holds no descriptions
//! ```
//!
//! A schema is a row of nodes: equal parts are kept once, so that the hundredth string costs nothing. Checks first ask
//! only whether an object is valid, which allocates nothing; what exactly is wrong is found out by a second, slower
//! walk in upstream's order and words.

mod check;
mod columns;
mod compile;
mod correlate;
pub mod defaults;
mod definition;
mod embedded;
pub mod field_path;
mod fill;
mod formats;
pub mod limits;
mod lists;
mod node;
mod path;
mod pattern;
mod place;
mod prune;
pub mod publish;
pub mod rules;
mod scale;
mod schema;
mod validate;

pub use columns::Column;
pub use definition::{Definition, Names, Selectable, Version};
pub use formats::knows_format;
pub use node::{Additional, ListType, Shape};
pub use path::JsonPath;
pub use pattern::Pattern;
pub use scale::{Scale, ScaleError};
pub use schema::{Origin, Schema};
pub use validate::Findings;

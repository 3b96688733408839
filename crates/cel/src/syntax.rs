//! From text to a tree: tokens, grammar, macros.

mod diagnose;
mod lexer;
mod literal;
mod macros;
mod parser;
pub mod tree;

pub use parser::parse;

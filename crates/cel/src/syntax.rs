//! From text to a tree: tokens, grammar, macros.

mod diagnose;
mod grammar;
mod lexer;
mod literal;
mod macros;
mod parser;
pub mod tree;
mod words;

pub use parser::parse;

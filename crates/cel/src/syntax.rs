//! The parser: lexer, grammar and macros.

mod diagnose;
mod grammar;
mod lexer;
mod literal;
mod macros;
mod parser;
mod token_names;
pub mod tree;

pub use parser::parse;

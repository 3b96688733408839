//! `kubernetes.regex`: what a pattern finds.

use super::arguments::{int, part, text};
use super::costs::{estimate_find, find as find_cost};
use super::{Function, Library, Overload};
use crate::error::Error;
use crate::value::Value;

pub static LIBRARY: Library = Library {
    name: "kubernetes.regex",
    functions: &[
        Function {
            name: "find",
            overloads: &[Overload::new("string_find_string", "string.(string) -> string", find)
                .costs(find_cost, estimate_find)],
        },
        Function {
            name: "findAll",
            overloads: &[
                Overload::new("string_find_all_string", "string.(string) -> list(string)", find_all)
                    .costs(find_cost, estimate_find),
                Overload::new("string_find_all_string_int", "string.(string, int) -> list(string)", find_all)
                    .costs(find_cost, estimate_find),
            ],
        },
    ],
    types: &[],
};

//! Costs of patterns beyond upstream's charges.
//!
//! Upstream charges nothing for compiling a pattern and charges matching by the length of the pattern as
//! written. That is too little for repetitions: `[ab]{800}` has as many states as if it were written out.
//! Ordinary patterns have no extra cost.

// upstream: github.com/google/cel-go/interpreter/runtimecost.go

use crate::cost::standard;
use crate::regexp;
use crate::value::Value;

/// Compiled size up to which compilation is free, for example `\pL+`.
const FREE_COMPILED_SIZE: u64 = 64 << 10;
/// Bytes of a compiled pattern per unit of cost.
const COMPILED_BYTES_PER_COST: u64 = 32;
/// Product of pattern and string size per unit of cost: a state takes about 64 bytes, and a unit of cost pays
/// for about 64 transitions.
const MATCHED_SIZE_PER_COST: u64 = 64 * 64;
/// Extra cost up to which a match is free. Many such matches take long, but evaluation can be cancelled
/// between them.
const FREE_MATCH_COST: u64 = 1000;

/// Returns the extra cost of a call with a dynamic pattern, charged before the pattern is compiled.
pub fn compile_cost(function: &str, arguments: &[Value<'_>]) -> u64 {
    let ("matches" | "find" | "findAll", Some(Value::String(pattern))) = (function, arguments.get(1)) else {
        return 0;
    };
    let size = regexp::size(pattern).unwrap_or_default().min(regexp::MAX_COMPILED_SIZE);
    (size.saturating_sub(FREE_COMPILED_SIZE) / COMPILED_BYTES_PER_COST)
        .saturating_add(match_cost(function, arguments, 1, size))
}

/// Returns the extra cost of matching a pattern of this size. `charged` is upstream's charge, which is 1 for
/// `matches(text, pattern)` regardless of the string.
pub fn match_cost(function: &str, arguments: &[Value<'_>], charged: u64, size: u64) -> u64 {
    let text = arguments[0].as_str().map_or(0, str::len) as u64;
    let states = size.saturating_mul(text) / MATCHED_SIZE_PER_COST;
    let written = match function {
        "matches" => standard::matches(arguments, None),
        _ => 0,
    };
    states.max(written).saturating_sub(charged).saturating_sub(FREE_MATCH_COST)
}

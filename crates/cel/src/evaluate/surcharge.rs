//! What patterns cost beyond what upstream charges for them. Upstream's library compiles a pattern in no time and takes as long
//! to match it as it is written, which is true of none that repeats a part of itself: `[ab]{800}` has as many states as if it
//! were written out. Patterns that people write cost nothing more.

use crate::cost::standard;
use crate::regexp;
use crate::value::Value;

/// Patterns up to this size, compiled, cost nothing more to compile: such as `\pL+`.
const FREE: u64 = 64 << 10;
/// A pattern of this size that is compiled costs one.
const COMPILED_FOR_ONE: u64 = 32;
/// A pattern and a text whose sizes multiply to this cost one: there is a state in about 64 bytes, and a unit of cost pays for
/// about as many steps from one state to the next.
const MATCHED_FOR_ONE: u64 = 64 * 64;
/// Up to this a match costs nothing more. Many such matches take long, but they can be ended between two of them.
const UNCHARGED: u64 = 1000;

/// What a call with a pattern that is not a constant costs besides, before it is compiled.
pub fn of_pattern(function: &str, arguments: &[Value<'_>]) -> u64 {
    let ("matches" | "find" | "findAll", Some(Value::String(pattern))) = (function, arguments.get(1)) else {
        return 0;
    };
    let size = regexp::size(pattern).unwrap_or_default().min(regexp::LARGEST);
    (size.saturating_sub(FREE) / COMPILED_FOR_ONE).saturating_add(of_match(function, arguments, 1, size))
}

/// What it costs besides to look for a pattern of this size in a text, if `charged` is what upstream charges. Upstream charges
/// 1 for `matches(text, pattern)`, whatever the text.
pub fn of_match(function: &str, arguments: &[Value<'_>], charged: u64, size: u64) -> u64 {
    let text = arguments[0].as_str().map_or(0, str::len) as u64;
    let states = size.saturating_mul(text) / MATCHED_FOR_ONE;
    let written = match function {
        "matches" => standard::matches(arguments, None),
        _ => 0,
    };
    states.max(written).saturating_sub(charged).saturating_sub(UNCHARGED)
}

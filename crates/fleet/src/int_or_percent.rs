//! Numbers that may be percentages of a total, such as `maxUnavailable`.

use serde_json::Value;

/// Returns the number of an integer or percentage such as `25%`, of a total.
pub fn resolve(value: &Value, total: i64, round_up: bool) -> Option<i64> {
    if let Some(number) = value.as_i64() {
        return Some(number.max(0));
    }
    let percent: i64 = value.as_str()?.strip_suffix('%')?.parse().ok()?;
    let hundredths = percent.max(0).checked_mul(total.max(0))?;
    Some(if round_up { (hundredths + 99) / 100 } else { hundredths / 100 })
}

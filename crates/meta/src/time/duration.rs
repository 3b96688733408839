//! Spans of time, as Go reads and prints them and as kubectl shows them.

/// A duration as Go prints it: `1h0m0s`, `1.5s`, `250ms`, `0s`.
pub fn format_duration(nanos: i64) -> String {
    const SECOND: u64 = 1_000_000_000;
    let sign = if nanos < 0 { "-" } else { "" };
    let size = nanos.unsigned_abs();
    if size == 0 {
        return "0s".to_owned();
    }
    if size < SECOND {
        let (unit, name) = match size {
            0..1_000 => (1, "ns"),
            1_000..1_000_000 => (1_000, "µs"),
            _ => (1_000_000, "ms"),
        };
        return format!("{sign}{}{name}", with_fraction(size, unit));
    }
    let minutes = size / (60 * SECOND);
    let seconds = with_fraction(size % (60 * SECOND), SECOND);
    match (minutes / 60, minutes % 60) {
        (0, 0) => format!("{sign}{seconds}s"),
        (0, minutes) => format!("{sign}{minutes}m{seconds}s"),
        (hours, minutes) => format!("{sign}{hours}h{minutes}m{seconds}s"),
    }
}

/// Reads a span as Go does, in nanoseconds: `1h30m`, `-1.5s`, `0`.
pub fn parse_duration(text: &str) -> Option<i64> {
    let (negative, mut rest) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    if rest == "0" {
        return Some(0);
    }
    if rest.is_empty() {
        return None;
    }
    let mut total: u64 = 0;
    while !rest.is_empty() {
        let digits = rest.len() - rest.trim_start_matches(|at: char| at.is_ascii_digit()).len();
        let (whole, after) = rest.split_at(digits);
        let mut fraction = "";
        rest = after;
        if let Some(after) = rest.strip_prefix('.') {
            let digits = after.len() - after.trim_start_matches(|at: char| at.is_ascii_digit()).len();
            (fraction, rest) = after.split_at(digits);
        }
        if whole.is_empty() && fraction.is_empty() {
            return None;
        }
        let length = rest.find(|at: char| at == '.' || at.is_ascii_digit()).unwrap_or(rest.len());
        let unit: u64 = match &rest[..length] {
            "ns" => 1,
            "us" | "µs" | "μs" => 1_000,
            "ms" => 1_000_000,
            "s" => 1_000_000_000,
            "m" => 60_000_000_000,
            "h" => 3_600_000_000_000,
            _ => return None,
        };
        rest = &rest[length..];
        let whole: u64 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
        let mut part = whole.checked_mul(unit)?;
        if !fraction.is_empty() {
            // Digits beyond what fits do not count.
            let fraction = &fraction[..fraction.len().min(18)];
            let digits: u64 = fraction.parse().ok()?;
            part =
                part.checked_add((digits as f64 * (unit as f64 / 10f64.powi(fraction.len() as i32))) as u64)?;
        }
        total = total.checked_add(part)?;
        if total > 1 << 63 {
            return None;
        }
    }
    match negative {
        true => Some((total as i64).wrapping_neg()),
        false => i64::try_from(total).ok(),
    }
}

/// `size / unit` with as many digits after the point as needed; `unit` is a power of ten.
fn with_fraction(size: u64, unit: u64) -> String {
    let whole = size / unit;
    let rest = size % unit;
    if rest == 0 {
        return whole.to_string();
    }
    let width = unit.ilog10() as usize;
    let fraction = format!("{rest:0width$}");
    format!("{whole}.{}", fraction.trim_end_matches('0'))
}

/// How old something is, as columns of tables show it: `42s`, `5m10s`, `3h`, `2d4h`, `5y`.
pub fn human_duration(seconds: i64) -> String {
    // A clock that is a second behind is no reason to call a time invalid.
    if seconds < -1 {
        return "<invalid>".to_owned();
    }
    if seconds < 0 {
        return "0s".to_owned();
    }
    let (minutes, hours) = (seconds / 60, seconds / 3600);
    let pair = |large: i64, large_name: &str, small: i64, small_name: &str| {
        if small == 0 {
            format!("{large}{large_name}")
        } else {
            format!("{large}{large_name}{small}{small_name}")
        }
    };
    match hours {
        _ if seconds < 120 => format!("{seconds}s"),
        _ if minutes < 10 => pair(minutes, "m", seconds % 60, "s"),
        _ if minutes < 180 => format!("{minutes}m"),
        0..8 => pair(hours, "h", minutes % 60, "m"),
        8..48 => format!("{hours}h"),
        48..192 => pair(hours / 24, "d", hours % 24, "h"),
        192..17_520 => format!("{}d", hours / 24),
        17_520..70_080 => pair(hours / 24 / 365, "y", hours / 24 % 365, "d"),
        _ => format!("{}y", hours / 24 / 365),
    }
}

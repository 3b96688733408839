//! The language of cron: `*/5 8-18 * * mon-fri`, `@daily`, `@every 90m`.

use atoll_meta::quote::quote;

/// The names of the zones that Go's own database has, which upstream's programs carry with them.
const TIME_ZONES: &str = include_str!("../../data/time_zones.txt");

/// What a field of a schedule may hold.
struct Field {
    low: i64,
    high: i64,
    names: &'static [&'static str],
}

const FIELDS: [Field; 5] = [
    Field { low: 0, high: 59, names: &[] },
    Field { low: 0, high: 23, names: &[] },
    Field { low: 1, high: 31, names: &[] },
    Field {
        low: 1,
        high: 12,
        names: &["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"],
    },
    Field { low: 0, high: 6, names: &["sun", "mon", "tue", "wed", "thu", "fri", "sat"] },
];

/// Checks a schedule.
///
/// # Errors
///
/// The first thing that is wrong, in upstream's words.
pub(super) fn parse(text: &str) -> Result<(), String> {
    let mut text = text;
    if text.starts_with("TZ=") || text.starts_with("CRON_TZ=") {
        let (zone, rest) = text
            .split_once(' ')
            .ok_or("invalid schedule format: runtime error: slice bounds out of range [:-1]")?;
        let zone = zone.split_once('=').map_or("", |(_, zone)| zone);
        if !matches!(zone, "" | "UTC" | "Local") && !is_time_zone(zone) {
            return Err(format!("provided bad location {zone}: unknown time zone {zone}"));
        }
        text = rest.trim();
    }
    if text.starts_with('@') {
        return descriptor(text);
    }
    let parts: Vec<&str> = text.split_whitespace().collect();
    if parts.len() != FIELDS.len() {
        return Err(format!("expected exactly 5 fields, found {}: [{}]", parts.len(), parts.join(" ")));
    }
    for (part, field) in parts.iter().zip(&FIELDS) {
        for range in part.split(',').filter(|range| !range.is_empty()) {
            check_range(range, field)?;
        }
    }
    Ok(())
}

fn descriptor(text: &str) -> Result<(), String> {
    const NAMES: &[&str] = &["@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"];
    if NAMES.contains(&text) {
        return Ok(());
    }
    match text.strip_prefix("@every ") {
        Some(every) => duration(every).map_err(|reason| format!("failed to parse duration {text}: {reason}")),
        None => Err(format!("unrecognized descriptor: {text}")),
    }
}

/// One of the ranges of a field: `5`, `1-5`, `*`, each perhaps with a step.
fn check_range(range: &str, field: &Field) -> Result<(), String> {
    let parts: Vec<&str> = range.split('/').collect();
    let bounds: Vec<&str> = parts[0].split('-').collect();
    let (low, mut high) = if matches!(bounds[0], "*" | "?") {
        (field.low, field.high)
    } else {
        let low = number_or_name(bounds[0], field)?;
        match bounds.as_slice() {
            [_] => (low, low),
            [_, high] => (low, number_or_name(high, field)?),
            _ => return Err(format!("too many hyphens: {range}")),
        }
    };
    let step = match parts.as_slice() {
        [_] => 1,
        [_, step] => {
            let step = number(step)?;
            if bounds.len() == 1 {
                high = field.high;
            }
            step
        }
        _ => return Err(format!("too many slashes: {range}")),
    };
    if low < field.low {
        return Err(format!("beginning of range ({low}) below minimum ({}): {range}", field.low));
    }
    if high > field.high {
        return Err(format!("end of range ({high}) above maximum ({}): {range}", field.high));
    }
    if low > high {
        return Err(format!("beginning of range ({low}) beyond end of range ({high}): {range}"));
    }
    if step == 0 {
        return Err(format!("step of range should be a positive number: {range}"));
    }
    Ok(())
}

fn number_or_name(text: &str, field: &Field) -> Result<i64, String> {
    let lower = text.to_lowercase();
    match (field.low..).zip(field.names).find(|(_, name)| **name == lower) {
        Some((number, _)) => Ok(number),
        None => number(text),
    }
}

fn number(text: &str) -> Result<i64, String> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    let number = text.parse::<i64>().map_err(|_| {
        let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        let reason = if is_number { "value out of range" } else { "invalid syntax" };
        format!("failed to parse int from {text}: strconv.Atoi: parsing {}: {reason}", quote(text))
    })?;
    if number < 0 {
        return Err(format!("negative number ({number}) not allowed: {text}"));
    }
    Ok(number)
}

/// Checks a duration as Go reads it: numbers with units, such as `1h30m`.
fn duration(text: &str) -> Result<(), String> {
    const UNITS: &[(&str, f64)] = &[
        ("ns", 1e0),
        ("us", 1e3),
        ("µs", 1e3),
        ("μs", 1e3),
        ("ms", 1e6),
        ("s", 1e9),
        ("m", 60e9),
        ("h", 3600e9),
    ];
    let invalid = || format!("time: invalid duration {}", quote(text));
    let mut rest = text.strip_prefix(['+', '-']).unwrap_or(text);
    if rest == "0" {
        return Ok(());
    }
    if rest.is_empty() {
        return Err(invalid());
    }
    let mut total = 0.0;
    while !rest.is_empty() {
        let end = rest.find(|c: char| c != '.' && !c.is_ascii_digit()).unwrap_or(rest.len());
        let (digits, after) = rest.split_at(end);
        if digits.bytes().filter(|byte| *byte == b'.').count() > 1
            || !digits.bytes().any(|byte| byte.is_ascii_digit())
        {
            return Err(invalid());
        }
        let end = after.find(|c: char| c == '.' || c.is_ascii_digit()).unwrap_or(after.len());
        let (unit, next) = after.split_at(end);
        if unit.is_empty() {
            return Err(format!("time: missing unit in duration {}", quote(text)));
        }
        let Some((_, factor)) = UNITS.iter().find(|(name, _)| *name == unit) else {
            return Err(format!("time: unknown unit {} in duration {}", quote(unit), quote(text)));
        };
        total += digits.trim_end_matches('.').parse::<f64>().unwrap_or(f64::INFINITY) * factor;
        rest = next;
    }
    if total > 9_223_372_036_854_775_807.0 { Err(invalid()) } else { Ok(()) }
}

fn is_time_zone(name: &str) -> bool {
    TIME_ZONES.lines().any(|zone| zone == name)
}

/// What is wrong with the name of a time zone.
pub(super) fn time_zone(name: &str) -> Vec<String> {
    if name.is_empty() {
        return vec!["timeZone must be nil or non-empty string".to_owned()];
    }
    let unknown = || format!("unknown time zone {name}");
    let is_part = |part: &str| {
        (1..=14).contains(&part.len())
            && !matches!(part, "." | "..")
            && !part.starts_with('-')
            && part
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_' | b'+'))
    };
    if !name.split('/').all(is_part) {
        return vec![unknown()];
    }
    let mut details = Vec::new();
    if name.eq_ignore_ascii_case("local") {
        let detail = "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones";
        details.push(detail.to_owned());
    }
    if !matches!(name, "UTC" | "Local") && !is_time_zone(name) {
        details.push(unknown());
    }
    details
}

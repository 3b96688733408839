//! Numbers as Go's `x/text` formats them in English.

// upstream: github.com/google/cel-go/ext/formatting.go

/// Formats as `1,234.50`.
pub(super) fn fixed(number: f64, precision: i64) -> String {
    if let Some(special) = special(number) {
        return special.to_owned();
    }
    // Upstream truncates the minimum number of digits to 8 bits and the maximum to 16 bits.
    let (least, most) = (precision as u8, precision as i16);
    let size = number.abs();
    let digits = match usize::try_from(most) {
        Ok(most) => format!("{size:.most$}"),
        Err(_) => format!("{size}"),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((&digits, ""));
    let fraction = fraction.trim_end_matches('0');
    let mut out = String::from(if number < 0.0 { "-" } else { "" });
    for (index, digit) in whole.bytes().enumerate() {
        if index > 0 && (whole.len() - index) % 3 == 0 {
            out.push(',');
        }
        out.push(char::from(digit));
    }
    let length = fraction.len().max(usize::from(least));
    if length > 0 {
        out.push('.');
        out.push_str(&format!("{fraction:0<length$}"));
    }
    out
}

/// Formats as `1.234500×10⁰³`, padded to the precision. There are always six decimal places.
pub(super) fn scientific(number: f64, precision: i64) -> String {
    let formatted = match special(number) {
        Some(special) => special.to_owned(),
        None => {
            let digits = format!("{:.6e}", number.abs());
            let (mantissa, exponent) = digits.split_once('e').unwrap_or((&digits, "0"));
            let sign = if number < 0.0 { "-" } else { "" };
            let minus = if exponent.starts_with('-') { "⁻" } else { "" };
            let exponent = format!("{:0>2}", exponent.trim_start_matches('-'));
            let raised: String = exponent.bytes().map(|digit| RAISED[usize::from(digit - b'0')]).collect();
            format!("{sign}{mantissa}×10{minus}{raised}")
        }
    };
    let width = usize::from(precision as u16);
    format!("{formatted:>width$}")
}

const RAISED: [char; 10] = ['⁰', '¹', '²', '³', '⁴', '⁵', '⁶', '⁷', '⁸', '⁹'];

fn special(number: f64) -> Option<&'static str> {
    match number {
        _ if number.is_nan() => Some("NaN"),
        f64::INFINITY => Some("∞"),
        f64::NEG_INFINITY => Some("-∞"),
        _ => None,
    }
}

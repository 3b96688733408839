//! Suffixes of quantities.

// upstream: staging/src/k8s.io/apimachinery/pkg/api/resource/suffix.go

use super::Format;

#[derive(Clone, Copy)]
pub(super) struct Suffix {
    pub format: Format,
    /// Exponent of ten, or of two in binary format.
    pub exponent: i32,
}

const DECIMAL: [(&str, i32); 10] =
    [("n", -9), ("u", -6), ("m", -3), ("", 0), ("k", 3), ("M", 6), ("G", 9), ("T", 12), ("P", 15), ("E", 18)];
const BINARY: [(&str, i32); 6] = [("Ki", 10), ("Mi", 20), ("Gi", 30), ("Ti", 40), ("Pi", 50), ("Ei", 60)];

impl Suffix {
    pub fn parse(text: &str) -> Option<Suffix> {
        let named = |table: &[(&str, i32)], format| {
            table
                .iter()
                .find(|(name, _)| *name == text)
                .map(|(_, exponent)| Suffix { format, exponent: *exponent })
        };
        named(&DECIMAL, Format::DecimalSi).or_else(|| named(&BINARY, Format::BinarySi)).or_else(|| {
            let exponent: i64 = text.strip_prefix(['e', 'E'])?.parse().ok()?;
            // Upstream also truncates it to 32 bits.
            Some(Suffix { format: Format::DecimalExponent, exponent: exponent as i32 })
        })
    }
}

/// Returns the suffix for a power of ten. There is none beyond exa, and upstream then writes none.
pub(super) fn decimal(exponent: i32) -> &'static str {
    name_of(&DECIMAL, exponent)
}

/// Returns the suffix for a power of two.
pub(super) fn binary(exponent: i32) -> &'static str {
    name_of(&BINARY, exponent)
}

fn name_of(table: &[(&'static str, i32)], exponent: i32) -> &'static str {
    table.iter().find(|(_, other)| *other == exponent).map_or("", |(name, _)| name)
}

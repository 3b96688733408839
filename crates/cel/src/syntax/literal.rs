//! Unquoting of string and bytes literals.

// upstream: github.com/google/cel-go/parser/unescape.go

/// Returns the contents of a string literal, or the error. `\x` and octal escapes are bytes in bytes literals
/// and characters elsewhere.
pub fn unquote(literal: &str, bytes: bool) -> Result<Vec<u8>, &'static str> {
    const WRONG: &str = "unable to unescape string";
    let (raw, quoted) = match literal.strip_prefix(['r', 'R']) {
        Some(rest) => (true, rest),
        None => (false, literal),
    };
    let quotes =
        if quoted.len() >= 6 && (quoted.starts_with("'''") || quoted.starts_with("\"\"\"")) { 3 } else { 1 };
    let inside = quoted.get(quotes..quoted.len().saturating_sub(quotes)).ok_or(WRONG)?;
    if raw || !inside.contains('\\') {
        return Ok(inside.as_bytes().to_vec());
    }
    let mut content = Vec::with_capacity(inside.len());
    let mut rest = inside;
    while let Some(start) = rest.find('\\') {
        content.extend_from_slice(&rest.as_bytes()[..start]);
        let escape = rest.as_bytes().get(start + 1).copied().ok_or(WRONG)?;
        rest = &rest[start + 1..];
        let (digits, radix) = match escape {
            b'x' | b'X' => (2, 16),
            b'u' | b'U' if bytes => return Err(WRONG),
            b'u' => (4, 16),
            b'U' => (8, 16),
            b'0'..=b'3' => (3, 8),
            _ => {
                content.push(match escape {
                    b'a' => 0x07,
                    b'b' => 0x08,
                    b'f' => 0x0c,
                    b'n' => b'\n',
                    b'r' => b'\r',
                    b't' => b'\t',
                    b'v' => 0x0b,
                    b'\\' | b'\'' | b'"' | b'`' | b'?' => escape,
                    _ => return Err(WRONG),
                });
                rest = &rest[1..];
                continue;
            }
        };
        let skip = usize::from(radix == 16);
        let text = rest.get(skip..skip + digits).ok_or(WRONG)?;
        let number = u32::from_str_radix(text, radix).map_err(|_| WRONG)?;
        rest = &rest[skip + digits..];
        if bytes {
            content.push(number as u8);
        } else {
            let character = char::from_u32(number).ok_or("invalid unicode code point")?;
            content.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
        }
    }
    content.extend_from_slice(rest.as_bytes());
    Ok(content)
}

//! Patterns of image names.

/// Whether `text` matches `pattern`, in which `*` matches anything.
pub fn fits(pattern: &str, text: &str) -> bool {
    let mut pieces = pattern.split('*');
    let Some(mut rest) = text.strip_prefix(pieces.next().unwrap_or_default()) else { return false };
    let mut pieces = pieces.peekable();
    if pieces.peek().is_none() {
        return rest.is_empty();
    }
    while let Some(piece) = pieces.next() {
        if pieces.peek().is_none() {
            return rest.ends_with(piece);
        }
        match rest.find(piece) {
            Some(found) => rest = &rest[found + piece.len()..],
            None => return false,
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_matches_anything() {
        for (pattern, text, expected) in [
            ("nginx", "nginx", true),
            ("nginx", "nginx:1", false),
            ("nginx*", "nginx:1", true),
            ("nginx*", "library/nginx", false),
            ("*", "", true),
            ("*", "anything", true),
            ("*/app:*", "registry/app:2", true),
            ("*/app:*", "registry/application:2", false),
            ("a*b*c", "a-b-b-c", true),
            ("a*b*c", "a-c-b", false),
            ("ab*ba", "aba", false),
            ("", "", true),
            ("", "a", false),
        ] {
            assert_eq!(fits(pattern, text), expected, "{pattern} {text}");
        }
    }
}

//! Sanitizing of untrusted text: member clusters, agents and tenants supply strings that are displayed in
//! terminals and written to objects.

use std::borrow::Cow;

/// Whether a character controls a terminal or the direction of text.
pub fn is_control(character: char) -> bool {
    character.is_control()
        || matches!(character,
            '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' // Bidirectional text.
            | '\u{2028}' | '\u{2029}' | '\u{feff}')
}

/// Removes control characters, except for newlines and tabs, and truncates to a number of bytes.
pub fn clean(text: &str, most: usize) -> String {
    let mut out = String::with_capacity(text.len().min(most));
    for character in
        text.chars().filter(|character| matches!(character, '\n' | '\t') || !is_control(*character))
    {
        if out.len() + character.len_utf8() > most {
            break;
        }
        out.push(character);
    }
    out
}

/// Escapes control characters for one line of a terminal.
pub fn escaped(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_control) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for character in text.chars() {
        match is_control(character) {
            true => out.extend(character.escape_default()),
            false => out.push(character),
        }
    }
    Cow::Owned(out)
}

/// Escapes control characters for several lines of a terminal.
pub fn escaped_lines(text: &str) -> Cow<'_, str> {
    if !text.chars().any(|character| character != '\n' && is_control(character)) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(text.split('\n').map(escaped).collect::<Vec<_>>().join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_escaped() {
        for (text, one_line, cleaned) in [
            ("plain é 漢", "plain é 漢", "plain é 漢"),
            ("\u{1b}[2Jgone", "\\u{1b}[2Jgone", "[2Jgone"),
            ("\u{1b}]0;title\u{7}", "\\u{1b}]0;title\\u{7}", "]0;title"),
            ("a\r\nb\tc", "a\\r\\nb\\tc", "a\nb\tc"),
            ("\u{9b}31m", "\\u{9b}31m", "31m"),
            ("\u{202e}txt.exe", "\\u{202e}txt.exe", "txt.exe"),
            ("nul\0del\u{7f}", "nul\\u{0}del\\u{7f}", "nuldel"),
            ("", "", ""),
        ] {
            assert_eq!(escaped(text), one_line, "{text:?}");
            assert_eq!(clean(text, 100), cleaned, "{text:?}");
            assert_eq!(clean(&clean(text, 100), 100), cleaned);
        }
        assert_eq!(escaped_lines("a\nb\u{1b}c\n"), "a\nb\\u{1b}c\n");
    }

    #[test]
    fn text_is_cut_between_characters() {
        assert_eq!(clean("ééé", 5), "éé");
        assert_eq!(clean("abc", 0), "");
    }
}

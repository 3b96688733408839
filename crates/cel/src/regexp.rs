//! Patterns as RE2 has them, on top of a library with a slightly different language.

use regex::{Regex, RegexBuilder};

use crate::error::Error;

/// The most memory that a compiled pattern may take.
const SIZE: usize = 4 << 20;
/// The most often that something may be repeated.
const REPEATS: u32 = 1000;

/// Compiles a pattern.
///
/// # Errors
///
/// If it is none.
pub fn compile(pattern: &str) -> Result<Regex, Error> {
    let wrong = || Error::new(format!("error parsing regexp: {pattern}"));
    let translated = translate(pattern).ok_or_else(wrong)?;
    RegexBuilder::new(&translated).size_limit(SIZE).dfa_size_limit(SIZE).build().map_err(|_| wrong())
}

/// The same pattern in the other language: Perl's classes mean ASCII, classes have no operators, `\Q` quotes.
fn translate(pattern: &str) -> Option<String> {
    let mut out = String::with_capacity(pattern.len() + 16);
    let mut rest = pattern.chars().peekable();
    // Within a class, and whether anything is in it yet.
    let mut class: Option<bool> = None;
    while let Some(character) = rest.next() {
        let inside = class.is_some();
        if let Some(started) = &mut class {
            let first = !*started;
            *started = true;
            match character {
                ']' if !first => {
                    class = None;
                    out.push(']');
                    continue;
                }
                ']' => {
                    out.push_str("\\]");
                    continue;
                }
                '[' if rest.peek() != Some(&':') => {
                    out.push_str("\\[");
                    continue;
                }
                '[' => {
                    // A class by name.
                    out.push('[');
                    for named in rest.by_ref() {
                        out.push(named);
                        if named == ']' {
                            break;
                        }
                    }
                    continue;
                }
                '&' | '~' => {
                    out.push('\\');
                    out.push(character);
                    continue;
                }
                '-' if rest.peek() == Some(&'-') => {
                    out.push_str("\\-");
                    continue;
                }
                _ => {}
            }
        }
        match character {
            '\\' => {
                let escaped = rest.next()?;
                match escaped {
                    'd' => out.push_str(if inside { "0-9" } else { "[0-9]" }),
                    'w' => out.push_str(if inside { "0-9A-Za-z_" } else { "[0-9A-Za-z_]" }),
                    's' => out.push_str(if inside { "\\t\\n\\x0C\\r " } else { "[\\t\\n\\x0C\\r ]" }),
                    'D' => out.push_str("[^0-9]"),
                    'W' => out.push_str("[^0-9A-Za-z_]"),
                    'S' => out.push_str("[^\\t\\n\\x0C\\r ]"),
                    'b' | 'B' if !inside => {
                        out.push_str("(?-u:\\");
                        out.push(escaped);
                        out.push(')');
                    }
                    'Q' if !inside => {
                        let mut quoted = String::new();
                        while let Some(next) = rest.next() {
                            if next == '\\' && rest.peek() == Some(&'E') {
                                rest.next();
                                break;
                            }
                            quoted.push(next);
                        }
                        out.push_str(&regex::escape(&quoted));
                    }
                    // Back references, and the ends that only the other language has.
                    '1'..='9' | 'Z' | 'G' | '<' | '>' | 'U' | 'u' => return None,
                    _ => {
                        out.push('\\');
                        out.push(escaped);
                    }
                }
            }
            '[' => {
                out.push('[');
                if rest.peek() == Some(&'^') {
                    out.push('^');
                    rest.next();
                }
                class = Some(false);
            }
            '{' if !inside => {
                let ahead: String = rest.clone().take_while(|next| *next != '}').collect();
                let closed = rest.clone().nth(ahead.chars().count()) == Some('}');
                let repeat = closed && ahead.starts_with(|first: char| first.is_ascii_digit()) && {
                    ahead.chars().all(|next| next.is_ascii_digit() || next == ',')
                        && ahead.matches(',').count() <= 1
                };
                match repeat {
                    true => {
                        let bounds = ahead.split(',').filter(|bound| !bound.is_empty());
                        if bounds
                            .into_iter()
                            .any(|bound| bound.parse::<u32>().is_ok_and(|bound| bound > REPEATS))
                        {
                            return None;
                        }
                        out.push('{');
                    }
                    // A brace that repeats nothing is itself.
                    false => out.push_str("\\{"),
                }
            }
            '}' if !inside && !open_repeat(&out) => out.push_str("\\}"),
            _ => out.push(character),
        }
    }
    Some(out)
}

/// Whether a repetition is open at the end of what was written.
fn open_repeat(out: &str) -> bool {
    let tail = out.rsplit('{').next().unwrap_or("");
    tail.len() < out.len() && !out[..out.len() - tail.len() - 1].ends_with('\\') && !tail.contains('}')
}

#[cfg(test)]
mod tests {
    use super::compile;

    #[test]
    fn patterns_mean_what_they_mean_to_go() {
        for (pattern, text, matches) in [
            (r"^\d+$", "123", true),
            (r"^\d+$", "١٢", false),
            (r"^[\w-]+$", "a_b-c", true),
            (r"^[a&&b]$", "&", true),
            (r"^[]a]+$", "]a", true),
            (r"^[[a]$", "[", true),
            (r"\Qa.b\E", "a.b", true),
            (r"\Qa.b\E", "axb", false),
            (r"a{2}", "aa", true),
            (r"a{,2}", "a{,2}", true),
            (r"^a{2,3}$", "aaaa", false),
            (r"^[[:alpha:]]+$", "abc", true),
            (r"\bfoo\b", "a foo b", true),
            ("}", "}", true),
        ] {
            assert_eq!(compile(pattern).map(|it| it.is_match(text)), Ok(matches), "{pattern} {text}");
        }
        for wrong in ["(", "[a", r"\1", "a{1001}", "*", r"\Z"] {
            assert!(compile(wrong).is_err(), "{wrong}");
        }
    }
}

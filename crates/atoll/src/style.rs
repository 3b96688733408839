//! Colours for output on a terminal.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::io::IsTerminal;
use std::sync::OnceLock;

use atoll_meta::text::{escaped, escaped_lines, is_control};
use clap::ValueEnum;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum ColorMode {
    /// On a terminal, unless NO_COLOR is set or TERM is dumb.
    #[value(help = None)]
    #[default]
    Auto,
    Always,
    Never,
}

/// The colour mode from the command line.
static COLOR_MODE: OnceLock<ColorMode> = OnceLock::new();

/// Sets the colour mode. Only the first call has an effect.
pub fn set_color_mode(when: ColorMode) {
    let _ = COLOR_MODE.set(when);
}

impl ColorMode {
    /// Reads the mode from unparsed arguments, because help and argument errors are coloured too.
    pub fn of<T: AsRef<OsStr>>(arguments: &[T]) -> ColorMode {
        let mut found = ColorMode::default();
        let mut texts = arguments.iter().filter_map(|argument| argument.as_ref().to_str());
        while let Some(text) = texts.next() {
            let value = match text.strip_prefix("--color=") {
                Some(value) => Some(value),
                None if text == "--color" => texts.next(),
                None if text == "--" => break,
                None => None,
            };
            found = value.and_then(|value| ColorMode::from_str(value, false).ok()).unwrap_or(found);
        }
        found
    }

    fn is_enabled(self, no_color: Option<&OsStr>, term: Option<&OsStr>, terminal: bool) -> bool {
        match self {
            ColorMode::Always => true,
            ColorMode::Never => false,
            // https://no-color.org: an empty value has no effect.
            ColorMode::Auto => {
                terminal && no_color.is_none_or(OsStr::is_empty) && term.is_none_or(|term| term != "dumb")
            }
        }
    }
}

/// The codes that [`Paint`] uses.
const CODES: [&str; 7] = ["0", "1", "2", "32", "33", "1;31", "1;36"];

/// Escapes all control characters except Atoll's own colours. Tabs stay, because completions have a tab
/// between a candidate and its description.
pub fn escape_control(text: &str) -> Cow<'_, str> {
    if !text.chars().any(|character| !matches!(character, '\n' | '\t') && is_control(character)) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    let mut rest = text;
    while let Some(start) = rest.find('\x1b') {
        out.push_str(&with_tabs(&rest[..start]));
        rest = &rest[start..];
        let code = rest.strip_prefix("\x1b[").and_then(|code| code.split_once('m')).map(|(code, _)| code);
        let length = match code.filter(|code| CODES.contains(code)) {
            Some(code) => "\x1b[m".len() + code.len(),
            None => 0,
        };
        match length {
            0 => out.push_str(&escaped("\x1b")),
            length => out.push_str(&rest[..length]),
        }
        rest = &rest[length.max(1)..];
    }
    out.push_str(&with_tabs(rest));
    Cow::Owned(out)
}

fn with_tabs(text: &str) -> String {
    text.split('\t').map(escaped_lines).collect::<Vec<_>>().join("\t")
}

/// Colours text if colours are enabled.
#[derive(Clone, Copy)]
pub struct Paint(bool);

impl Paint {
    #[cfg(test)]
    pub const PLAIN: Paint = Paint(false);

    pub fn stdout() -> Paint {
        Paint::on(std::io::stdout().is_terminal())
    }

    pub fn stderr() -> Paint {
        Paint::on(std::io::stderr().is_terminal())
    }

    fn on(terminal: bool) -> Paint {
        let when = COLOR_MODE.get().copied().unwrap_or_default();
        let variable = std::env::var_os;
        Paint(when.is_enabled(variable("NO_COLOR").as_deref(), variable("TERM").as_deref(), terminal))
    }

    pub fn heading(self, text: &str) -> String {
        self.with("1", text)
    }

    pub fn faint(self, text: &str) -> String {
        self.with("2", text)
    }

    pub fn error(self, text: &str) -> String {
        self.with("1;31", text)
    }

    pub fn warning(self, text: &str) -> String {
        if text.is_empty() { String::new() } else { self.with("33", text) }
    }

    pub fn hint(self, text: &str) -> String {
        self.with("1;36", text)
    }

    pub fn good(self, text: &str) -> String {
        self.with("32", text)
    }

    /// Colours a phase: ready in green, in progress in yellow.
    pub fn phase(self, text: &str) -> String {
        match text {
            "Ready" | "Active" | "Running" => self.with("32", text),
            "Deleting" | "Terminating" | "Pending" => self.with("33", text),
            _ => text.to_string(),
        }
    }

    fn with(self, code: &str, text: &str) -> String {
        match self.0 {
            true => format!("\x1b[{code}m{}\x1b[0m", escaped_lines(text)),
            false => text.to_string(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flag_overrides_environment_and_terminal() {
        for (when, no_color, term, terminal, expected) in [
            (ColorMode::Auto, None, Some("xterm"), true, true),
            (ColorMode::Auto, None, None, true, true),
            (ColorMode::Auto, None, Some("xterm"), false, false),
            (ColorMode::Auto, Some("1"), Some("xterm"), true, false),
            (ColorMode::Auto, Some(""), Some("xterm"), true, true),
            (ColorMode::Auto, None, Some("dumb"), true, false),
            (ColorMode::Always, Some("1"), Some("dumb"), false, true),
            (ColorMode::Never, None, Some("xterm"), true, false),
        ] {
            let found = when.is_enabled(no_color.map(OsStr::new), term.map(OsStr::new), terminal);
            assert_eq!(found, expected, "{when:?} {no_color:?} {term:?} {terminal}");
        }
    }

    #[test]
    fn flag_is_found_at_any_position() {
        let cases: [(&[&str], ColorMode); 7] = [
            (&["atoll", "workspace", "tree"], ColorMode::Auto),
            (&["atoll", "--color=always", "workspace", "tree"], ColorMode::Always),
            (&["atoll", "workspace", "tree", "--color", "never"], ColorMode::Never),
            (&["atoll", "--color", "never", "--color=always"], ColorMode::Always),
            (&["atoll", "--color=pink"], ColorMode::Auto),
            (&["atoll", "--color"], ColorMode::Auto),
            (&["atoll", "--", "--color=always"], ColorMode::Auto),
        ];
        for (arguments, expected) in cases {
            assert_eq!(ColorMode::of(arguments), expected, "{arguments:?}");
        }
    }

    #[test]
    fn unknown_escape_sequences_are_escaped() {
        for (text, expected) in [
            ("plain\n", "plain\n"),
            ("east\tin root\n\x07", "east\tin root\n\\u{7}"),
            ("\x1b[32mReady\x1b[0m\n", "\x1b[32mReady\x1b[0m\n"),
            ("a\x1b[2Jb", "a\\u{1b}[2Jb"),
            ("\x1b]0;title\x07", "\\u{1b}]0;title\\u{7}"),
            ("\x1b[8mhidden\x1b[0m", "\\u{1b}[8mhidden\x1b[0m"),
            ("\x1b", "\\u{1b}"),
            ("a\rb\u{9b}2J", "a\\rb\\u{9b}2J"),
        ] {
            assert_eq!(escape_control(text), expected, "{text:?}");
        }
        assert_eq!(Paint(true).error("\x1b[0m!"), "\x1b[1;31m\\u{1b}[0m!\x1b[0m");
    }

    #[test]
    fn plain_paint_leaves_text_unchanged() {
        assert_eq!(Paint::PLAIN.error("a") + &Paint::PLAIN.phase("Ready"), "aReady");
        assert_eq!(Paint(true).phase("Ready"), "\x1b[32mReady\x1b[0m");
    }
}

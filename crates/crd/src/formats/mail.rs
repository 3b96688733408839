//! Mail addresses as Go's `mail.ParseAddress` accepts them: plain, with a display name, or as the only one of
//! a group.

// Go standard library: src/net/mail/message.go

use std::net::IpAddr;

pub(super) fn is_address(text: &str) -> bool {
    let mut reader = Reader { rest: text };
    reader.address(true) == Some(1) && reader.skip_comments() && reader.rest.is_empty()
}

#[derive(Clone, Copy)]
struct Reader<'t> {
    rest: &'t str,
}

fn is_visible(character: char) -> bool {
    ('!'..='~').contains(&character) || !character.is_ascii()
}

fn is_atom(character: char) -> bool {
    is_visible(character) && !"()<>[]:;@\\,\"".contains(character)
}

impl Reader<'_> {
    fn skip_space(&mut self) {
        self.rest = self.rest.trim_start_matches([' ', '\t']);
    }

    fn take(&mut self, wanted: char) -> bool {
        match self.rest.strip_prefix(wanted) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    /// Parses an address; returns the number of addresses: one, or those of a group.
    fn address(&mut self, groups: bool) -> Option<usize> {
        self.skip_space();
        if self.rest.is_empty() {
            return None;
        }
        let begin = *self;
        if self.plain().is_some() {
            self.skip_space();
            if self.take('(') && !self.comment() {
                return None;
            }
            return Some(1);
        }
        *self = begin;
        if !self.rest.starts_with('<') {
            self.phrase()?;
        }
        self.skip_space();
        if groups && self.take(':') {
            return self.group();
        }
        (self.take('<') && self.plain().is_some() && self.take('>')).then_some(1)
    }

    fn group(&mut self) -> Option<usize> {
        self.skip_space();
        if self.take(';') {
            return self.skip_comments().then_some(0);
        }
        let mut count = 0;
        loop {
            self.skip_space();
            count += self.address(false)?;
            if !self.skip_comments() {
                return None;
            }
            if self.take(';') {
                return self.skip_comments().then_some(count);
            }
            if !self.take(',') {
                return None;
            }
        }
    }

    /// Parses `user@example.com`.
    fn plain(&mut self) -> Option<()> {
        self.skip_space();
        if self.rest.starts_with('"') {
            self.quoted().filter(|text| *text > 0)?;
        } else {
            self.atom(false)?;
        }
        if !self.take('@') {
            return None;
        }
        self.skip_space();
        if !self.take('[') {
            return self.atom(false);
        }
        let end = self.rest.find(']')?;
        self.rest[..end].parse::<IpAddr>().ok()?;
        self.rest = &self.rest[end + 1..];
        Some(())
    }

    fn atom(&mut self, lenient: bool) -> Option<()> {
        let end = self.rest.find(|character| !is_atom(character)).unwrap_or(self.rest.len());
        let atom = &self.rest[..end];
        if atom.is_empty()
            || (!lenient && (atom.starts_with('.') || atom.ends_with('.') || atom.contains("..")))
        {
            return None;
        }
        self.rest = &self.rest[end..];
        Some(())
    }

    fn phrase(&mut self) -> Option<()> {
        let mut words = 0;
        loop {
            if words > 0 && !self.skip_comments() {
                return None;
            }
            self.skip_space();
            if self.rest.is_empty() {
                return Some(());
            }
            let read = if self.rest.starts_with('"') { self.quoted().map(drop) } else { self.atom(true) };
            match read {
                Some(()) => words += 1,
                None => return (words > 0).then_some(()),
            }
        }
    }

    /// Parses a quoted string; returns its length in characters.
    fn quoted(&mut self) -> Option<usize> {
        let (mut escaped, mut count) = (false, 0);
        for (at, character) in self.rest.char_indices().skip(1) {
            let blank = matches!(character, ' ' | '\t');
            match character {
                _ if escaped => {
                    if !is_visible(character) && !blank {
                        return None;
                    }
                    escaped = false;
                    count += 1;
                }
                '"' => {
                    self.rest = &self.rest[at + 1..];
                    return Some(count);
                }
                '\\' => escaped = true,
                _ if is_visible(character) || blank => count += 1,
                _ => return None,
            }
        }
        None
    }

    fn skip_comments(&mut self) -> bool {
        self.skip_space();
        while self.take('(') {
            if !self.comment() {
                return false;
            }
            self.skip_space();
        }
        true
    }

    /// Skips the rest of a comment, which may be nested.
    fn comment(&mut self) -> bool {
        let (mut depth, mut escaped) = (1, false);
        for (at, character) in self.rest.char_indices() {
            match character {
                _ if escaped => escaped = false,
                '\\' => escaped = true,
                '(' => depth += 1,
                ')' => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                self.rest = &self.rest[at + 1..];
                return true;
            }
        }
        false
    }
}

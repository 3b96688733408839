//! Static tokens in upstream's CSV format: `token,user,uid,"group1,group2"`. The file is read once, at
//! startup.

// upstream: staging/src/k8s.io/apiserver/pkg/authentication/token/tokenfile/tokenfile.go

use std::collections::HashMap;
use std::fmt;
use std::str::FromStr;

use crate::User;

#[derive(Default)]
pub struct TokenFile {
    users: HashMap<String, User>,
    /// Warnings for the log.
    pub warnings: Vec<TokenFileWarning>,
}

/// An error in a token file. It never contains a token.
#[derive(Debug, PartialEq, Eq)]
pub enum TokenFileError {
    TooFewColumns {
        line: usize,
        columns: usize,
    },
    /// A quote within an unquoted column, or text after a closing quote.
    StrayQuote {
        line: usize,
    },
    UnclosedQuote {
        line: usize,
    },
}

/// A harmless problem in a token file.
#[derive(Debug, PartialEq, Eq)]
pub enum TokenFileWarning {
    EmptyToken {
        line: usize,
    },
    /// The later line wins.
    RepeatedToken {
        line: usize,
    },
}

impl TokenFile {
    pub fn user(&self, token: &str) -> Option<&User> {
        self.users.get(token)
    }
}

impl FromStr for TokenFile {
    type Err = TokenFileError;

    fn from_str(text: &str) -> Result<Self, TokenFileError> {
        let mut file = TokenFile::default();
        for Record { line, columns } in records(text)? {
            let count = columns.len();
            let mut columns = columns.into_iter();
            let (Some(token), Some(name), Some(uid)) = (columns.next(), columns.next(), columns.next())
            else {
                return Err(TokenFileError::TooFewColumns { line, columns: count });
            };
            if token.is_empty() {
                file.warnings.push(TokenFileWarning::EmptyToken { line });
                continue;
            }
            let groups = columns.next().unwrap_or_default();
            let groups = groups.split(',').filter(|group| !group.is_empty());
            let user = User::authenticated(name, uid, groups.map(str::to_string).collect());
            if file.users.insert(token, user).is_some() {
                file.warnings.push(TokenFileWarning::RepeatedToken { line });
            }
        }
        Ok(file)
    }
}

struct Record {
    /// The first line of the record.
    line: usize,
    columns: Vec<String>,
}

/// Parses CSV as Go does: a quoted column may contain commas, doubled quotes and line breaks; spaces are
/// significant, and empty lines are skipped. Unlike in Go, lines that start with `#` are skipped as well.
fn records(text: &str) -> Result<Vec<Record>, TokenFileError> {
    let mut records = Vec::new();
    let mut rest = text;
    let mut line = 1;
    while !rest.is_empty() {
        let end = rest.find('\n').map_or(rest.len(), |at| at + 1);
        let row = rest[..end].trim_end_matches(['\r', '\n']);
        if row.is_empty() || row.starts_with('#') {
            rest = &rest[end..];
            line += 1;
            continue;
        }
        let (columns, taken) = record(rest, line)?;
        records.push(Record { line, columns });
        line += rest[..taken].matches('\n').count();
        rest = &rest[taken..];
    }
    Ok(records)
}

/// Returns the columns of the first record, and its length with the line break.
fn record(text: &str, line: usize) -> Result<(Vec<String>, usize), TokenFileError> {
    let mut columns = Vec::new();
    let mut at = 0;
    loop {
        let rest = &text[at..];
        match rest.strip_prefix('"') {
            Some(quoted) => {
                let (column, length) = quoted_column(quoted).ok_or(TokenFileError::UnclosedQuote { line })?;
                columns.push(column);
                at += 1 + length;
            }
            None => {
                let length = rest.find([',', '\n']).unwrap_or(rest.len());
                let column = rest[..length].strip_suffix('\r').unwrap_or(&rest[..length]);
                if column.contains('"') {
                    return Err(TokenFileError::StrayQuote { line });
                }
                columns.push(column.to_string());
                at += length;
            }
        }
        let behind = &text[at..];
        if let Some(after) = behind.strip_prefix(',') {
            at = text.len() - after.len();
            continue;
        }
        let ended = behind.strip_prefix("\r\n").or_else(|| behind.strip_prefix('\n'));
        return match ended {
            Some(after) => Ok((columns, text.len() - after.len())),
            None if behind.is_empty() => Ok((columns, text.len())),
            None => Err(TokenFileError::StrayQuote { line }),
        };
    }
}

/// Returns the text before the closing quote, and the length including it.
fn quoted_column(text: &str) -> Option<(String, usize)> {
    let mut column = String::new();
    let mut at = 0;
    loop {
        let quote = at + text[at..].find('"')?;
        column.push_str(&text[at..quote]);
        at = quote + 1;
        if !text[at..].starts_with('"') {
            return Some((column, at));
        }
        column.push('"');
        at += 1;
    }
}

impl fmt::Display for TokenFileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TokenFileError::TooFewColumns { line, columns } => write!(
                f,
                "line {line} has {columns} columns; write at least token,user,uid and, if wanted, \"group1,group2\""
            ),
            TokenFileError::StrayQuote { line } => {
                write!(
                    f,
                    "line {line} has a quote in the middle of a column; quote all of it, and write \"\" for a quote"
                )
            }
            TokenFileError::UnclosedQuote { line } => write!(f, "line {line} has a quote that is not closed"),
        }
    }
}

impl std::error::Error for TokenFileError {}

impl fmt::Display for TokenFileWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TokenFileWarning::EmptyToken { line } => {
                write!(f, "line {line} has an empty token and is ignored")
            }
            TokenFileWarning::RepeatedToken { line } => {
                write!(f, "line {line} repeats the token of an earlier line and overrides it")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_become_users() {
        let text = "# comment\n\na,ann,1,\"dev,ops\"\nb,bob,2,dev\nc,cat,3\nd,\"d \"\"x\"\"\",4,\r\n\
                    e, eve,5,\"one, two\",more\nf,\"two\nlines\",6\n,nobody,7\na,amy,8,\n";
        let file: TokenFile = text.parse().expect("a token file");
        let groups = |token: &str| file.user(token).expect("a user").groups.join("|");
        let name = |token: &str| file.user(token).expect("a user").name.as_str();
        assert_eq!(groups("b"), "dev|system:authenticated");
        assert_eq!(groups("c"), "system:authenticated");
        assert_eq!((name("d"), groups("d").as_str()), ("d \"x\"", "system:authenticated"));
        // Spaces are significant, as upstream.
        assert_eq!((name("e"), groups("e").as_str()), (" eve", "one| two|system:authenticated"));
        assert_eq!((name("f"), file.user("f").expect("a user").uid.as_str()), ("two\nlines", "6"));
        assert_eq!((name("a"), groups("a").as_str()), ("amy", "system:authenticated"));
        assert!(file.user("").is_none());
        assert_eq!(
            file.warnings,
            [TokenFileWarning::EmptyToken { line: 10 }, TokenFileWarning::RepeatedToken { line: 11 }]
        );
        let several: TokenFile = "a,ann,1,\"dev,ops\"".parse().expect("a token file");
        assert_eq!(several.user("a").expect("a user").groups, ["dev", "ops", "system:authenticated"]);
    }

    #[test]
    fn errors_name_their_line() {
        let cases = [
            ("a,b,c\nx,y", TokenFileError::TooFewColumns { line: 2, columns: 2 }),
            ("a,\"b,c", TokenFileError::UnclosedQuote { line: 1 }),
            ("a,b,c\na,\"b\"x,c", TokenFileError::StrayQuote { line: 2 }),
            ("a,b \"x\",c", TokenFileError::StrayQuote { line: 1 }),
            ("a,\"b\n\",c\nx", TokenFileError::TooFewColumns { line: 3, columns: 1 }),
        ];
        for (text, expected) in cases {
            assert_eq!(text.parse::<TokenFile>().err(), Some(expected), "{text}");
        }
    }
}

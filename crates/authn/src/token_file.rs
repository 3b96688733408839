//! Static tokens in upstream's CSV form: `token,user,uid,"group1,group2"`.

use std::collections::HashMap;
use std::fmt;
use std::str::FromStr;

use crate::User;

#[derive(Default)]
pub struct TokenFile {
    users: HashMap<String, User>,
}

/// What is wrong with a token file. Never shows a token.
#[derive(Debug, PartialEq, Eq)]
pub enum TokenFileError {
    TooFewColumns { line: usize, columns: usize },
    EmptyToken { line: usize },
    UnclosedQuote { line: usize },
    DuplicateToken { line: usize },
}

impl TokenFile {
    pub fn user(&self, token: &str) -> Option<&User> {
        self.users.get(token)
    }
}

impl FromStr for TokenFile {
    type Err = TokenFileError;

    fn from_str(text: &str) -> Result<Self, TokenFileError> {
        let mut users = HashMap::new();
        for (index, row) in text.lines().enumerate() {
            let line = index + 1;
            if row.trim().is_empty() || row.starts_with('#') {
                continue;
            }
            let mut columns = columns(row).ok_or(TokenFileError::UnclosedQuote { line })?.into_iter();
            let (Some(token), Some(name), Some(uid)) = (columns.next(), columns.next(), columns.next())
            else {
                let columns = row.split(',').count();
                return Err(TokenFileError::TooFewColumns { line, columns });
            };
            if token.is_empty() {
                return Err(TokenFileError::EmptyToken { line });
            }
            let groups = columns.next().unwrap_or_default();
            let groups = groups.split(',').map(str::trim).filter(|group| !group.is_empty());
            let user = User::authenticated(name, uid, groups.map(str::to_string).collect());
            if users.insert(token, user).is_some() {
                return Err(TokenFileError::DuplicateToken { line });
            }
        }
        Ok(TokenFile { users })
    }
}

/// The columns of one CSV row; `None` if a quote is left open.
fn columns(row: &str) -> Option<Vec<String>> {
    let mut columns = vec![String::new()];
    let mut quoted = false;
    let mut characters = row.trim_end_matches('\r').chars().peekable();
    while let Some(character) = characters.next() {
        let column = columns.last_mut()?;
        match character {
            '"' if quoted && characters.peek() == Some(&'"') => {
                characters.next();
                column.push('"');
            }
            '"' => quoted = !quoted,
            ',' if !quoted => columns.push(String::new()),
            // Spaces around a column are not part of it.
            ' ' if !quoted && column.is_empty() => {}
            other => column.push(other),
        }
    }
    (!quoted).then_some(columns)
}

impl fmt::Display for TokenFileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TokenFileError::TooFewColumns { line, columns } => write!(
                f,
                "line {line} has {columns} columns; write at least token,user,uid and, if wanted, \"group1,group2\""
            ),
            TokenFileError::EmptyToken { line } => write!(f, "line {line} has an empty token"),
            TokenFileError::UnclosedQuote { line } => write!(f, "line {line} has a quote that is not closed"),
            TokenFileError::DuplicateToken { line } => {
                write!(f, "line {line} repeats the token of an earlier line")
            }
        }
    }
}

impl std::error::Error for TokenFileError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_become_users() {
        let file: TokenFile =
            "# comment\n\na, ann,1,\"dev,ops\"\nb,bob,2,dev\nc,cat,3\nd,\"d \"\"x\"\"\",4,\r\n"
                .parse()
                .unwrap();
        let groups = |token: &str| file.user(token).unwrap().groups.join(" ");
        assert_eq!(file.user("a").unwrap().name, "ann");
        assert_eq!(groups("a"), "dev ops system:authenticated");
        assert_eq!(groups("b"), "dev system:authenticated");
        assert_eq!(groups("c"), "system:authenticated");
        assert_eq!(file.user("d").unwrap().name, "d \"x\"");
        assert!(file.user("").is_none());
    }

    #[test]
    fn mistakes_are_named_by_line() {
        let cases = [
            ("a,b,c\nx,y", TokenFileError::TooFewColumns { line: 2, columns: 2 }),
            (",y,z", TokenFileError::EmptyToken { line: 1 }),
            ("a,\"b,c", TokenFileError::UnclosedQuote { line: 1 }),
            ("a,b,c\na,d,e", TokenFileError::DuplicateToken { line: 2 }),
        ];
        for (text, expected) in cases {
            assert_eq!(text.parse::<TokenFile>().err(), Some(expected), "{text}");
        }
    }
}

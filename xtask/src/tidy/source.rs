//! A minimal lexer that separates Rust code from comments and literals, and finds test code.

use std::ops::Range;

/// Returns the text with comments and literals replaced by spaces. Line numbers do not change.
pub fn code(text: &str) -> String {
    let characters: Vec<char> = text.chars().collect();
    let mut code = String::with_capacity(text.len());
    let mut position = 0;
    while position < characters.len() {
        let rest = &characters[position..];
        let after_word = position > 0 && is_word(characters[position - 1]);
        let length = skipped(rest, after_word);
        if length == 0 {
            code.push(rest[0]);
            position += 1;
            continue;
        }
        code.extend(rest[..length].iter().map(|character| if *character == '\n' { '\n' } else { ' ' }));
        position += length;
    }
    code
}

/// Returns the contents of the text literals, with their positions in the result of `code`.
pub fn literals(text: &str) -> Vec<(usize, String)> {
    let characters: Vec<char> = text.chars().collect();
    let mut literals = Vec::new();
    let (mut position, mut in_code) = (0, 0);
    while position < characters.len() {
        let rest = &characters[position..];
        let after_word = position > 0 && is_word(characters[position - 1]);
        let length = skipped(rest, after_word);
        let is_text = matches!(rest[0], '"' | 'r' | 'b' | 'c');
        if length > 0 && is_text {
            let whole: String = rest[..length].iter().collect();
            let opening = whole.find('"').map_or(0, |quote| quote + 1);
            let closing = whole.rfind('"').filter(|quote| *quote >= opening).unwrap_or(whole.len());
            literals.push((in_code, whole[opening..closing].to_owned()));
        }
        // Skipped characters are one space each in the code.
        in_code += if length > 0 { length } else { rest[0].len_utf8() };
        position += length.max(1);
    }
    literals
}

/// Returns the length of the comment or literal at the beginning of `rest`, or 0.
pub fn skipped(rest: &[char], after_word: bool) -> usize {
    match rest {
        ['/', '/', ..] => rest.iter().position(|character| *character == '\n').unwrap_or(rest.len()),
        ['/', '*', ..] => block_comment(rest),
        ['"', ..] => quoted(rest, '"'),
        // A lifetime has no closing quote.
        ['\'', '\\', ..] | ['\'', _, '\'', ..] => quoted(rest, '\''),
        ['r', '"' | '#', ..] if !after_word => raw(rest, 1),
        ['b' | 'c', 'r', '"' | '#', ..] if !after_word => raw(rest, 2),
        _ => 0,
    }
}

fn block_comment(rest: &[char]) -> usize {
    let (mut depth, mut position) = (0, 0);
    while position < rest.len() {
        match rest[position..] {
            ['/', '*', ..] => {
                depth += 1;
                position += 2;
            }
            ['*', '/', ..] => {
                depth -= 1;
                position += 2;
                if depth == 0 {
                    return position;
                }
            }
            _ => position += 1,
        }
    }
    rest.len()
}

fn quoted(rest: &[char], quote: char) -> usize {
    let mut position = 1;
    while position < rest.len() {
        match rest[position] {
            '\\' => position += 2,
            character if character == quote => return position + 1,
            _ => position += 1,
        }
    }
    rest.len()
}

/// Returns the length of a raw string with its hashes beginning at `start`; 0 for a raw identifier
/// (`r#type`).
fn raw(rest: &[char], start: usize) -> usize {
    let hashes = rest[start..].iter().take_while(|character| **character == '#').count();
    let opening = start + hashes;
    if rest.get(opening) != Some(&'"') {
        return 0;
    }
    let closes = |position: &usize| {
        let end = *position + 1 + hashes;
        rest[*position] == '"' && end <= rest.len() && rest[*position + 1..end].iter().all(|c| *c == '#')
    };
    let closing = (opening + 1..rest.len()).find(closes);
    closing.map_or(rest.len(), |position| position + 1 + hashes)
}

fn is_word(character: char) -> bool {
    character.is_alphanumeric() || character == '_'
}

/// Returns the positions of `word` in `code` where it is not part of a longer word.
pub fn words<'a>(code: &'a str, word: &'a str) -> impl Iterator<Item = usize> + 'a {
    code.match_indices(word).map(|(position, _)| position).filter(move |position| {
        let before = code[..*position].chars().next_back();
        let after = code[position + word.len()..].chars().next();
        let inside = |neighbour: Option<char>, edge: Option<char>| {
            neighbour.is_some_and(is_word) && edge.is_some_and(is_word)
        };
        !inside(before, word.chars().next()) && !inside(after, word.chars().next_back())
    })
}

/// Returns the blocks that are compiled for tests only, as byte ranges in `code`.
pub fn test_blocks(code: &str) -> Vec<Range<usize>> {
    let mut blocks = Vec::new();
    for (start, _) in code.match_indices("#[cfg(test)]") {
        // The block of `mod tests;` is in another file.
        let Some(opening) = code[start..].find(['{', ';']).map(|offset| start + offset) else { continue };
        let mut depth = 0_usize;
        for (offset, character) in code[opening..].char_indices() {
            match character {
                '{' => depth += 1,
                '}' => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                blocks.push(start..opening + offset + 1);
                break;
            }
        }
    }
    blocks
}

/// Returns the line number of the byte at `position`.
pub fn line(text: &str, position: usize) -> usize {
    text[..position].matches('\n').count() + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_literals_are_not_code() {
        let cases = [
            ("a // b\nc", "a     \nc"),
            ("a /* b /* c */ d */ e", "a                   e"),
            (r#"f("a\"b", c)"#, r"f(      , c)"),
            (r##"f(r#"a"b"#, c)"##, "f(        , c)"),
            (r#"f(br"a", b"c", d)"#, "f(     , b   , d)"),
            ("let r#type = '\"'; x", "let r#type =    ; x"),
            ("fn f<'a>(x: &'a str) {}", "fn f<'a>(x: &'a str) {}"),
            (r"match c { '\'' => 1, '\u{41}' => 2 }", "match c {      => 1,          => 2 }"),
            ("\"open", "     "),
            ("/* open", "       "),
        ];
        for (text, expected) in cases {
            assert_eq!(code(text), expected, "{text}");
        }
    }

    #[test]
    fn literals_have_the_positions_of_the_code() {
        let text = "// \"é\" é\nf(\"é\", 'x', b\"a\\\"b\", r#\"c\"#, \"\")";
        let (code, literals) = (code(text), literals(text));
        let contents: Vec<&str> = literals.iter().map(|(_, content)| content.as_str()).collect();
        assert_eq!(contents, ["é", "a\\\"b", "c", ""]);
        assert!(literals.iter().all(|(position, _)| line(&code, *position) == 2), "{literals:?}");
        assert_eq!(literals[0].0, code.find('(').unwrap() + 1);
    }

    #[test]
    fn only_whole_words_match() {
        assert_eq!(words("unsafe unsafe_code un unsafe{", "unsafe").collect::<Vec<_>>(), [0, 22]);
        assert_eq!(words("my_todo!() todo!()", "todo!").collect::<Vec<_>>(), [11]);
    }

    #[test]
    fn test_blocks_end_at_the_matching_brace() {
        let text =
            "fn a() {}\n#[cfg(test)]\nmod tests { fn b() { x } }\nfn c() {}\n#[cfg(test)]\nmod more;\n";
        let blocks: Vec<&str> = test_blocks(text).into_iter().map(|block| &text[block]).collect();
        assert_eq!(blocks, ["#[cfg(test)]\nmod tests { fn b() { x } }", "#[cfg(test)]\nmod more;"]);
    }

    #[test]
    fn line_numbers_start_at_one() {
        assert_eq!([line("a\nb", 0), line("a\nb", 2)], [1, 2]);
    }
}

//! Indents JSON by two spaces per level, without parsing it.

use crate::inflight::{NoRoom, OutputMemory, TextBuffer, make_text};

pub fn indent(json: &[u8], memory: &mut OutputMemory) -> Result<Vec<u8>, NoRoom> {
    make_text(memory, json.len() * 3 / 2, |out| write(json, out))
}

fn write(json: &[u8], out: &mut TextBuffer<'_>) -> Result<(), NoRoom> {
    let mut depth = 0;
    let (mut in_string, mut escaped) = (false, false);
    for (position, byte) in json.iter().copied().enumerate() {
        if in_string {
            out.push(byte)?;
            (in_string, escaped) = (escaped || byte != b'"', !escaped && byte == b'\\');
            continue;
        }
        match byte {
            b'"' => {
                in_string = true;
                out.push(byte)?;
            }
            b'{' | b'[' => {
                out.push(byte)?;
                depth += 1;
                if !matches!(json.get(position + 1), Some(b'}' | b']')) {
                    line(out, depth)?;
                }
            }
            b'}' | b']' => {
                depth -= 1;
                if !matches!(json.get(position.wrapping_sub(1)), Some(b'{' | b'[')) {
                    line(out, depth)?;
                }
                out.push(byte)?;
            }
            b',' => {
                out.push(byte)?;
                line(out, depth)?;
            }
            b':' => out.extend(b": ")?,
            other => out.push(other)?,
        }
    }
    Ok(())
}

fn line(out: &mut TextBuffer<'_>, depth: usize) -> Result<(), NoRoom> {
    out.push(b'\n')?;
    out.fill(b' ', 2 * depth)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indents_as_go_does() {
        let cases = [
            (r#"{}"#, "{}"),
            (r#"{"a":[]}"#, "{\n  \"a\": []\n}"),
            (
                r#"{"a":[1,"x:{,\"\\"],"b":{"c":null}}"#,
                "{\n  \"a\": [\n    1,\n    \"x:{,\\\"\\\\\"\n  ],\n  \"b\": {\n    \"c\": null\n  }\n}",
            ),
        ];
        for (compact, expected) in cases {
            let indented = indent(compact.as_bytes(), &mut OutputMemory::unlimited()).unwrap();
            assert_eq!(String::from_utf8(indented).unwrap(), expected);
        }
    }

    #[test]
    fn indentation_counts() {
        let nested = format!("{}{}1{}", "[".repeat(500), "1,".repeat(5000), "]".repeat(500));
        let indented = indent(nested.as_bytes(), &mut OutputMemory::unlimited()).unwrap();
        assert!(indented.len() > 400 * nested.len());
        assert_eq!(indent(nested.as_bytes(), &mut OutputMemory::fixed(indented.len())), Ok(indented));
        assert_eq!(indent(nested.as_bytes(), &mut OutputMemory::fixed(100 * nested.len())), Err(NoRoom));
    }
}

//! Indents JSON by two spaces per level, without parsing it.

pub fn indent(json: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(json.len() * 3 / 2);
    let mut depth = 0;
    let (mut in_string, mut escaped) = (false, false);
    for (position, byte) in json.iter().copied().enumerate() {
        if in_string {
            out.push(byte);
            (in_string, escaped) = (escaped || byte != b'"', !escaped && byte == b'\\');
            continue;
        }
        match byte {
            b'"' => {
                in_string = true;
                out.push(byte);
            }
            b'{' | b'[' => {
                out.push(byte);
                depth += 1;
                if !matches!(json.get(position + 1), Some(b'}' | b']')) {
                    line(&mut out, depth);
                }
            }
            b'}' | b']' => {
                depth -= 1;
                if !matches!(json.get(position.wrapping_sub(1)), Some(b'{' | b'[')) {
                    line(&mut out, depth);
                }
                out.push(byte);
            }
            b',' => {
                out.push(byte);
                line(&mut out, depth);
            }
            b':' => out.extend_from_slice(b": "),
            other => out.push(other),
        }
    }
    out
}

fn line(out: &mut Vec<u8>, depth: usize) {
    out.push(b'\n');
    out.resize(out.len() + 2 * depth, b' ');
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
            assert_eq!(String::from_utf8(indent(compact.as_bytes())).unwrap(), expected);
        }
    }
}

//! JSON as YAML.

use atoll_meta::json;

use crate::inflight::{NoRoom, OutputMemory, make_text};

pub fn of_json(stored: &[u8], memory: &mut OutputMemory) -> Result<Vec<u8>, NoRoom> {
    // The writer takes its time with deep indentation, so text that is far too long is refused before.
    let least = least_indentation(stored);
    memory.take(least)?;
    memory.give_back(least);
    let parsed = memory.take_parsed(stored)?;
    let value = json::parse(stored).map(|parsed| parsed.value).unwrap_or_default();
    let text = make_text(memory, stored.len(), |out| {
        // Values of JSON can always be written, so only memory can be missing.
        serde_saphyr::to_fmt_writer(out, &value).map_err(|_| NoRoom)
    });
    memory.give_back(parsed);
    text
}

/// Returns a number of bytes that the indentation takes at least. Every value but the first of a list or map
/// has its own line. Lists in maps are not indented further, so that there is one space per level on average.
fn least_indentation(json: &[u8]) -> usize {
    let (mut depth, mut least) = (0usize, 0usize);
    let (mut in_string, mut escaped) = (false, false);
    for byte in json {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = in_string,
            b'"' => in_string = !in_string,
            _ if in_string => {}
            b'[' | b'{' => depth += 1,
            b']' | b'}' => depth = depth.saturating_sub(1),
            b',' => least += depth.saturating_sub(1),
            _ => {}
        }
    }
    least
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn values_and_indentation_count() {
        let nested = format!("{}{}1{}", "[".repeat(500), "1,".repeat(5000), "]".repeat(500));
        let text = of_json(nested.as_bytes(), &mut OutputMemory::unlimited()).unwrap();
        let value: Value = json::parse(nested.as_bytes()).unwrap().value;
        assert_eq!(String::from_utf8(text.clone()).unwrap(), serde_saphyr::to_string(&value).unwrap());
        assert!(text.len() > 400 * nested.len());
        for most in [text.len() / 4, text.len() - 1] {
            assert_eq!(of_json(nested.as_bytes(), &mut OutputMemory::fixed(most)), Err(NoRoom));
        }
        assert_eq!(of_json(b"[1,1,1,1,1,1,1,1]", &mut OutputMemory::fixed(100)), Err(NoRoom));
    }

    #[test]
    fn indentation_is_not_overestimated() {
        for (open, close) in [("[", "]"), (r#"{"a":"#, "}"), (r#"{"a":["#, "]}"), (r#"[{"a":"#, "}]")] {
            for inner in [r#"[1,"2,{",3]"#, r#"{"a":1,"b\"[":2}"#] {
                let json = format!("{}{inner}{}", open.repeat(20), close.repeat(20));
                let text = of_json(json.as_bytes(), &mut OutputMemory::unlimited()).unwrap();
                let text = String::from_utf8(text).unwrap();
                let indentation: usize =
                    text.lines().skip(1).map(|line| line.len() - line.trim_start().len()).sum();
                let least = least_indentation(json.as_bytes());
                assert!(least > 0 && least <= indentation, "{least} of {indentation}: {text}");
            }
        }
    }
}

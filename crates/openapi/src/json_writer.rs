//! Incremental JSON output, so that no document is in memory as a tree.

use std::io::{self, Write};

use serde_json::Value;

/// Writes one object, whose members may be objects that are written incrementally themselves.
pub struct JsonWriter<'a> {
    out: &'a mut dyn Write,
    /// Whether the innermost object has a member already.
    has_members: bool,
}

impl<'a> JsonWriter<'a> {
    pub fn new(out: &'a mut dyn Write) -> io::Result<Self> {
        out.write_all(b"{")?;
        Ok(JsonWriter { out, has_members: false })
    }

    pub fn member(&mut self, name: &str, value: &Value) -> io::Result<()> {
        self.name(name)?;
        self.out.write_all(value.to_string().as_bytes())
    }

    /// Starts a member whose own members follow.
    pub fn open(&mut self, name: &str) -> io::Result<()> {
        self.name(name)?;
        self.has_members = false;
        self.out.write_all(b"{")
    }

    /// Ends the innermost object.
    pub fn close(&mut self) -> io::Result<()> {
        self.has_members = true;
        self.out.write_all(b"}")
    }

    fn name(&mut self, name: &str) -> io::Result<()> {
        if self.has_members {
            self.out.write_all(b",")?;
        }
        self.has_members = true;
        serde_json::to_writer(&mut *self.out, name)?;
        self.out.write_all(b":")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn members_form_one_document() {
        let mut out = Vec::new();
        let mut text = JsonWriter::new(&mut out).expect("memory");
        let steps = (|| {
            text.member("a", &json!([1]))?;
            text.open("b \"")?;
            text.open("none")?;
            text.close()?;
            text.member("c", &json!("d"))?;
            text.close()?;
            text.member("e", &json!(null))?;
            text.close()
        })();
        steps.expect("memory");
        let read: Value = serde_json::from_slice(&out).expect("JSON");
        assert_eq!(read, json!({ "a": [1], "b \"": { "none": {}, "c": "d" }, "e": null }));
    }
}

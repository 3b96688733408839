//! Parses the list of known differences.

use std::collections::BTreeMap;

/// Parses lines of the form `name → reason`.
pub fn parse(text: &str) -> Result<BTreeMap<String, String>, String> {
    let mut known = BTreeMap::new();
    for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let (name, reason) =
            line.split_once(" → ").ok_or_else(|| format!("{line:?} has no \" → \" and reason"))?;
        if known.insert(name.trim().to_string(), reason.trim().to_string()).is_some() {
            return Err(format!("{name:?} is listed twice"));
        }
    }
    Ok(known)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_has_a_reason() {
        let known = parse("# title\n\na case → the reason\n").unwrap();
        assert_eq!(known["a case"], "the reason");
        assert!(parse("a case\n").is_err());
        assert!(parse("a → b\na → c\n").is_err());
    }
}

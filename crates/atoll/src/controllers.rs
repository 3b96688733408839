//! Which controllers run, in the words of kube-controller-manager.

use std::str::FromStr;

/// `*`, names, and names with a minus before them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selection {
    words: Vec<String>,
}

impl Default for Selection {
    fn default() -> Self {
        Selection { words: vec!["*".into()] }
    }
}

impl Selection {
    /// Whether a controller that is on by default runs.
    pub fn has(&self, name: &str) -> bool {
        let said = self.words.iter().find_map(|word| match word.strip_prefix('-') {
            Some(off) if off == name => Some(false),
            None if word == name => Some(true),
            _ => None,
        });
        said.unwrap_or_else(|| self.words.iter().any(|word| word == "*"))
    }

    /// Whether any runs at all.
    pub fn any(&self) -> bool {
        self.words.iter().any(|word| !word.starts_with('-'))
    }
}

impl FromStr for Selection {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let words = match text {
            "true" => vec!["*".to_string()],
            "false" | "" => Vec::new(),
            list => list.split(',').map(|word| word.trim().to_string()).collect(),
        };
        Ok(Selection { words })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn controllers_are_chosen_as_upstream_does() {
        for (text, deployment, job, any) in [
            ("*", true, true, true),
            ("true", true, true, true),
            ("false", false, false, false),
            ("", false, false, false),
            ("*,-job", true, false, true),
            ("-job,*", true, false, true),
            ("deployment", true, false, true),
            ("deployment,job", true, true, true),
            ("-job", false, false, false),
            ("job,-job,*", true, true, true),
        ] {
            let selection: Selection = text.parse().expect("any text is a selection");
            let found = (selection.has("deployment"), selection.has("job"), selection.any());
            assert_eq!(found, (deployment, job, any), "{text}");
        }
    }
}

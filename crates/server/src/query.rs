//! The query of a request, decoded once.

// upstream: staging/src/k8s.io/apimachinery/pkg/runtime/conversion.go

use percent_encoding::percent_decode_str;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Query {
    pairs: Vec<(String, String)>,
}

impl Query {
    pub fn parse(raw: &str) -> Self {
        let decode =
            |text: &str| percent_decode_str(&text.replace('+', " ")).decode_utf8_lossy().into_owned();
        let pairs = raw.split('&').filter(|pair| !pair.is_empty()).map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            (decode(name), decode(value))
        });
        Query { pairs: pairs.collect() }
    }

    /// Returns the first value of `name`.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.pairs.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// Returns all values of `name`.
    pub fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.pairs.iter().filter(move |(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// Converts a query value to a bool as upstream does: absent, `0` and `false` are false, anything else is
    /// true.
    pub fn is_true(&self, name: &str) -> bool {
        self.boolean(name).unwrap_or(false)
    }

    pub fn boolean(&self, name: &str) -> Option<bool> {
        self.get(name).map(|value| !matches!(value.to_ascii_lowercase().as_str(), "0" | "false"))
    }

    pub fn is_empty(&self) -> bool {
        self.pairs.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_decoded() {
        let query = Query::parse("a=1&b=x%3Dy+z&a=2&c&watch=1&d=false&e=0");
        assert_eq!(query.get("a"), Some("1"));
        assert_eq!(query.all("a").collect::<Vec<_>>(), ["1", "2"]);
        assert_eq!(query.get("b"), Some("x=y z"));
        assert_eq!(query.get("c"), Some(""));
        assert_eq!(
            [query.is_true("watch"), query.is_true("c"), query.is_true("d"), query.is_true("e")],
            [true, true, false, false]
        );
        assert_eq!(query.get("missing"), None);
    }
}

//! Words that expressions cannot use as identifiers.

// upstream: github.com/google/cel-go/parser/parser.go
// upstream: staging/src/k8s.io/apiserver/pkg/cel/escaping.go

/// Literals and operators.
const KEYWORDS: [&str; 4] = ["true", "false", "null", "in"];

/// Reserved identifiers.
pub const RESERVED: [&str; 17] = [
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
];

/// Whether a name is reserved, as an identifier or as a word of the language.
pub fn is_reserved(name: &str) -> bool {
    KEYWORDS.contains(&name) || RESERVED.contains(&name)
}

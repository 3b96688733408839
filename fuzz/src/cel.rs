//! CEL expressions, and the texts that their functions parse.

use std::sync::LazyLock;

use atoll_cel::{Environment, Program, Type, Value, regexp};

use crate::{Accepted, lines, text as utf8};

/// Cost limit of an evaluation.
const LIMIT: u64 = 100_000;

static ENVIRONMENT: LazyLock<Environment> = LazyLock::new(|| {
    Environment::new()
        .with("text", Type::String)
        .with("number", Type::Int)
        .with("list", Type::List(Type::String.into()))
        .with("anything", Type::Dyn)
});

/// A compiled expression can be evaluated, twice with the same cost, and compile errors can be formatted.
pub fn expression(bytes: &[u8]) -> Accepted {
    let text = utf8(bytes)?;
    let expression = match ENVIRONMENT.compile(text) {
        Ok(expression) => expression,
        Err(issues) => {
            assert!(!issues.to_string().is_empty());
            return None;
        }
    };
    let estimate = expression.estimate(None);
    assert!(estimate.min <= estimate.max);
    let _ = (expression.result_type().to_string(), expression.uses("text"));
    let program = expression.program().ok()?;
    let list = vec![Value::from("a"), Value::from("b")];
    let variables = [
        ("text", Value::from("2026-11-15T08:00:00Z")),
        ("number", Value::Int(-7)),
        ("list", Value::from(list)),
        ("anything", Value::Uint(3)),
    ];
    let first = program.evaluate(&variables, LIMIT);
    let second = program.evaluate(&variables, LIMIT);
    assert_eq!(first.cost, second.cost);
    assert_eq!(first.result.is_ok(), second.result.is_ok());
    if let Ok(value) = first.result {
        let _ = (value.display(), value.size());
    }
    Some(())
}

/// Calls of all functions that parse a text.
const CALLS: [&str; 21] = [
    "bool(text)",
    "int(text)",
    "uint(text)",
    "double(text)",
    "string(duration(text))",
    "string(timestamp(text)) + string(timestamp(text).getDayOfYear('Europe/Berlin'))",
    "timestamp('2026-11-15T08:00:00Z').getHours(text)",
    "isURL(text) && url(text).getHostname() + url(text).getPort() + url(text).getEscapedPath() != '' ? [text] : []",
    "url(text).getQuery()",
    "isIP(text) && ip(text).family() == 4 && ip.isCanonical(text)",
    "isCIDR(text) && cidr(text).containsIP('10.0.0.1') && cidr(text).masked() == cidr(text)",
    "isQuantity(text) && quantity(text).add(quantity('1')).sub(1).compareTo(quantity(text)) == 0",
    "isSemver(text) && semver(text).compareTo(semver('1.2.3')) == 0",
    "isSemver(text, true) && semver(text, true).major() == 1",
    "format.dns1123Subdomain().validate(text)",
    "[format.qualifiedName(), format.uri(), format.date(), format.datetime(), format.byte(), format.uuid()].map(f, f.validate(text))",
    "text.find('[0-9]+') + text.findAll('a|b', 3).join(',')",
    "'abc'.matches(text)",
    "text.format([1, 'a', 2.5, true, null, [1], {'a': 1}])",
    "text.split(',').join('-') + text.replace('a', 'b').trim().upperAscii()",
    "text.substring(1) + text.charAt(0) + string(text.indexOf('a')) + string(text.lastIndexOf('b'))",
];

static PROGRAMS: LazyLock<Vec<Program>> = LazyLock::new(|| {
    let environment = Environment::new().with("text", Type::String);
    let program = |call: &&str| environment.compile(call).expect(call).program().expect(call);
    CALLS.iter().map(program).collect()
});

/// For any text, functions return a value or an error.
pub fn text(bytes: &[u8]) -> Accepted {
    let text = utf8(bytes)?;
    let mut accepted = None;
    for program in PROGRAMS.iter() {
        match program.evaluate(&[("text", Value::from(text))], LIMIT).result {
            Ok(value) => {
                let _ = value.display();
                accepted = Some(());
            }
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }
    accepted
}

/// A pattern of Go's syntax is compiled, or rejected with Go's message. The first line is the pattern, the
/// rest is the subject.
pub fn regular_expression(bytes: &[u8]) -> Accepted {
    let [pattern, subject] = lines(bytes)?;
    let compiled = regexp::SHARED.get(pattern);
    assert!(regexp::check(pattern).is_none() || compiled.is_err(), "invalid patterns are not compiled");
    match compiled {
        Ok(compiled) => {
            let _ = compiled.is_match(subject);
            Some(())
        }
        Err(error) => {
            assert!(error.to_string().starts_with("error parsing regexp"), "{error}");
            None
        }
    }
}

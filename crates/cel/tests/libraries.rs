//! Expressions over all functions of the libraries, and what the API server's own code says of them.
//!
//! `libraries/*.txt` has an expression in each line, as a JSON string, with the result, the least and the most that it is
//! estimated to cost, and what it has cost; or why it is refused. Set `CEL_FILE` to look at one file.

use std::path::Path;

use atoll_cel::{Environment, Type, Value};
use atoll_meta::quote::{print_float, quote};

#[test]
fn libraries_answer_as_upstream_does() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/libraries");
    let mut files: Vec<_> = std::fs::read_dir(directory).expect("the cases are there").flatten().collect();
    files.sort_by_key(std::fs::DirEntry::file_name);
    let wanted = std::env::var("CEL_FILE").unwrap_or_default();
    let mut differences = 0;
    for file in files {
        let name = file.file_name().to_string_lossy().into_owned();
        if !name.contains(&wanted) {
            continue;
        }
        let text = std::fs::read_to_string(file.path()).expect("cases are text");
        let (mut same, mut different) = ([0; 3], [0; 3]);
        for line in text.lines() {
            let mut fields = line.split('\t');
            let expression: String =
                serde_json::from_str(fields.next().unwrap_or_default()).expect("an expression is a JSON string");
            let expected: Vec<&str> = fields.collect();
            let found = answer(&expression);
            for (place, expected) in expected.iter().enumerate() {
                if found.get(place).is_some_and(|found| found == expected) {
                    same[place] += 1;
                } else {
                    different[place] += 1;
                    println!("{name}: {expression}\n  expected {expected}\n  found    {}", found.get(place).map_or("nothing", String::as_str));
                }
            }
        }
        println!("{name}: same {same:?}, different {different:?} (result, estimate, cost)");
        differences += different.iter().sum::<usize>();
    }
    assert_eq!(differences, 0, "answers that are not upstream's");
}

fn answer(text: &str) -> Vec<String> {
    let environment = Environment::new()
        .with("s", Type::String)
        .with("l", Type::list(Type::String))
        .with("i", Type::list(Type::Int));
    let expression = match environment.compile(text) {
        Ok(expression) => expression,
        Err(issues) => return vec![format!("REFUSED {}", quote(&issues.to_string()))],
    };
    let program = match expression.program() {
        Ok(program) => program,
        Err(error) => return vec![format!("PROGRAM {}", quote(&error.to_string()))],
    };
    let strings = |items: &[&'static str]| Value::from(items.iter().map(|item| Value::from(*item)).collect::<Vec<_>>());
    let variables = [
        ("s", Value::from("héllo wörld")),
        ("l", strings(&["b", "a", "c"])),
        ("i", Value::from([3, 1, 2].map(Value::Int).to_vec())),
    ];
    let evaluation = program.evaluate(&variables, u64::MAX);
    let estimate = expression.estimate(None);
    let result = match &evaluation.result {
        Ok(value) => show(value),
        Err(error) => format!("ERROR {}", quote(&error.to_string())),
    };
    vec![result, format!("{}-{}", estimate.min, estimate.max), evaluation.cost.to_string()]
}

fn show(value: &Value<'_>) -> String {
    match value {
        Value::String(text) => quote(text),
        Value::Int(number) => format!("int {number}"),
        Value::Uint(number) => format!("uint {number}"),
        Value::Double(f64::INFINITY) => "double +Inf".to_owned(),
        Value::Double(f64::NEG_INFINITY) => "double -Inf".to_owned(),
        Value::Double(number) => format!("double {}", print_float(*number)),
        Value::Bool(value) => value.to_string(),
        Value::Bytes(bytes) => format!("b{}", quote(&String::from_utf8_lossy(bytes))),
        Value::Optional(None) => "none".to_owned(),
        Value::Optional(Some(value)) => format!("some({})", show(value)),
        Value::List(list) => {
            let items: Vec<String> =
                list.iter().map(|item| item.map_or_else(|error| error.to_string(), |item| show(&item))).collect();
            format!("[{}]", items.join(", "))
        }
        other => other.type_name().to_owned(),
    }
}

//! Checks that strings which name fields of JSON values are names of fields that exist. The compiler does not see that
//! `object["spec"]["replcias"]` is always null.

mod calls;
mod documents;
mod functions;
mod known;
mod uses;
mod variables;

use std::collections::BTreeSet;

use super::Finding;
use super::tokens::{tokens, without_tests};
use documents::DOCUMENTS;
use functions::NameForm;
use known::Known;
use uses::{Functions, ProductFile};

/// The file that lists names that no schema contains.
const LIST: &str = "xtask/src/tidy/fields/documents.rs";

/// Crates that are used for development only.
const DEVELOPMENT: [&str; 6] = ["bench", "differential", "dist", "samples", "testkit", "upstream"];

/// Checks all files at once: the functions that take names of fields are in other files than their callers.
pub fn check(files: &[(String, String)]) -> Vec<Finding> {
    let product = product(files);
    let functions = Functions::new(&product);
    let (mut findings, used) = unknown(files, &product, &functions);
    findings.extend(unused(&used));
    let uncalled = functions.uncalled_tables().into_iter().map(|(directory, name)| {
        Finding::error(
            "xtask/src/tidy/fields/uses.rs",
            format!("{directory} does not call \"{name}\": correct TABLES"),
        )
    });
    findings.extend(uncalled);
    findings
}

/// Words of documents that were used, with the number of the document.
type UsedWords = BTreeSet<(usize, &'static str)>;

fn product(files: &[(String, String)]) -> Vec<ProductFile<'_>> {
    let product = files.iter().filter(|(path, _)| is_product(path));
    product.map(|(path, text)| ProductFile { path, tokens: without_tests(&tokens(text)) }).collect()
}

/// Returns a finding for each name that is unknown, and the words of documents that are used.
fn unknown(
    files: &[(String, String)],
    product: &[ProductFile<'_>],
    functions: &Functions<'_>,
) -> (Vec<Finding>, UsedWords) {
    let known = Known::new(files, product);
    let mut findings = Vec::new();
    let mut used = BTreeSet::new();
    for (file, source) in product.iter().enumerate() {
        for field in functions.uses(file) {
            for name in names(source.path, field.form, field.text) {
                let words = words(source.path, name);
                if words.is_empty() && !known.has(name) {
                    let place = format!("{}:{}", source.path, field.line);
                    findings.push(Finding::error(place, advice(name, known.similar(source.path, name))));
                }
                used.extend(words);
            }
        }
    }
    (findings, used)
}

/// Returns the words of documents that a name in a file can be.
fn words(path: &str, name: &str) -> Vec<(usize, &'static str)> {
    let documents = DOCUMENTS.iter().enumerate().filter(|(_, document)| document.is_in(path));
    let word = |(number, document): (usize, &'static documents::Document)| {
        document.words.iter().find(|word| **word == name).map(|word| (number, *word))
    };
    documents.filter_map(word).collect()
}

fn advice(name: &str, similar: Option<&str>) -> String {
    let guess = similar.map_or(String::new(), |similar| format!(" Did you mean \"{similar}\"?"));
    format!(
        "\"{name}\" is not a field of any known schema.{guess} If it is right, describe it in the schema of its kind, or list it in \
         {LIST} with its document"
    )
}

/// Returns a finding for each listed word that no file uses.
fn unused(used: &UsedWords) -> Vec<Finding> {
    let listed = DOCUMENTS.iter().enumerate();
    let words = listed.flat_map(|(number, document)| document.words.iter().map(move |word| (number, *word)));
    let unused = words.filter(|word| !used.contains(word));
    let finding = |(number, word): (usize, &str)| {
        Finding::error(
            LIST,
            format!("remove \"{word}\" from \"{}\": it is not used", DOCUMENTS[number].reason),
        )
    };
    unused.map(finding).collect()
}

/// Whether the file is part of the product: no test, and in no crate for development.
fn is_product(path: &str) -> bool {
    let Some((krate, file)) = path.strip_prefix("crates/").and_then(|path| path.split_once("/src/")) else {
        return false;
    };
    let is_test = |part: &str| ["suite", "testing", "tests"].contains(&part);
    file.ends_with(".rs")
        && !DEVELOPMENT.contains(&krate)
        && !file.trim_end_matches(".rs").split('/').any(is_test)
}

/// Returns the names of fields in a string.
fn names<'a>(path: &str, form: NameForm, text: &'a str) -> Vec<&'a str> {
    let parts: Vec<&str> = match form {
        NameForm::Field => vec![text],
        NameForm::Dotted => text.split('.').collect(),
        NameForm::Pointer => text.split('/').collect(),
    };
    parts.into_iter().filter(|name| is_field(path, name)).collect()
}

/// Whether a key has the form of a field. Annotations, headers, paths and most labels contain other characters, and so
/// do the fields of some documents.
fn is_field(path: &str, name: &str) -> bool {
    let is_plain =
        name.chars().all(|character| character.is_ascii_alphanumeric() || "_$".contains(character));
    let is_number = name.chars().all(|character| character.is_ascii_digit());
    let has_hyphens = || {
        let mut documents = DOCUMENTS.iter().filter(|document| document.is_in(path));
        name.contains('-')
            && documents.any(|document| {
                document.words.iter().any(|word| word.contains('-') && !word.starts_with("x-"))
            })
    };
    is_plain && !is_number || name.starts_with("x-kubernetes-") || has_hyphens()
}

#[cfg(test)]
mod tests {
    use super::*;

    const FACTS: &str = "struct apps/v1.DeploymentSpec\n replicas Replicas *int32\n template Template x\n spec Spec x\n \
                         metadata Metadata x\n name Name string\n labels Labels x\n x-kubernetes-list-type X x\n";

    /// Returns the findings about files in one crate.
    fn findings(files: &[(&str, &str)]) -> Vec<String> {
        let facts = ("crates/schema/data/types.txt".to_owned(), FACTS.to_owned());
        let files = files.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned()));
        let files: Vec<(String, String)> = std::iter::once(facts).chain(files).collect();
        let product = product(&files);
        let (found, _) = unknown(&files, &product, &Functions::new(&product));
        found.iter().map(ToString::to_string).collect()
    }

    #[track_caller]
    fn passes(text: &str) {
        assert_eq!(findings(&[("crates/a/src/b.rs", text)]), Vec::<String>::new(), "{text}");
    }

    /// Checks that these names, and only these, are reported.
    #[track_caller]
    fn fails(text: &str, names: &[&str]) {
        let found = findings(&[("crates/a/src/b.rs", text)]);
        let quoted: Vec<&str> = found.iter().filter_map(|finding| finding.split('"').nth(1)).collect();
        assert_eq!(quoted, names, "{text}");
    }

    #[test]
    fn a_finding_names_place_word_and_hint() {
        let text = "fn f(object: &Value) {\n    g(&object[\"spec\"][\"replcias\"]);\n}";
        let found = findings(&[("crates/a/src/b.rs", text)]);
        assert_eq!(found.len(), 1, "{found:?}");
        let expected = "crates/a/src/b.rs:2: \"replcias\" is not a field of any known schema. Did you mean \"replicas\"?";
        assert!(found[0].starts_with(expected), "{found:?}");
        assert!(found[0].contains("xtask/src/tidy/fields/documents.rs"), "{found:?}");
    }

    #[test]
    fn indexes_and_methods_of_values_are_checked() {
        passes(r#"object["spec"]["replicas"].as_i64()"#);
        fails(r#"object["spec"]["replcias"].as_i64()"#, &["replcias"]);
        fails(r#"list()?["spce"]; list()["tempalte"]; list[0]["nmae"]"#, &["spce", "tempalte", "nmae"]);
        passes(r#"object.get("metadata")"#);
        fails(r#"object.get("metdata")"#, &["metdata"]);
        fails(
            r#"map.get_mut("metdata"); map.remove("metdata"); map.contains_key("metdata")"#,
            &["metdata"; 3],
        );
        fails(r#"map.insert("metdata".into(), 1); map.entry("metdata".to_owned())"#, &["metdata"; 2]);
        fails(r#"path.child("spec").child("tempalte")"#, &["tempalte"]);
        fails("object\n    .get(\n        \"metdata\", // a \"comment\"\n    )", &["metdata"]);
        fails(r##"object[r#"metdata"#]"##, &["metdata"]);
        fails(r#"schema["x-kubernetes-list-typ"]"#, &["x-kubernetes-list-typ"]);
    }

    #[test]
    fn every_step_of_a_pointer_is_checked() {
        passes(r#"object.pointer("/spec/template/metadata/labels/a.b~1c/0")"#);
        fails(r#"object.pointer("/spec/templat/metadata")"#, &["templat"]);
        fails(r#"object.pointer_mut("/sepc/template/0/nam")"#, &["sepc", "nam"]);
    }

    #[test]
    fn arguments_of_functions_that_index_are_checked() {
        let functions = "fn text<'a>(value: &'a Value, field: &str) -> &'a str { value[field].as_str() }\n\
             fn outer(value: &Value, name: &'static str) -> bool { text(value, name).is_empty() }\n\
             fn at(value: &Value, path: &str) { path.split('.').try_fold(value, |value, name| value.get(name)) }\n\
             fn deep(value: &Value, path: &[&str]) { path.iter().try_fold(value, |value, name| value.get(name)) }\n\
             fn drop_from(value: &mut Value, paths: &[&[&str]]) { paths.iter().for_each(|path| remove(value, path)) }\n\
             fn remove(value: &mut Value, path: &[&str]) { match path { [last] => value.remove(*last), _ => {} } }\n\
             fn title(value: &Value, title: &str) { print(title) }\n";
        let with = |calls: &str| format!("{functions} fn calls() {{ {calls} }}");
        passes(&with(
            r#"text(v, "name"); outer(v, "spec"); at(v, "spec.replicas"); deep(v, &["spec", "name"]);"#,
        ));
        passes(&with(r#"title(v, "anything"); drop_from(v, &[&["spec", "name"], &["metadata"]]);"#));
        fails(&with(r#"text(v, "nmae");"#), &["nmae"]);
        fails(&with(r#"outer(f(v, 1), "nmae");"#), &["nmae"]);
        fails(&with(r#"at(v, "spec.replcias");"#), &["replcias"]);
        fails(&with(r#"deep(v, &["spec", "replcias"]);"#), &["replcias"]);
        fails(
            &with(r#"drop_from(v, &[&["spec", "nmae"], &["metadata"], &["metdata"]]);"#),
            &["nmae", "metdata"],
        );
    }

    #[test]
    fn functions_are_found_in_other_files_and_the_nearest_one_counts() {
        let fields =
            ("crates/meta/src/access.rs", "pub fn text(value: &Value, field: &str) { value.get(field) }");
        let call =
            r#"fn f() { text(value, "nmae"); access::text(value, "nmae"); other::text(value, "nmae") }"#;
        assert_eq!(findings(&[fields, ("crates/a/src/b.rs", call)]).len(), 2);
        let own = format!("fn text(value: &Value, title: &str) {{}} {call}");
        assert_eq!(findings(&[fields, ("crates/a/src/b.rs", &own)]).len(), 1);
        let methods = "trait Fields { fn part(&self, name: &str) -> &Value; }\n\
             impl Fields for Value { fn part(&self, name: &str) -> &Value { self.get(name).unwrap() } }";
        let call = r#"fn f() { value.part("spec").part("nmae") }"#;
        assert_eq!(findings(&[("crates/a/src/fields.rs", methods), ("crates/a/src/b.rs", call)]).len(), 1);
    }

    #[test]
    fn closures_loops_and_constants_are_followed() {
        fails(r#"fn f() { let text = |field: &str| value[field].as_str(); text("nmae"); }"#, &["nmae"]);
        fails(
            r#"fn f() { let mut put = |field, x| value.insert(field.to_owned(), x); put("nmae", 1); }"#,
            &["nmae"],
        );
        passes(r#"fn f() { { let text = |field| value[field]; text("name") } text("nmae"); }"#);
        fails(r#"for name in ["spec", "nmae"] { value.remove(name); }"#, &["nmae"]);
        fails(r#"for (name, other) in [("nmae", "x"), ("spec", "y")] { value[name] = other; }"#, &["nmae"]);
        fails(r#"["spec", "nmae"].iter().any(|name| value.get(name).is_some())"#, &["nmae"]);
        passes(r#"for word in ["one", "two"] { print(word); }"#);
        fails(r#"const FIELD: &str = "nmae"; fn f() { value[FIELD] }"#, &["nmae"]);
        fails(
            r#"const FIELDS: [&str; 2] = ["spec", "nmae"]; fn f() { for name in FIELDS { v[name] } }"#,
            &["nmae"],
        );
        passes(
            r#"const LABEL: &str = "app"; const WORDS: [&str; 1] = ["a"]; fn f() { label(v, LABEL); g(WORDS) }"#,
        );
    }

    #[test]
    fn keys_of_other_maps_are_not_fields() {
        passes(r#"request.headers().get("etag"); headers.insert("accept", x); self.query.get("timeout")"#);
        passes(r#"annotations.get("example.com/key"); data.get("ca.crt"); client.get("/api/v1/pods")"#);
        passes(r#"labels["pod-template-hash"]; let list = ["a", "b"]; return ["c"]; f(&["d"])"#);
        passes(r#"print("metdata"); x == "metdata"; // object["metdata"]"#);
        passes(r#"fn f(kind: &str) {} json!({ "metdata": object["metadata"] })"#);
    }

    #[test]
    fn own_schemas_and_formats_are_known() {
        let call = ("crates/a/src/b.rs", r#"cluster["mode"]; line["by"]; line["placedAt"]; line["absent"]"#);
        let schema = ("crates/registry/src/atoll_kinds/cluster.rs", r#"json!({ "mode": text("A: b.") })"#);
        let format = (
            "crates/fleet/src/view.rs",
            "#[derive(Serialize)] #[serde(rename_all = \"camelCase\")] struct L { by: B, placed_at: C }",
        );
        let found = findings(&[call, schema, format]);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].contains("\"absent\""), "{found:?}");
    }

    #[test]
    fn documents_are_known_in_their_files_only() {
        let text = r#"claims["jti"]; config["current-context"]; config["curent-context"]"#;
        assert_eq!(findings(&[("crates/authn/src/service_account/claims.rs", text)]), Vec::<String>::new());
        let found = findings(&[("crates/client/src/kubeconfig.rs", text)]);
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].contains("\"jti\""), "{found:?}");
        assert!(found[1].contains("Did you mean \"current-context\"?"), "{found:?}");
    }

    #[test]
    fn listed_words_must_be_used() {
        let used: UsedWords = DOCUMENTS
            .iter()
            .enumerate()
            .flat_map(|(at, listed)| listed.words.iter().map(move |w| (at, *w)))
            .collect();
        assert_eq!(unused(&used), []);
        let rest: UsedWords = used.iter().copied().filter(|(_, word)| *word != "jti").collect();
        let found = unused(&rest);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].message.contains("remove \"jti\""), "{found:?}");
    }

    #[test]
    fn listed_functions_must_be_called() {
        let uncalled = |text: &str| {
            let files = [("crates/columns/src/kinds.rs".to_owned(), text.to_owned())];
            Functions::new(&product(&files)).uncalled_tables().contains(&("crates/columns/", "Cell"))
        };
        assert!(!uncalled(r#"f(Cell::Text("spec"))"#));
        assert!(uncalled(r#"f(Cells::Text("spec"))"#));
    }

    #[test]
    fn test_code_is_exempt() {
        let wrong = r#"object["metdata"]"#;
        for path in [
            "crates/a/tests/b.rs",
            "crates/a/src/b/tests.rs",
            "crates/a/src/tests/b.rs",
            "crates/a/src/testing.rs",
            "crates/testkit/src/b.rs",
            "xtask/src/b.rs",
        ] {
            assert_eq!(findings(&[(path, wrong)]), Vec::<String>::new(), "{path}");
        }
        passes(&format!("#[cfg(test)]\nmod tests {{ fn f() {{ {wrong} }} }}"));
        fails(&format!("#[cfg(test)]\nmod tests {{ }} fn f() {{ {wrong} }}"), &["metdata"]);
    }
}

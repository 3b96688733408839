//! Warnings about files of a volume that overlap.

// upstream: pkg/api/pod/warnings.go

use std::fmt;

use atoll_meta::quote::quote;

use crate::field_value::FieldValue;

/// Maximum number of pairs of files that are compared. The headers of a response have room for far fewer warnings.
const MAX_PAIRS: usize = 500_000;

/// A path and a description of its source, if there is one.
#[derive(Clone, PartialEq)]
struct File<'a> {
    path: &'a str,
    source: String,
}

impl fmt::Display for File<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.source.as_str() {
            "" => write!(out, "{}", quote(self.path)),
            source => write!(out, "{} ({source})", quote(self.path)),
        }
    }
}

pub fn overlaps(volumes: &FieldValue<'_>, warnings: &mut Vec<String>) {
    let mut pairs = 0;
    for volume in volumes.items() {
        let name = quote(volume.text_of("name"));
        let single = [
            ("configMap", "ConfigMap", "name"),
            ("secret", "Secret", "secretName"),
            ("downwardAPI", "DownwardAPI", ""),
        ];
        for (field, upstream_name, named) in single {
            let source = volume.get(field);
            let described = match named {
                "" => upstream_name.to_owned(),
                named => format!("{upstream_name} {}", quote(source.text_of(named))),
            };
            let mut seen = Vec::new();
            for file in items(&source, "") {
                add(file, &mut seen, &mut pairs, |one, other| {
                    warnings
                        .push(format!("volume {name} ({described}): overlapping paths: {one} with {other}"));
                });
            }
        }
        let mut seen = Vec::new();
        for source in volume.get("projected").get("sources").items() {
            if source.is_empty() {
                warnings.push(format!("volume {name} (Projected) has no sources provided"));
            }
            for file in files(&source) {
                add(file, &mut seen, &mut pairs, |one, other| {
                    warnings
                        .push(format!("volume {name} (Projected): overlapping paths: {one} with {other}"));
                });
            }
        }
    }
}

fn items<'a>(source: &FieldValue<'a>, described: &str) -> Vec<File<'a>> {
    let items = source.get("items");
    items.items().map(|item| file(item.text_of("path"), described)).collect()
}

fn file<'a>(path: &'a str, source: &str) -> File<'a> {
    File { path: path.trim_end_matches('/'), source: source.to_owned() }
}

/// Returns the files of one source of a projected volume.
fn files<'a>(source: &FieldValue<'a>) -> Vec<File<'a>> {
    let named = |field: &'static str, upstream_name: &str| {
        let from = source.get(field);
        items(&from, &format!("{upstream_name} {}", quote(from.text_of("name"))))
    };
    let listed = |field: &'static str| source.get(field).has("items");
    if listed("configMap") {
        named("configMap", "ConfigMap")
    } else if listed("secret") {
        named("secret", "Secret")
    } else if listed("downwardAPI") {
        items(&source.get("downwardAPI"), "DownwardAPI")
    } else if source.has("serviceAccountToken") {
        vec![file(source.get("serviceAccountToken").text_of("path"), "ServiceAccountToken")]
    } else {
        Vec::new()
    }
}

fn add<'a>(
    file: File<'a>,
    seen: &mut Vec<File<'a>>,
    pairs: &mut usize,
    mut collides: impl FnMut(&File<'a>, &File<'a>),
) {
    *pairs += seen.len();
    if *pairs > MAX_PAIRS {
        return;
    }
    let within = |one: &str, other: &str| {
        one == other || one.strip_prefix(other).is_some_and(|rest| rest.starts_with('/'))
    };
    if !file.path.is_empty() {
        for other in seen.iter().filter(|other| !other.path.is_empty()) {
            if within(file.path, other.path) || within(other.path, file.path) {
                collides(&file, other);
            }
        }
    }
    seen.push(file);
}

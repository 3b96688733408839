//! Extracts the descriptions of types and fields, which `kubectl explain` shows, from the source of the
//! `k8s-openapi` crate, and compresses them for `src/descriptions.rs`.
//!
//! The crate is in the workspace's lock file because of the tests, so Cargo has its source or fetches it; it
//! is read and not compiled, which takes half a second instead of half a minute. Without it only the
//! descriptions are missing.

use std::env;
use std::error::Error;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use flate2::Compression;
use flate2::write::DeflateEncoder;

const CRATE: &str = "k8s-openapi";
const RESOURCES: &str = "../schema/data/resources.txt";
/// Separators of records, and of the parts of one: definition, property (empty for the definition itself),
/// description.
const RECORD: char = '\u{1e}';
const PART: char = '\u{1f}';

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed={RESOURCES}");
    println!("cargo::rerun-if-changed=../../Cargo.lock");
    let mut text = String::new();
    match source() {
        Ok(directory) => read_directory(&directory, &mut text)?,
        Err(error) => {
            println!(
                "cargo::warning=kubectl explain will have no descriptions: no source of {CRATE}: {error}"
            );
        }
    }
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(text.as_bytes())?;
    let target = PathBuf::from(env::var_os("OUT_DIR").ok_or("OUT_DIR is not set")?).join("descriptions");
    fs::write(target, encoder.finish()?)?;
    Ok(())
}

/// Returns the directory with the types of the served Kubernetes version.
fn source() -> Result<PathBuf, Box<dyn Error>> {
    let output = Command::new(env::var_os("CARGO").ok_or("CARGO is not set")?)
        .args(["metadata", "--format-version=1", "--locked", "--filter-platform"])
        .arg(env::var("TARGET")?)
        .output()?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).lines().last().unwrap_or_default().into());
    }
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout)?;
    let packages = metadata["packages"].as_array().ok_or("no packages")?;
    let package =
        packages.iter().find(|package| package["name"] == CRATE).ok_or("it is not in the lock file")?;
    let manifest = Path::new(package["manifest_path"].as_str().ok_or("no path")?);
    let resources = fs::read_to_string(RESOURCES)?;
    // "kubernetes v1.36.4" is v1_36 there.
    let version =
        resources.lines().next().and_then(|line| line.strip_prefix("kubernetes ")).ok_or("no version")?;
    let module = version.rsplit_once('.').ok_or("no patch level")?.0.replace('.', "_");
    let directory = manifest.with_file_name("src").join(&module);
    if directory.is_dir() { Ok(directory) } else { Err(format!("it does not know {module}").into()) }
}

/// Reads a directory in the order of names, so that the output is reproducible.
fn read_directory(directory: &Path, text: &mut String) -> Result<(), Box<dyn Error>> {
    let mut entries: Vec<PathBuf> =
        fs::read_dir(directory)?.map(|entry| Ok(entry?.path())).collect::<Result<_, std::io::Error>>()?;
    entries.sort_unstable();
    for path in entries {
        if path.is_dir() {
            read_directory(&path, text)?;
        } else {
            read_file(&fs::read_to_string(path)?, text);
        }
    }
    Ok(())
}

/// Reads a file. The schema of a type has one line each for names and descriptions, indented by depth.
fn read_file(source: &str, text: &mut String) {
    let Some((_, schema)) = source.split_once("fn schema_name()") else { return };
    let mut lines = schema.lines().skip(1);
    let Some(definition) = lines.next().and_then(|line| literal(line.trim_start())) else { return };
    let mut property = String::new();
    for line in lines {
        let inner = line.trim_start();
        let depth = line.len() - inner.len();
        let description = match depth {
            16 if inner.starts_with('"') => {
                property = literal(inner).unwrap_or_default();
                None
            }
            12 | 20 => inner
                .strip_prefix("\"description\": ")
                .or_else(|| inner.strip_prefix("schema_obj.ensure_object().insert(\"description\".into(), "))
                .and_then(literal),
            _ => None,
        };
        if let Some(description) = description {
            let property = if depth == 12 { "" } else { &property };
            text.extend([definition.as_str(), &PART.to_string(), property, &PART.to_string(), &description]);
            text.push(RECORD);
        }
    }
}

/// Parses a string literal at the start of a line.
fn literal(line: &str) -> Option<String> {
    let mut meant = String::new();
    let mut letters = line.strip_prefix('"')?.chars();
    loop {
        match letters.next()? {
            '"' => return Some(meant),
            '\\' => match letters.next()? {
                'n' => meant.push('\n'),
                't' => meant.push('\t'),
                'r' => meant.push('\r'),
                'u' => {
                    let code: String = letters.by_ref().skip(1).take_while(|letter| *letter != '}').collect();
                    meant.push(char::from_u32(u32::from_str_radix(&code, 16).ok()?)?);
                }
                other => meant.push(other),
            },
            letter => meant.push(letter),
        }
    }
}

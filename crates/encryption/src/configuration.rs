//! Upstream's EncryptionConfiguration, read and written.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};

use crate::EncryptionError;
use crate::rules::{Entry, KeyWithName, Pattern, Provider, Rules};

const GROUP_VERSIONS: [&str; 2] = ["apiserver.config.k8s.io/v1", "v1"];
const KINDS: [&str; 2] = ["EncryptionConfiguration", "EncryptionConfig"];
const KEY_SIZE: usize = 32;

#[derive(Deserialize, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Document {
    api_version: String,
    kind: String,
    resources: Vec<ResourceEntry>,
}

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct ResourceEntry {
    resources: Vec<String>,
    providers: Vec<ProviderEntry>,
}

#[derive(Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct ProviderEntry {
    #[serde(skip_serializing_if = "Option::is_none")]
    aesgcm: Option<KeyList>,
    #[serde(skip_serializing_if = "Option::is_none")]
    aescbc: Option<KeyList>,
    #[serde(skip_serializing_if = "Option::is_none")]
    secretbox: Option<KeyList>,
    #[serde(skip_serializing_if = "Option::is_none")]
    identity: Option<Nothing>,
    #[serde(skip_serializing)]
    kms: Option<Anything>,
}

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct KeyList {
    keys: Vec<NamedKey>,
}

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct NamedKey {
    name: String,
    secret: String,
}

#[derive(Deserialize, Serialize)]
struct Nothing {}

/// What is known by its name only.
#[derive(Deserialize)]
struct Anything {}

fn wrong(problem: impl Into<String>) -> EncryptionError {
    EncryptionError::Configuration(problem.into())
}

fn document(text: &str) -> Result<Document, EncryptionError> {
    // What a parser quotes may be a key.
    let document: Document = serde_saphyr::from_str(text).map_err(|error| {
        let place = error.location().map(|place| format!(" at line {}", place.line())).unwrap_or_default();
        wrong(format!("this is not an EncryptionConfiguration{place}"))
    })?;
    let known =
        GROUP_VERSIONS.contains(&document.api_version.as_str()) && KINDS.contains(&document.kind.as_str());
    match known {
        true => Ok(document),
        false => Err(wrong(format!(
            "it is a {} of {}; an EncryptionConfiguration of {} is expected",
            document.kind, document.api_version, GROUP_VERSIONS[0]
        ))),
    }
}

pub(crate) fn parse(text: &str) -> Result<Rules, EncryptionError> {
    let document = document(text)?;
    if document.resources.is_empty() {
        return Err(wrong("resources is empty; name at least one, such as secrets"));
    }
    let entries: Vec<Entry> = document.resources.iter().map(entry).collect::<Result<_, _>>()?;
    for entry in &entries {
        let twice =
            entry.patterns.iter().enumerate().find(|(at, pattern)| entry.patterns[..*at].contains(pattern));
        if let Some((_, pattern)) = twice {
            return Err(wrong(format!("{pattern} is named twice in one list")));
        }
    }
    Ok(Rules::new(entries))
}

fn entry(entry: &ResourceEntry) -> Result<Entry, EncryptionError> {
    if entry.resources.is_empty() || entry.providers.is_empty() {
        return Err(wrong("every entry needs resources and providers"));
    }
    let patterns: Vec<Pattern> =
        entry.resources.iter().map(|text| pattern(text)).collect::<Result<_, _>>()?;
    let providers = entry.providers.iter().map(provider).collect::<Result<Vec<_>, _>>()?;
    Ok(Entry { patterns, providers: providers.into_iter().flatten().collect() })
}

/// `secrets`, `deployments.apps`, `*.apps`, `*.` for the core group, `*.*` for everything.
fn pattern(text: &str) -> Result<Pattern, EncryptionError> {
    let (resource, group) = text.split_once('.').unwrap_or((text, ""));
    let plain = |part: &str| {
        part.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b".-".contains(&byte))
    };
    match (resource, group) {
        ("*", "*") => Ok(Pattern { group: None, resource: None }),
        ("*", _) if !text.contains('.') => Err(wrong(
            "use '*.' to encrypt all the resources from core API group or *.* to encrypt all resources",
        )),
        ("*", group) if plain(group) => Ok(Pattern { group: Some(group.into()), resource: None }),
        (resource, group) if !resource.is_empty() && plain(resource) && plain(group) => {
            Ok(Pattern { group: Some(group.into()), resource: Some(resource.into()) })
        }
        _ => Err(wrong(format!(
            "{text:?} names no resource; write it as secrets, deployments.apps, *.apps or *.*"
        ))),
    }
}

/// One provider for every key, or one that does nothing.
fn provider(entry: &ProviderEntry) -> Result<Vec<Provider>, EncryptionError> {
    if entry.kms.is_some() {
        return Err(wrong(
            "kms providers are not supported; use aesgcm or secretbox, or leave the flag away to let Atoll make a key",
        ));
    }
    let lists = [("aesgcm", &entry.aesgcm), ("aescbc", &entry.aescbc), ("secretbox", &entry.secretbox)];
    let given =
        lists.iter().filter(|(_, list)| list.is_some()).count() + usize::from(entry.identity.is_some());
    if given != 1 {
        return Err(wrong("every provider is exactly one of aesgcm, aescbc, secretbox and identity"));
    }
    if entry.identity.is_some() {
        return Ok(vec![Provider::Identity]);
    }
    let mut providers = Vec::new();
    for (kind, list) in lists {
        let Some(list) = list else { continue };
        if list.keys.is_empty() {
            return Err(wrong(format!("{kind} has no keys")));
        }
        for key in &list.keys {
            if key.name.is_empty() || key.name.contains(':') {
                return Err(wrong(format!("a key of {kind} has no name, or one with a colon")));
            }
            let secret = STANDARD.decode(&key.secret);
            let secret =
                secret.map_err(|_| wrong(format!("the secret of key {:?} is not base64", key.name)))?;
            let key = KeyWithName::new(kind, &key.name, &secret).ok_or_else(|| {
                let sizes = if kind == "secretbox" { "32" } else { "16, 24 or 32" };
                wrong(format!(
                    "the secret of key {:?} has {} bytes; {kind} wants {sizes}",
                    key.name,
                    secret.len()
                ))
            })?;
            providers.push(Provider::Key(key));
        }
    }
    Ok(providers)
}

/// A configuration for Secrets, with a key that nobody else has.
pub fn generate() -> Result<String, EncryptionError> {
    let keys = vec![new_key()?];
    let providers = vec![
        ProviderEntry { aesgcm: Some(KeyList { keys }), ..ProviderEntry::default() },
        ProviderEntry { identity: Some(Nothing {}), ..ProviderEntry::default() },
    ];
    let resources = vec![ResourceEntry { resources: vec!["secrets".into()], providers }];
    let document = Document { api_version: GROUP_VERSIONS[0].into(), kind: KINDS[0].into(), resources };
    write(&document)
}

/// The same configuration with one more key, which from now on writes. Returns it with the key's name.
pub fn with_new_key(text: &str) -> Result<(String, String), EncryptionError> {
    parse(text)?;
    let mut document = document(text)?;
    let key = new_key()?;
    for entry in &mut document.resources {
        let keys = vec![NamedKey { name: key.name.clone(), secret: key.secret.clone() }];
        entry
            .providers
            .insert(0, ProviderEntry { aesgcm: Some(KeyList { keys }), ..ProviderEntry::default() });
    }
    Ok((write(&document)?, key.name))
}

/// A key with a name that no other has: when it is lost, its name says which one is missed.
fn new_key() -> Result<NamedKey, EncryptionError> {
    let (mut name, mut secret) = ([0; 4], [0; KEY_SIZE]);
    aws_lc_rs::rand::fill(&mut name).map_err(|_| EncryptionError::NoRandomness)?;
    aws_lc_rs::rand::fill(&mut secret).map_err(|_| EncryptionError::NoRandomness)?;
    let name = format!("key-{:08x}", u32::from_be_bytes(name));
    Ok(NamedKey { name, secret: STANDARD.encode(secret) })
}

fn write(document: &Document) -> Result<String, EncryptionError> {
    serde_saphyr::to_string(document).map_err(|_| wrong("the configuration cannot be written"))
}

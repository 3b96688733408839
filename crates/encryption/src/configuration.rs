//! Parses and writes upstream's EncryptionConfiguration.

// upstream: staging/src/k8s.io/apiserver/pkg/apis/apiserver/v1/types_encryption.go
// upstream: staging/src/k8s.io/apiserver/pkg/server/options/encryptionconfig/config.go

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};

use crate::EncryptionError;
use crate::rules::{KeyWithName, Pattern, Provider, RuleEntry, Rules};

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
    identity: Option<Empty>,
    #[serde(skip_serializing)]
    kms: Option<Unsupported>,
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
struct Empty {}

/// A provider that is recognised by its name only, so that it can be refused.
#[derive(Deserialize)]
struct Unsupported {}

fn invalid(problem: impl Into<String>) -> EncryptionError {
    EncryptionError::Configuration(problem.into())
}

fn document(text: &str) -> Result<Document, EncryptionError> {
    // The parser's message is dropped: the text that it quotes may be a key.
    let document: Document = serde_saphyr::from_str(text).map_err(|error| {
        let place = error.location().map(|place| format!(" at line {}", place.line())).unwrap_or_default();
        invalid(format!("the file is not an EncryptionConfiguration{place}"))
    })?;
    let known =
        GROUP_VERSIONS.contains(&document.api_version.as_str()) && KINDS.contains(&document.kind.as_str());
    match known {
        true => Ok(document),
        false => Err(invalid(format!(
            "the file has kind {} of {}; expected an EncryptionConfiguration of {}",
            document.kind, document.api_version, GROUP_VERSIONS[0]
        ))),
    }
}

pub(crate) fn parse(text: &str) -> Result<Rules, EncryptionError> {
    let document = document(text)?;
    let rules = rules(&document)?;
    document.resources.iter().filter_map(|entry| entry.providers.first()).try_for_each(check_writer)?;
    Ok(rules)
}

/// Parses a configuration that does not encrypt.
pub(crate) fn parse_decryption_keys(text: &str) -> Result<Rules, EncryptionError> {
    rules(&document(text)?)
}

fn rules(document: &Document) -> Result<Rules, EncryptionError> {
    if document.resources.is_empty() {
        return Err(invalid("resources is empty; list at least one resource, such as secrets"));
    }
    let entries: Vec<RuleEntry> = document.resources.iter().map(entry).collect::<Result<_, _>>()?;
    for entry in &entries {
        let twice =
            entry.patterns.iter().enumerate().find(|(at, pattern)| entry.patterns[..*at].contains(pattern));
        if let Some((_, pattern)) = twice {
            return Err(invalid(format!("{pattern} is listed twice in one entry")));
        }
    }
    Ok(Rules::new(entries))
}

fn entry(entry: &ResourceEntry) -> Result<RuleEntry, EncryptionError> {
    if entry.resources.is_empty() || entry.providers.is_empty() {
        return Err(invalid("every entry needs resources and providers"));
    }
    let patterns: Vec<Pattern> =
        entry.resources.iter().map(|text| pattern(text)).collect::<Result<_, _>>()?;
    let providers = entry.providers.iter().map(provider).collect::<Result<Vec<_>, _>>()?;
    Ok(RuleEntry { patterns, providers: providers.into_iter().flatten().collect() })
}

/// Parses `secrets`, `deployments.apps`, `*.apps`, `*.` (the core group) or `*.*` (all resources).
fn pattern(text: &str) -> Result<Pattern, EncryptionError> {
    let (resource, group) = text.split_once('.').unwrap_or((text, ""));
    let plain = |part: &str| {
        part.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b".-".contains(&byte))
    };
    match (resource, group) {
        ("*", "*") => Ok(Pattern { group: None, resource: None }),
        ("*", _) if !text.contains('.') => Err(invalid(
            "use '*.' to encrypt all the resources from core API group or *.* to encrypt all resources",
        )),
        ("*", group) if plain(group) => Ok(Pattern { group: Some(group.into()), resource: None }),
        (resource, group) if !resource.is_empty() && plain(resource) && plain(group) => {
            Ok(Pattern { group: Some(group.into()), resource: Some(resource.into()) })
        }
        _ => Err(invalid(format!(
            "{text:?} is not a resource; write it as secrets, deployments.apps, *.apps or *.*"
        ))),
    }
}

/// Refuses to encrypt with a provider whose name means another cipher upstream. Older versions of Atoll
/// did, so these providers still decrypt.
fn check_writer(first: &ProviderEntry) -> Result<(), EncryptionError> {
    let (name, here, upstream) = match first {
        ProviderEntry { aescbc: Some(_), .. } => ("aescbc", "AES-GCM", "AES-CBC"),
        ProviderEntry { secretbox: Some(_), .. } => ("secretbox", "ChaCha20-Poly1305", "XSalsa20-Poly1305"),
        _ => return Ok(()),
    };
    Err(invalid(format!(
        "{name} cannot be the first provider, which encrypts: Atoll would use {here} under this name, not {upstream} \
         as kube-apiserver does. Put an aesgcm provider with a new key before it; values that are stored under \
         {name} can still be read"
    )))
}

/// Returns one provider per key, or the identity provider.
fn provider(entry: &ProviderEntry) -> Result<Vec<Provider>, EncryptionError> {
    if entry.kms.is_some() {
        return Err(invalid(
            "kms providers are not supported; use aesgcm, or omit the flag to let Atoll generate a key",
        ));
    }
    let lists = [("aesgcm", &entry.aesgcm), ("aescbc", &entry.aescbc), ("secretbox", &entry.secretbox)];
    let given =
        lists.iter().filter(|(_, list)| list.is_some()).count() + usize::from(entry.identity.is_some());
    if given != 1 {
        return Err(invalid("every provider must be exactly one of aesgcm, aescbc, secretbox and identity"));
    }
    if entry.identity.is_some() {
        return Ok(vec![Provider::Identity]);
    }
    let mut providers = Vec::new();
    for (kind, list) in lists {
        let Some(list) = list else { continue };
        if list.keys.is_empty() {
            return Err(invalid(format!("{kind} has no keys")));
        }
        for key in &list.keys {
            if key.name.is_empty() || key.name.contains(':') {
                return Err(invalid(format!("a key of {kind} has no name, or its name contains a colon")));
            }
            let secret = STANDARD.decode(&key.secret);
            let secret =
                secret.map_err(|_| invalid(format!("the secret of key {:?} is not base64", key.name)))?;
            let key = KeyWithName::new(kind, &key.name, &secret).ok_or_else(|| {
                let sizes = if kind == "secretbox" { "32" } else { "16, 24 or 32" };
                invalid(format!(
                    "the secret of key {:?} has {} bytes; {kind} needs {sizes}",
                    key.name,
                    secret.len()
                ))
            })?;
            providers.push(Provider::Key(key));
        }
    }
    Ok(providers)
}

/// Generates a configuration that encrypts Secrets with a new random key.
pub fn generate() -> Result<String, EncryptionError> {
    let keys = vec![new_key()?];
    let providers = vec![
        ProviderEntry { aesgcm: Some(KeyList { keys }), ..ProviderEntry::default() },
        ProviderEntry { identity: Some(Empty {}), ..ProviderEntry::default() },
    ];
    let resources = vec![ResourceEntry { resources: vec!["secrets".into()], providers }];
    let document = Document { api_version: GROUP_VERSIONS[0].into(), kind: KINDS[0].into(), resources };
    write(&document)
}

/// Adds a new key, which encrypts from now on. Returns the configuration and the key's name.
pub fn with_new_key(text: &str) -> Result<(String, String), EncryptionError> {
    let mut document = document(text)?;
    let key = new_key()?;
    for entry in &mut document.resources {
        let keys = vec![NamedKey { name: key.name.clone(), secret: key.secret.clone() }];
        entry
            .providers
            .insert(0, ProviderEntry { aesgcm: Some(KeyList { keys }), ..ProviderEntry::default() });
    }
    // Checked with the new key, because some providers may only follow another one.
    let text = write(&document)?;
    parse(&text)?;
    Ok((text, key.name))
}

/// Generates a key with a unique name, so that an error about a missing key identifies it.
fn new_key() -> Result<NamedKey, EncryptionError> {
    let (mut name, mut secret) = ([0; 4], [0; KEY_SIZE]);
    aws_lc_rs::rand::fill(&mut name).map_err(|_| EncryptionError::NoRandomness)?;
    aws_lc_rs::rand::fill(&mut secret).map_err(|_| EncryptionError::NoRandomness)?;
    let name = format!("key-{:08x}", u32::from_be_bytes(name));
    Ok(NamedKey { name, secret: STANDARD.encode(secret) })
}

fn write(document: &Document) -> Result<String, EncryptionError> {
    serde_saphyr::to_string(document).map_err(|_| invalid("the configuration cannot be written"))
}

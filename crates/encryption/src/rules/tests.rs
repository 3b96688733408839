use super::*;
use crate::{generate, with_new_key};

fn configured(resources: &str, providers: &str) -> Result<Rules, EncryptionError> {
    Rules::parse(&format!(
        "apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\nresources:\n- resources: [{resources}]\n  \
         providers:\n{providers}"
    ))
}

fn key(provider: &str, name: &str, size: usize, fill: u8) -> String {
    use base64::Engine;
    let secret = base64::engine::general_purpose::STANDARD.encode(vec![fill; size]);
    format!("  - {provider}: {{keys: [{{name: {name}, secret: {secret}}}]}}\n")
}

const IDENTITY: &str = "  - identity: {}\n";

fn secret() -> Key {
    Key::object("", "secrets", "root", "default", "a")
}

/// Rules that encrypt with a provider, as older versions of Atoll accepted them for every provider.
fn written_with(provider: &'static str, name: &str, size: usize, fill: u8) -> Rules {
    let key = KeyWithName::new(provider, name, &vec![fill; size]).expect("a key");
    let pattern = Pattern { group: Some(String::new()), resource: Some("secrets".into()) };
    Rules::new(vec![RuleEntry { patterns: vec![pattern], providers: vec![Provider::Key(key)] }])
}

#[test]
fn every_provider_encrypts_and_decrypts() {
    for (provider, size) in [
        ("aesgcm", 16),
        ("aesgcm", 24),
        ("aesgcm", 32),
        ("aescbc", 16),
        ("aescbc", 24),
        ("aescbc", 32),
        ("secretbox", 32),
    ] {
        let rules = written_with(provider, "one", size, 7);
        let encrypted = rules
            .encrypt(&secret(), b"{\"a\":\"hidden\"}")
            .expect("encryption succeeds")
            .expect("the value is encrypted");
        assert!(encrypted.starts_with(format!("k8s:enc:{provider}:v1:one:").as_bytes()));
        assert!(!encrypted.windows(6).any(|window| window == b"hidden"), "{provider}");
        assert_eq!(
            rules.decrypt(&secret(), &encrypted).expect("decryption succeeds"),
            &b"{\"a\":\"hidden\"}"[..]
        );
        assert_ne!(
            rules.encrypt(&secret(), b"{\"a\":\"hidden\"}").expect("encryption succeeds"),
            Some(encrypted.clone()),
            "nonces differ"
        );
        // It can be decrypted neither under another store key nor with a changed bit.
        let elsewhere = Key::object("", "secrets", "root", "default", "b");
        let unreadable =
            |value: &Key| Err(EncryptionError::Unreadable { value: value.to_string(), key: "one".into() });
        assert_eq!(rules.decrypt(&elsewhere, &encrypted), unreadable(&elsewhere));
        let mut changed = encrypted.to_vec();
        *changed.last_mut().expect("bytes") ^= 1;
        assert_eq!(rules.decrypt(&secret(), &Bytes::from(changed)), unreadable(&secret()));
        assert_eq!(rules.decrypt(&secret(), &encrypted.slice(..encrypted.len() - 30)), unreadable(&secret()));
    }
}

#[test]
fn providers_with_other_ciphers_than_upstream_only_decrypt() {
    for (provider, cipher) in [("aescbc", "AES-CBC"), ("secretbox", "XSalsa20-Poly1305")] {
        let before = written_with(provider, "old", 32, 7);
        let stored =
            before.encrypt(&secret(), b"{}").expect("encryption succeeds").expect("the value is encrypted");
        let (old, new) = (key(provider, "old", 32, 7), key("aesgcm", "new", 32, 8));
        for providers in [old.clone(), format!("{old}{IDENTITY}"), format!("{old}{new}")] {
            let Err(error) = configured("secrets", &providers) else { panic!("{provider} was accepted") };
            let text = error.to_string();
            assert!(text.starts_with(&format!("{provider} cannot be the first provider")), "{text}");
            assert!(text.contains(cipher) && text.contains("Put an aesgcm provider"), "{text}");
        }
        let rules = configured("secrets", &format!("{new}{old}")).expect("a configuration");
        assert_eq!(rules.decrypt(&secret(), &stored), Ok(Bytes::from_static(b"{}")));
        assert!(!rules.is_current(&secret(), &stored));
        let again =
            rules.encrypt(&secret(), b"{}").expect("encryption succeeds").expect("the value is encrypted");
        assert!(again.starts_with(b"k8s:enc:aesgcm:v1:new:"));
        // A rotation adds a key that encrypts, and the keys of another configuration only decrypt.
        let header = "apiVersion: v1\nkind: EncryptionConfiguration\nresources:\n- resources: [secrets]\n  providers:\n";
        let text = format!("{header}{old}");
        let (rotated, name) = with_new_key(&text).expect("a configuration");
        let rotated = Rules::parse(&rotated).expect("a configuration");
        assert!(rotated.decrypt(&secret(), &stored).is_ok());
        let again =
            rotated.encrypt(&secret(), b"{}").expect("encryption succeeds").expect("the value is encrypted");
        assert!(again.starts_with(format!("k8s:enc:aesgcm:v1:{name}:").as_bytes()));
        let keys = Rules::parse_decryption_keys(&text).expect("keys");
        let both = configured("secrets", &new).expect("a configuration").with_decryption_keys_of(keys);
        assert!(both.decrypt(&secret(), &stored).is_ok());
        // Also readable while encryption is turned off.
        let off = configured("secrets", &format!("{IDENTITY}{old}")).expect("a configuration");
        assert_eq!(off.decrypt(&secret(), &stored), Ok(Bytes::from_static(b"{}")));
    }
}

#[test]
fn the_first_provider_writes_and_all_read() {
    let (one, two) = (key("aesgcm", "one", 32, 1), key("aesgcm", "two", 32, 2));
    let old = configured("secrets", &one).expect("a configuration");
    let both = configured("secrets", &format!("{two}{one}")).expect("a configuration");
    let new = configured("secrets", &two).expect("a configuration");
    let before = old.encrypt(&secret(), b"{}").expect("encryption succeeds").expect("the value is encrypted");
    let after = both.encrypt(&secret(), b"{}").expect("encryption succeeds").expect("the value is encrypted");
    assert!(after.starts_with(b"k8s:enc:aesgcm:v1:two:"));
    assert!(both.decrypt(&secret(), &before).is_ok() && both.decrypt(&secret(), &after).is_ok());
    assert!(!both.is_current(&secret(), &before) && both.is_current(&secret(), &after));
    let value = secret().to_string();
    let missing = EncryptionError::MissingKey { value, provider: "aesgcm".into(), key: "one".into() };
    assert_eq!(new.decrypt(&secret(), &before), Err(missing.clone()));
    assert!(missing.to_string().contains("aesgcm key \"one\""));
    assert!(new.with_decryption_keys_of(old).decrypt(&secret(), &before).is_ok());
    // The same name with another secret is another key.
    let other = configured("secrets", &key("aesgcm", "one", 32, 9)).expect("a configuration");
    assert!(matches!(other.decrypt(&secret(), &before), Err(EncryptionError::Unreadable { .. })));
}

#[test]
fn plain_values_are_read_only_with_the_identity_provider() {
    let one = key("aesgcm", "one", 32, 1);
    let plain = Bytes::from_static(b"{}");
    let strict = configured("secrets", &one).expect("a configuration");
    assert!(matches!(strict.decrypt(&secret(), &plain), Err(EncryptionError::Plain { .. })));
    let lenient = configured("secrets", &format!("{one}{IDENTITY}")).expect("a configuration");
    assert_eq!(lenient.decrypt(&secret(), &plain), Ok(plain.clone()));
    assert!(!lenient.is_current(&secret(), &plain));
    let off = configured("secrets", &format!("{IDENTITY}{one}")).expect("a configuration");
    assert_eq!(off.encrypt(&secret(), b"{}"), Ok(None));
    let encrypted =
        strict.encrypt(&secret(), b"{}").expect("encryption succeeds").expect("the value is encrypted");
    assert!(!off.is_current(&secret(), &encrypted) && off.is_current(&secret(), &plain));
    let map = Key::object("", "configmaps", "root", "default", "a");
    assert!(strict.is_current(&map, &plain) && strict.decrypt(&map, &plain).is_ok());
}

/// Group, resource, and whether the pattern matches it.
type Expectation = (&'static str, &'static str, bool);

#[test]
fn resource_patterns_match_as_in_upstream() {
    let provider = key("aesgcm", "one", 32, 1);
    let cases: &[(&str, &[Expectation])] = &[
        ("secrets", &[("", "secrets", true), ("", "configmaps", false), ("x", "secrets", false)]),
        ("deployments.apps", &[("apps", "deployments", true), ("apps", "daemonsets", false)]),
        ("'*.apps'", &[("apps", "deployments", true), ("", "secrets", false)]),
        ("'*.'", &[("", "secrets", true), ("apps", "deployments", false)]),
        ("'*.*'", &[("", "secrets", true), ("a.b.c", "d", true)]),
        ("things.a.b.c", &[("a.b.c", "things", true), ("b.c", "things", false)]),
    ];
    for (resources, expected) in cases {
        let rules = configured(resources, &provider).expect("a configuration");
        for (group, resource, encrypted) in *expected {
            let place = Key::object(group, resource, "w", "n", "a");
            assert_eq!(
                rules.encrypt(&place, b"{}").expect("encryption succeeds").is_some(),
                *encrypted,
                "{resources}: {place}"
            );
        }
    }
}

#[test]
fn configuration_errors_do_not_contain_the_secret() {
    let good = key("aesgcm", "one", 32, 1);
    let cases = [
        (
            configured("secrets", "  - kms: {name: a, endpoint: unix:///x}\n"),
            "kms providers are not supported",
        ),
        (configured("secrets", &key("aesgcm", "one", 31, 1)), "has 31 bytes; aesgcm needs 16, 24 or 32"),
        (configured("secrets", &key("secretbox", "one", 16, 1)), "has 16 bytes; secretbox needs 32"),
        (configured("secrets", &key("aesgcm", "''", 32, 1)), "has no name"),
        (configured("secrets", "  - aesgcm: {keys: [{name: one, secret: '***'}]}\n"), "is not base64"),
        (configured("secrets", "  - aesgcm: {keys: []}\n"), "has no keys"),
        (configured("secrets, secrets", &good), "secrets is listed twice"),
        (configured("'*'", &good), "use '*.'"),
        (configured("Secrets", &good), "is not a resource"),
        (configured("", &good), "needs resources"),
        (configured("secrets", "  - rot13: {}\n"), "not an EncryptionConfiguration"),
        (Rules::parse("kind: Pod\napiVersion: v1\nresources: []\n"), "has kind Pod"),
        (Rules::parse("secret: hidden"), "not an EncryptionConfiguration"),
    ];
    for (outcome, expected) in cases {
        let Err(error) = outcome else { panic!("accepted, expected: {expected}") };
        let text = error.to_string();
        assert!(text.contains(expected), "{text}");
        assert!(!text.contains("***") && !text.contains("hidden"), "{text}");
    }
}

#[test]
fn keys_are_generated_and_added() {
    let first = generate().expect("a configuration");
    let (second, name) = with_new_key(&first).expect("another");
    let (old, new) = (Rules::parse(&first).expect("good"), Rules::parse(&second).expect("good"));
    let encrypted =
        old.encrypt(&secret(), b"{}").expect("encryption succeeds").expect("the value is encrypted");
    assert!(new.decrypt(&secret(), &encrypted).is_ok() && !new.is_current(&secret(), &encrypted));
    let again = new.encrypt(&secret(), b"{}").expect("encryption succeeds").expect("the value is encrypted");
    assert!(again.starts_with(format!("k8s:enc:aesgcm:v1:{name}:").as_bytes()));
    assert!(new.decrypt(&secret(), &Bytes::from_static(b"{}")).is_ok(), "plain values are still readable");
}

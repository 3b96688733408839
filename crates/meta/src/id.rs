//! Identifiers from random bytes that the caller supplies.

// upstream: staging/src/k8s.io/apiserver/pkg/storage/names/generate.go
// upstream: staging/src/k8s.io/apimachinery/pkg/util/rand/rand.go

/// Letters and digits for generated names, without vowels and without digits that resemble letters.
const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";
const SUFFIX_LENGTH: usize = 5;
/// With the suffix a generated name has at most 63 bytes and so fits every kind of name.
const MAX_BASE_LENGTH: usize = 63 - SUFFIX_LENGTH;

/// Formats a version 4 UUID.
pub fn uuid_v4(random: [u8; 16]) -> String {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    let mut bytes = random;
    bytes[6] = (bytes[6] & 0x0f) | 0x40;
    bytes[8] = (bytes[8] & 0x3f) | 0x80;
    let mut text = String::with_capacity(36);
    for (index, byte) in bytes.iter().enumerate() {
        if matches!(index, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        text.push(char::from(HEX[usize::from(byte >> 4)]));
        text.push(char::from(HEX[usize::from(byte & 15)]));
    }
    text
}

/// Returns five characters of upstream's alphabet. Eight random bytes for fourteen million possibilities make
/// the bias negligible.
pub fn name_suffix(random: [u8; 8]) -> String {
    let mut number = u64::from_le_bytes(random);
    let mut suffix = String::with_capacity(SUFFIX_LENGTH);
    for _ in 0..SUFFIX_LENGTH {
        suffix.push(char::from(ALPHABET[(number % 27) as usize]));
        number /= 27;
    }
    suffix
}

/// Returns the name of an object whose `generateName` is `base`.
pub fn generated_name(base: &str, random: [u8; 8]) -> String {
    let base = &base[..base.floor_char_boundary(MAX_BASE_LENGTH)];
    format!("{base}{}", name_suffix(random))
}

/// Letters and digits of workspace IDs.
const WORKSPACE_ALPHABET: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";
const WORKSPACE_LENGTH: usize = 15;

/// Returns the ID of a new workspace. Its 75 random bits make collisions negligible. It starts with a letter,
/// because it must be a DNS label.
pub fn workspace_id(random: &[u8; 16]) -> String {
    let letter = |(position, byte): (usize, &u8)| {
        let choices = if position == 0 { 26 } else { 32 };
        char::from(WORKSPACE_ALPHABET[usize::from(*byte) % choices])
    };
    random.iter().take(WORKSPACE_LENGTH).enumerate().map(letter).collect()
}

/// Whether a string has the form of [`workspace_id`]. The ID of the root workspace does not.
pub fn is_workspace_id(text: &str) -> bool {
    text.len() == WORKSPACE_LENGTH
        && text.bytes().all(|byte| WORKSPACE_ALPHABET.contains(&byte))
        && text.starts_with(|first: char| first.is_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uuids_carry_version_and_variant() {
        assert_eq!(uuid_v4([0; 16]), "00000000-0000-4000-8000-000000000000");
        assert_eq!(uuid_v4([0xff; 16]), "ffffffff-ffff-4fff-bfff-ffffffffffff");
        let counting: [u8; 16] = std::array::from_fn(|index| index as u8 * 17);
        assert_eq!(uuid_v4(counting), "00112233-4455-4677-8899-aabbccddeeff");
    }

    #[test]
    fn ids_of_workspaces_are_known_by_their_form() {
        for random in [[0; 16], [0xff; 16], std::array::from_fn(|index| index as u8 * 17)] {
            let id = workspace_id(&random);
            assert!(is_workspace_id(&id), "{id}");
        }
        for other in ["", "root", "aaaaaaaaaaaaaa", "2aaaaaaaaaaaaaa", "aaaaaaaaaaaaaa1", "aaaaaaaaaaaaaa/"] {
            assert!(!is_workspace_id(other), "{other}");
        }
    }

    #[test]
    fn names_get_five_characters() {
        assert_eq!(name_suffix([0; 8]), "bbbbb");
        assert_eq!(name_suffix(26u64.to_le_bytes()), "9bbbb");
        assert_eq!(name_suffix((27 * 27 * 27 * 27 * 5u64 + 1).to_le_bytes()), "cbbbh");
        assert_eq!(generated_name("web-", [0; 8]), "web-bbbbb");
    }

    #[test]
    fn long_bases_are_cut() {
        assert_eq!(generated_name(&"a".repeat(58), [0; 8]).len(), 63);
        assert_eq!(generated_name(&"a".repeat(100), [0; 8]), format!("{}bbbbb", "a".repeat(58)));
        // A character that would be cut in two is dropped.
        let base = format!("{}é", "a".repeat(57));
        assert_eq!(generated_name(&base, [0; 8]), format!("{}bbbbb", "a".repeat(57)));
    }
}

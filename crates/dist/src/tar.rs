//! Writes tar archives in the POSIX ustar format, which every tool reads. The output does not depend on the
//! machine.

use crate::PackageError;

const BLOCK: usize = 512;

/// Positions of the header fields.
const NAME: std::ops::Range<usize> = 0..100;
const MODE: std::ops::Range<usize> = 100..108;
const USER: std::ops::Range<usize> = 108..116;
const GROUP: std::ops::Range<usize> = 116..124;
const SIZE: std::ops::Range<usize> = 124..136;
const TIME: std::ops::Range<usize> = 136..148;
const CHECKSUM: std::ops::Range<usize> = 148..156;
const KIND: usize = 156;
const TARGET: std::ops::Range<usize> = 157..257;
const MAGIC: std::ops::Range<usize> = 257..265;
const PREFIX: std::ops::Range<usize> = 345..500;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content<'a> {
    Directory,
    File(&'a [u8]),
    /// A symbolic link with this target.
    Symlink(&'a str),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TarEntry<'a> {
    /// Relative path with slashes, without a trailing slash.
    pub path: &'a str,
    pub mode: u32,
    pub user: u32,
    pub group: u32,
    pub content: Content<'a>,
}

impl<'a> TarEntry<'a> {
    pub fn directory(path: &'a str) -> Self {
        TarEntry { path, mode: 0o755, user: 0, group: 0, content: Content::Directory }
    }

    pub fn file(path: &'a str, content: &'a [u8]) -> Self {
        TarEntry { path, mode: 0o644, user: 0, group: 0, content: Content::File(content) }
    }
}

/// Returns the archive of `entries`, in their order.
pub fn archive(entries: &[TarEntry]) -> Result<Vec<u8>, PackageError> {
    let mut bytes = Vec::new();
    for entry in entries {
        bytes.extend_from_slice(&header(entry)?);
        if let Content::File(content) = entry.content {
            bytes.extend_from_slice(content);
            bytes.resize(bytes.len().next_multiple_of(BLOCK), 0);
        }
    }
    // Two zero blocks end the archive.
    bytes.resize(bytes.len() + 2 * BLOCK, 0);
    Ok(bytes)
}

fn header(entry: &TarEntry) -> Result<[u8; BLOCK], PackageError> {
    let failed = |problem| PackageError::Entry { path: entry.path.to_owned(), problem };
    let mut block = [0; BLOCK];
    let (kind, size) = match entry.content {
        Content::Directory => (b'5', 0),
        Content::File(content) => (b'0', content.len()),
        Content::Symlink(target) => {
            text(&mut block[TARGET], target).ok_or(failed("its link target is longer than 100 bytes"))?;
            (b'2', 0)
        }
    };
    let path = match kind {
        b'5' => format!("{}/", entry.path),
        _ => entry.path.to_owned(),
    };
    let (prefix, name) = split(&path).ok_or(failed("its path is too long"))?;
    text(&mut block[NAME], name).ok_or(failed("its name is too long"))?;
    text(&mut block[PREFIX], prefix).ok_or(failed("its path is too long"))?;
    number(&mut block[MODE], entry.mode.into()).ok_or(failed("its mode is too large"))?;
    number(&mut block[USER], entry.user.into()).ok_or(failed("its user id is too large"))?;
    number(&mut block[GROUP], entry.group.into()).ok_or(failed("its group id is too large"))?;
    number(&mut block[SIZE], size as u64).ok_or(failed("it is larger than 8 GiB"))?;
    number(&mut block[TIME], 0).ok_or(failed("its time is too large"))?;
    block[KIND] = kind;
    block[MAGIC].copy_from_slice(b"ustar\x0000");
    // The checksum is computed with its own field filled with spaces.
    block[CHECKSUM].fill(b' ');
    let sum: u64 = block.iter().map(|byte| u64::from(*byte)).sum();
    let field = &mut block[CHECKSUM];
    number(&mut field[..7], sum).ok_or(failed("its header checksum is too large"))?;
    Ok(block)
}

/// Splits a path that is too long for the name field at a slash: the first part goes into the prefix field.
fn split(path: &str) -> Option<(&str, &str)> {
    if path.len() <= NAME.len() {
        return Some(("", path));
    }
    let cuts = path.match_indices('/').map(|(position, _)| position);
    // The trailing slash of a directory is not a valid split.
    let mut fitting = cuts.filter(|cut| {
        let name = path.len() - cut - 1;
        *cut > 0 && *cut <= PREFIX.len() && name > 0 && name <= NAME.len()
    });
    fitting.next().map(|cut| (&path[..cut], &path[cut + 1..]))
}

fn text(field: &mut [u8], value: &str) -> Option<()> {
    field.get_mut(..value.len())?.copy_from_slice(value.as_bytes());
    Some(())
}

/// Writes octal digits to all of the field but its last byte, which stays zero.
fn number(field: &mut [u8], value: u64) -> Option<()> {
    let digits = field.len() - 1;
    let text = format!("{value:0digits$o}");
    (text.len() == digits).then(|| field[..digits].copy_from_slice(text.as_bytes()))?;
    field[digits] = 0;
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a field up to its first zero byte.
    fn read(block: &[u8], field: std::ops::Range<usize>) -> String {
        let bytes = block[field].iter().take_while(|byte| **byte != 0).copied().collect();
        String::from_utf8(bytes).expect("fields are text")
    }

    #[test]
    fn headers_describe_entries() {
        let file = TarEntry { mode: 0o755, user: 1, group: 65_532, ..TarEntry::file("a/b", b"abc") };
        let link = TarEntry { content: Content::Symlink("b"), ..TarEntry::file("a/c", b"") };
        let cases: [(TarEntry, &str, &str, &str, &str, u8, &str); 4] = [
            (TarEntry::directory("a"), "a/", "0000755", "0000000", "00000000000", b'5', ""),
            (file, "a/b", "0000755", "0177774", "00000000003", b'0', ""),
            (link, "a/c", "0000644", "0000000", "00000000000", b'2', "b"),
            (TarEntry::file("empty", b""), "empty", "0000644", "0000000", "00000000000", b'0', ""),
        ];
        for (entry, name, mode, group, size, kind, target) in cases {
            let block = header(&entry).expect("it fits");
            let found = [NAME, MODE, GROUP, SIZE, TARGET].map(|field| read(&block, field));
            assert_eq!(found, [name, mode, group, size, target], "{entry:?}");
            assert_eq!(block[KIND], kind, "{entry:?}");
            assert_eq!(read(&block, TIME), "00000000000");
            assert_eq!(block[MAGIC], *b"ustar\x0000");
            // Verify the checksum as a reader does.
            let sum = u64::from_str_radix(&read(&block, CHECKSUM), 8).expect("a number");
            let others = block.iter().enumerate().filter(|(at, _)| !CHECKSUM.contains(at));
            assert_eq!(sum, others.map(|(_, byte)| u64::from(*byte)).sum::<u64>() + 8 * u64::from(b' '));
        }
    }

    #[test]
    fn content_is_padded_to_blocks_and_followed_by_two_zero_blocks() {
        for (size, blocks) in [(0, 1 + 2), (1, 2 + 2), (512, 2 + 2), (513, 3 + 2)] {
            let content = vec![b'x'; size];
            let bytes = archive(&[TarEntry::file("a", &content)]).expect("it fits");
            assert_eq!(bytes.len(), blocks * BLOCK, "{size}");
            assert_eq!(bytes[BLOCK..BLOCK + size], content);
            assert!(bytes[BLOCK + size..].iter().all(|byte| *byte == 0), "{size}");
        }
        assert_eq!(archive(&[]).expect("it fits"), [0; 2 * BLOCK]);
    }

    #[test]
    fn long_paths_are_split_at_a_slash() {
        let (short, long) = ("d".repeat(60), "n".repeat(100));
        let cases = [
            (long.clone(), Some((String::new(), long.clone()))),
            (format!("{short}/{long}"), Some((short.clone(), long.clone()))),
            (format!("{short}/{short}/"), Some((short.clone(), format!("{short}/")))),
            (format!("{short}/{long}n"), None),
            (format!("{short}/{short}/{short}/{long}"), None),
            (format!("/{long}"), None),
        ];
        for (path, expected) in cases {
            let found = split(&path).map(|(prefix, name)| (prefix.to_owned(), name.to_owned()));
            assert_eq!(found, expected, "{path}");
        }
    }

    #[test]
    fn entries_that_do_not_fit_are_rejected() {
        let long = "n".repeat(101);
        let cases = [
            (TarEntry::file(&long, b""), "its path is too long"),
            (
                TarEntry { content: Content::Symlink(&long), ..TarEntry::file("a", b"") },
                "its link target is longer than 100 bytes",
            ),
            (TarEntry { user: 0o10_000_000, ..TarEntry::file("a", b"") }, "its user id is too large"),
            (TarEntry { group: 0o10_000_000, ..TarEntry::file("a", b"") }, "its group id is too large"),
        ];
        for (entry, expected) in cases {
            match archive(std::slice::from_ref(&entry)) {
                Err(PackageError::Entry { problem, .. }) => assert_eq!(problem, expected),
                other => panic!("{entry:?}: {other:?}"),
            }
        }
    }
}

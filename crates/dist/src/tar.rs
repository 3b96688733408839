//! Writes tar archives in the POSIX ustar format, which every tool reads. The output does not depend on the
//! machine.

use tar::{Builder, EntryType, Header};

use crate::PackageError;

/// The largest numbers in the fields of a header, which are octal. The crate `tar` would use extensions of
/// GNU beyond them.
const MAX_ID: u32 = 0o7_777_777;
const MAX_SIZE: u64 = 0o77_777_777_777;

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
    let mut builder = Builder::new(Vec::new());
    let failed = |path: &str, error| PackageError::File { path: path.into(), error };
    for entry in entries {
        let content = match entry.content {
            Content::File(content) => content,
            Content::Directory | Content::Symlink(_) => &[],
        };
        builder.append(&header(entry, content)?, content).map_err(|error| failed(entry.path, error))?;
    }
    builder.into_inner().map_err(|error| failed("the archive", error))
}

fn header(entry: &TarEntry, content: &[u8]) -> Result<Header, PackageError> {
    let failed = |problem| PackageError::Entry { path: entry.path.to_owned(), problem };
    let mut header = Header::new_ustar();
    let kind = match entry.content {
        Content::Directory => EntryType::Directory,
        Content::File(_) => EntryType::Regular,
        Content::Symlink(target) => {
            let set = header.set_link_name(target);
            set.map_err(|_| failed("its link target is longer than 100 bytes"))?;
            EntryType::Symlink
        }
    };
    let slash = if kind == EntryType::Directory { "/" } else { "" };
    let set = header.set_path(format!("{}{slash}", entry.path));
    set.map_err(|_| failed("its path is too long"))?;
    if entry.user > MAX_ID {
        return Err(failed("its user id is too large"));
    }
    if entry.group > MAX_ID {
        return Err(failed("its group id is too large"));
    }
    let size = content.len() as u64;
    if size > MAX_SIZE {
        return Err(failed("it is larger than 8 GiB"));
    }
    header.set_entry_type(kind);
    header.set_mode(entry.mode);
    header.set_uid(entry.user.into());
    header.set_gid(entry.group.into());
    header.set_size(size);
    header.set_mtime(0);
    header.set_cksum();
    Ok(header)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BLOCK: usize = 512;

    #[test]
    fn headers_describe_entries() {
        let file = TarEntry { mode: 0o755, user: 1, group: 65_532, ..TarEntry::file("a/b", b"abc") };
        let link = TarEntry { content: Content::Symlink("b"), ..TarEntry::file("a/c", b"") };
        let (directory, empty) = (TarEntry::directory("a"), TarEntry::file("empty", b""));
        // The fields of the format, so that nothing depends on how this crate reads them.
        let cases: [(TarEntry, u8, [&[u8]; 5]); 4] = [
            (directory, b'5', [b"a/\0", b"0000755\0", b"0000000\0", b"00000000000\0", b"\0"]),
            (file, b'0', [b"a/b\0", b"0000755\0", b"0177774\0", b"00000000003\0", b"\0"]),
            (link, b'2', [b"a/c\0", b"0000644\0", b"0000000\0", b"00000000000\0", b"b\0"]),
            (empty, b'0', [b"empty\0", b"0000644\0", b"0000000\0", b"00000000000\0", b"\0"]),
        ];
        for (entry, kind, [name, mode, group, size, target]) in cases {
            let block = archive(std::slice::from_ref(&entry)).expect("it fits");
            let fields: [(usize, &[u8]); 8] = [
                (0, name),
                (100, mode),
                (116, group),
                (124, size),
                (136, b"00000000000\0"),
                (156, &[kind]),
                (157, target),
                (257, b"ustar\x0000"),
            ];
            for (start, expected) in fields {
                assert_eq!(&block[start..start + expected.len()], expected, "{entry:?} at {start}");
            }
            // Verify the checksum as a reader does.
            let digits = String::from_utf8_lossy(&block[148..156]);
            let digits = digits.trim_matches(['\0', ' ']);
            let sum = u64::from_str_radix(digits, 8).expect("a number");
            let others = block[..BLOCK].iter().enumerate().filter(|(at, _)| !(148..156).contains(at));
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
        for (path, fits) in [
            (long.clone(), true),
            (format!("{short}/{long}"), true),
            (format!("{short}/{short}"), true),
            (format!("{short}/{long}n"), false),
            (format!("{short}/{short}/{short}/{long}"), false),
            (format!("/{long}"), false),
        ] {
            let bytes = archive(&[TarEntry::file(&path, b"")]);
            assert_eq!(bytes.is_ok(), fits, "{path}");
            let Ok(bytes) = bytes else { continue };
            // One block and the end: no additional entry for the path.
            assert_eq!(bytes.len(), 3 * BLOCK, "{path}");
            let mut read = tar::Archive::new(&bytes[..]);
            let entry = read.entries().expect("an archive").next().expect("an entry").expect("an entry");
            assert_eq!(entry.path().expect("a path").to_str(), Some(path.as_str()));
        }
        let path = format!("{short}/{short}");
        let bytes = archive(&[TarEntry::directory(&path)]).expect("it fits");
        assert_eq!((&bytes[..61], &bytes[345..405]), (format!("{short}/").as_bytes(), short.as_bytes()));
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

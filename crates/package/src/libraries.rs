//! Which libraries a program is given, by the one who gives them: its loader.

use std::path::Path;
use std::process::Command;

use crate::Error;

/// A file of the system, and where it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Library {
    pub path: String,
    pub content: Vec<u8>,
}

/// The loader and all that it loads for the program at `path`.
///
/// In a container there is no cache of where libraries are, so the loader is asked where it looks without. It finds them
/// there under the same paths.
pub fn of(path: &Path, loader: &str) -> Result<Vec<Library>, Error> {
    let failed = |problem: String| Error::Loader { path: loader.to_owned(), problem };
    let mut command = Command::new(loader);
    // Another one than glibc's has no cache.
    if !loader.contains("musl") {
        command.arg("--inhibit-cache");
    }
    // Variables that change what is found: cargo sets one for those it runs.
    for variable in ["LD_LIBRARY_PATH", "LD_PRELOAD", "LD_AUDIT"] {
        command.env_remove(variable);
    }
    let output = command.arg("--list").arg(path).output().map_err(|error| failed(error.to_string()))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let paths = paths(&text)?;
    if !output.status.success() {
        return Err(failed(String::from_utf8_lossy(&output.stderr).trim().to_owned()));
    }
    let all = std::iter::once(loader).chain(paths);
    all.map(|path| {
        let content = std::fs::read(path).map_err(Error::file(Path::new(path)))?;
        Ok(Library { path: path.to_owned(), content })
    })
    .collect()
}

/// Reads lines such as `libm.so.6 => /lib/libm.so.6 (0x00007f)`. What has no arrow is the loader itself or comes from the kernel.
fn paths(listing: &str) -> Result<Vec<&str>, Error> {
    let mut missing = Vec::new();
    let mut found = Vec::new();
    for (name, place) in listing.lines().filter_map(|line| line.trim().split_once(" => ")) {
        let path = place.rsplit_once(" (").map_or(place, |(path, _)| path);
        match (name.starts_with('/'), path.starts_with('/')) {
            (true, _) => {}
            (false, true) => found.push(path),
            (false, false) => missing.push(name.to_owned()),
        }
    }
    if missing.is_empty() { Ok(found) } else { Err(Error::Libraries(missing)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listings_are_read() {
        let glibc = "\tlinux-vdso.so.1 (0x00007ffd)\n\tlibgcc_s.so.1 => /lib/a b/libgcc_s.so.1 (0x00007f1)\n\
                     \tlibc.so.6 => /lib/libc.so.6 (0x00007f0)\n\t/lib64/ld-linux-x86-64.so.2 (0x00007f2)\n";
        let musl =
            "\t/lib/ld-musl-x86_64.so.1 (0x7f)\n\tlibc.musl-x86_64.so.1 => /lib/ld-musl-x86_64.so.1 (0x7f)\n";
        let arm = "\t/lib/ld-linux-aarch64.so.1 => /lib64/ld-linux-aarch64.so.1 (0x00ff)\n";
        let cases: [(&str, &[&str]); 4] = [
            (glibc, &["/lib/a b/libgcc_s.so.1", "/lib/libc.so.6"]),
            (musl, &["/lib/ld-musl-x86_64.so.1"]),
            (arm, &[]),
            ("\tstatically linked\n", &[]),
        ];
        for (listing, expected) in cases {
            assert_eq!(paths(listing).expect("all are found"), expected, "{listing}");
        }
    }

    #[test]
    fn what_is_missing_is_named() {
        let listing = "\tliba.so => not found\n\tlibc.so.6 => /lib/libc.so.6 (0x1)\n\tlibb.so => not found\n";
        let problem = paths(listing).expect_err("two are missing").to_string();
        assert!(problem.contains("finds liba.so, libb.so only"), "{problem}");
    }

    #[test]
    fn a_loader_that_is_not_there_is_named() {
        let problem = of(Path::new("/bin/true"), "/no/such/loader").expect_err("there is none").to_string();
        assert!(problem.contains("/no/such/loader"), "{problem}");
    }
}

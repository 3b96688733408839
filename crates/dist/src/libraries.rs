//! Lists the shared libraries of a program by running its loader.

use std::path::Path;
use std::process::Command;

use crate::PackageError;

/// A file of this machine's system, with its path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Library {
    pub path: String,
    pub content: Vec<u8>,
}

/// Returns the loader and the libraries that it loads for the program at `path`.
///
/// A container has no library cache (`ld.so.cache`), so the loader searches its default directories only. The
/// libraries get the same paths in the image.
pub fn list(path: &Path, loader: &str) -> Result<Vec<Library>, PackageError> {
    let failed = |problem: String| PackageError::Loader { path: loader.to_owned(), problem };
    let mut command = Command::new(loader);
    // Only glibc's loader has a cache.
    if !loader.contains("musl") {
        command.arg("--inhibit-cache");
    }
    // These variables change which libraries are found. Cargo sets `LD_LIBRARY_PATH` for the programs that it
    // runs.
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
        let content = std::fs::read(path).map_err(PackageError::file(Path::new(path)))?;
        Ok(Library { path: path.to_owned(), content })
    })
    .collect()
}

/// Parses lines such as `libm.so.6 => /lib/libm.so.6 (0x00007f)`. Lines without an arrow are the loader
/// itself or come from the kernel.
fn paths(listing: &str) -> Result<Vec<&str>, PackageError> {
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
    if missing.is_empty() { Ok(found) } else { Err(PackageError::Libraries(missing)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listings_are_parsed() {
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
    fn missing_libraries_are_named() {
        let listing = "\tliba.so => not found\n\tlibc.so.6 => /lib/libc.so.6 (0x1)\n\tlibb.so => not found\n";
        let problem = paths(listing).expect_err("two are missing").to_string();
        assert!(problem.contains("finds liba.so, libb.so only"), "{problem}");
    }

    #[test]
    fn missing_loader_is_named() {
        let problem = list(Path::new("/bin/true"), "/no/such/loader").expect_err("there is none").to_string();
        assert!(problem.contains("/no/such/loader"), "{problem}");
    }
}

//! Reads the architecture and the loader of an ELF file.

use crate::PackageError;

/// Type of the program header (PT_INTERP) that holds the path of the loader.
const INTERPRETER: u64 = 3;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Executable {
    /// Architecture in the naming of OCI images.
    pub architecture: &'static str,
    /// Path of the loader. `None` for a statically linked program, which needs no libraries.
    pub loader: Option<String>,
}

pub fn read(bytes: &[u8]) -> Result<Executable, PackageError> {
    if !bytes.starts_with(b"\x7fELF") {
        return Err(PackageError::Program("it is not an ELF file"));
    }
    // Class 2 is 64-bit and data 1 is little-endian, as on every supported architecture.
    if bytes.get(4..6) != Some(&[2, 1]) {
        return Err(PackageError::Program("it is not a 64-bit little-endian program"));
    }
    let broken = PackageError::Program("its ELF headers are truncated or invalid");
    let Some(machine) = unsigned(bytes, 18, 2) else { return Err(broken) };
    let architecture = match machine {
        62 => "amd64",
        183 => "arm64",
        243 => "riscv64",
        258 => "loong64",
        _ => return Err(PackageError::Program("its architecture is not supported")),
    };
    match loader(bytes) {
        Some(loader) => Ok(Executable { architecture, loader }),
        None => Err(broken),
    }
}

/// Returns the loader's path, or `None` if the file is truncated or its headers are invalid.
fn loader(bytes: &[u8]) -> Option<Option<String>> {
    let (table, size, count) = (unsigned(bytes, 32, 8)?, unsigned(bytes, 54, 2)?, unsigned(bytes, 56, 2)?);
    for number in 0..count {
        let header = table.checked_add(number.checked_mul(size)?)?;
        if unsigned(bytes, header, 4)? != INTERPRETER {
            continue;
        }
        let begin = unsigned(bytes, header.checked_add(8)?, 8)?;
        let length = unsigned(bytes, header.checked_add(32)?, 8)?;
        let range = usize::try_from(begin).ok()?..usize::try_from(begin.checked_add(length)?).ok()?;
        let path = bytes.get(range)?.strip_suffix(b"\0")?;
        return Some(Some(String::from_utf8(path.to_vec()).ok()?));
    }
    Some(None)
}

fn unsigned(bytes: &[u8], position: u64, size: usize) -> Option<u64> {
    let position = usize::try_from(position).ok()?;
    let field = bytes.get(position..position.checked_add(size)?)?;
    Some(field.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Builds an ELF file with program headers of the given types. Each header covers `text`, which is at the
    /// end.
    fn file(machine: u16, types: &[u32], text: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0; 64];
        bytes[..6].copy_from_slice(b"\x7fELF\x02\x01");
        bytes[18..20].copy_from_slice(&machine.to_le_bytes());
        bytes[32..40].copy_from_slice(&64_u64.to_le_bytes());
        bytes[54..56].copy_from_slice(&56_u16.to_le_bytes());
        bytes[56..58].copy_from_slice(&(types.len() as u16).to_le_bytes());
        let begin = 64 + 56 * types.len() as u64;
        for kind in types {
            let mut header = [0; 56];
            header[..4].copy_from_slice(&kind.to_le_bytes());
            header[8..16].copy_from_slice(&begin.to_le_bytes());
            header[32..40].copy_from_slice(&(text.len() as u64).to_le_bytes());
            bytes.extend_from_slice(&header);
        }
        bytes.extend_from_slice(text);
        bytes
    }

    #[test]
    fn architecture_and_loader_are_read() {
        let path = "/lib64/ld.so";
        for (machine, types, architecture, loader) in [
            (62, vec![6, 3, 1], "amd64", Some(path)),
            (183, vec![3], "arm64", Some(path)),
            (243, vec![1, 1], "riscv64", None),
            (258, vec![], "loong64", None),
        ] {
            let found = read(&file(machine, &types, b"/lib64/ld.so\0")).expect("a program");
            assert_eq!(found, Executable { architecture, loader: loader.map(str::to_owned) });
        }
    }

    #[test]
    fn invalid_files_are_rejected() {
        let valid = file(62, &[1, 3], b"/ld.so\0");
        let with = |at: usize, value: u8| {
            let mut bytes = valid.clone();
            bytes[at] = value;
            bytes
        };
        let cases = [
            (b"\xcf\xfa\xed\xfe".to_vec(), "not an ELF file"),
            (b"#!/bin/sh\n".to_vec(), "not an ELF file"),
            (Vec::new(), "not an ELF file"),
            (with(4, 1), "64-bit"),
            (with(5, 2), "little-endian"),
            (with(18, 40), "architecture is not supported"),
            (valid[..valid.len() - 1].to_vec(), "truncated"),
            (valid[..100].to_vec(), "truncated"),
            (valid[..10].to_vec(), "truncated"),
            // The offset of the program headers is beyond the end of the file.
            (with(39, 0xff), "truncated"),
        ];
        for (bytes, expected) in cases {
            let problem = read(&bytes).expect_err("the file is invalid").to_string();
            assert!(problem.contains(expected), "{problem}");
        }
    }

    #[test]
    fn test_executable_is_readable() {
        let own = std::env::current_exe().and_then(std::fs::read).expect("the test executable is readable");
        match read(&own) {
            Ok(program) => assert!(program.loader.is_none_or(|loader| loader.starts_with('/'))),
            Err(problem) => assert_ne!(std::env::consts::OS, "linux", "{problem}"),
        }
    }
}

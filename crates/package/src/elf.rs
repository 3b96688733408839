//! The little of an ELF file that an image has to know: the processor it is for, and the loader it asks for.

use crate::Error;

/// A type of program header: the path of the loader.
const INTERPRETER: u64 = 3;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// As images name it.
    pub architecture: &'static str,
    /// Where the loader is; a program without one needs no libraries.
    pub loader: Option<String>,
}

pub fn read(bytes: &[u8]) -> Result<Program, Error> {
    if !bytes.starts_with(b"\x7fELF") {
        return Err(Error::Program("it is not for Linux"));
    }
    // Class 2 has 64 bits, data 1 is little-endian: all that is in use.
    if bytes.get(4..6) != Some(&[2, 1]) {
        return Err(Error::Program("it is not for a little-endian processor of 64 bits"));
    }
    let broken = Error::Program("its headers are not whole");
    let Some(machine) = unsigned(bytes, 18, 2) else { return Err(broken) };
    let architecture = match machine {
        62 => "amd64",
        183 => "arm64",
        243 => "riscv64",
        258 => "loong64",
        _ => return Err(Error::Program("its processor is not known")),
    };
    match loader(bytes) {
        Some(loader) => Ok(Program { architecture, loader }),
        None => Err(broken),
    }
}

/// `None` if the file is cut off or says what cannot be.
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

    /// A file with headers of these types; each covers `text`, which is at its end.
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
    fn the_processor_and_the_loader_are_found() {
        let path = "/lib64/ld.so";
        for (machine, types, architecture, loader) in [
            (62, vec![6, 3, 1], "amd64", Some(path)),
            (183, vec![3], "arm64", Some(path)),
            (243, vec![1, 1], "riscv64", None),
            (258, vec![], "loong64", None),
        ] {
            let found = read(&file(machine, &types, b"/lib64/ld.so\0")).expect("a program");
            assert_eq!(found, Program { architecture, loader: loader.map(str::to_owned) });
        }
    }

    #[test]
    fn other_files_are_refused() {
        let whole = file(62, &[1, 3], b"/ld.so\0");
        let with = |at: usize, value: u8| {
            let mut bytes = whole.clone();
            bytes[at] = value;
            bytes
        };
        let cases = [
            (b"\xcf\xfa\xed\xfe".to_vec(), "not for Linux"),
            (b"#!/bin/sh\n".to_vec(), "not for Linux"),
            (Vec::new(), "not for Linux"),
            (with(4, 1), "64 bits"),
            (with(5, 2), "little-endian"),
            (with(18, 40), "processor is not known"),
            (whole[..whole.len() - 1].to_vec(), "not whole"),
            (whole[..100].to_vec(), "not whole"),
            (whole[..10].to_vec(), "not whole"),
            // Headers at the end of all addresses.
            (with(39, 0xff), "not whole"),
        ];
        for (bytes, expected) in cases {
            let problem = read(&bytes).expect_err("it is no program").to_string();
            assert!(problem.contains(expected), "{problem}");
        }
    }

    #[test]
    fn this_program_is_one() {
        let own = std::env::current_exe().and_then(std::fs::read).expect("it can be read");
        match read(&own) {
            Ok(program) => assert!(program.loader.is_none_or(|loader| loader.starts_with('/'))),
            Err(problem) => assert_ne!(std::env::consts::OS, "linux", "{problem}"),
        }
    }
}

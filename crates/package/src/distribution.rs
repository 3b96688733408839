//! The directory that is handed on: the program under its names, the image, and checksums of everything.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::digest::sha256;
use crate::image::Image;
use crate::{Error, elf, libraries};

/// What container runtimes shall call the image. It is in no registry, so the host is this one.
pub const REFERENCE: &str = "localhost/atoll:1";

pub const CHECKSUMS: &str = "SHA256SUMS";

/// Names that kubectl looks for. The program knows by them what it is asked for, so they are links to it.
const PLUGIN: [&str; 2] = ["kubectl-atoll", "kubectl_complete-atoll"];

/// Writes everything that is made of `program` into `directory`, and tells `progress` of each step.
pub fn write(
    program: &Path,
    version: &str,
    directory: &Path,
    mut progress: impl FnMut(&str),
) -> Result<(), Error> {
    let content = fs::read(program).map_err(Error::file(program))?;
    let kind = elf::read(&content)?;
    fs::create_dir_all(directory).map_err(Error::file(directory))?;
    let name = format!("atoll-{version}-linux-{}", kind.architecture);
    let mut sums = Vec::new();

    let place = put(directory, &name, &content, 0o755)?;
    progress(&format!("{}: {}", place.display(), size(content.len())));
    sums.push((sha256(&content), name.clone()));
    for link in PLUGIN {
        let path = directory.join(link);
        remove(&path)?;
        fs::hard_link(&place, &path).map_err(Error::file(&path))?;
        progress(&format!("{}: the same file, for kubectl", path.display()));
        sums.push((sha256(&content), link.to_owned()));
    }

    let libraries = match &kind.loader {
        Some(loader) => libraries::of(program, loader)?,
        None => Vec::new(),
    };
    for library in &libraries {
        progress(&format!("  into the image: {}, {}", library.path, size(library.content.len())));
    }
    let image = Image {
        reference: REFERENCE,
        version,
        architecture: kind.architecture,
        program: &content,
        libraries: &libraries,
    };
    let image = image.archive()?;
    let name = format!("{name}.oci.tar");
    let place = put(directory, &name, &image, 0o644)?;
    progress(&format!("{}: {}, the image {REFERENCE}", place.display(), size(image.len())));
    sums.push((sha256(&image), name));

    sums.sort_by(|one, other| one.1.cmp(&other.1));
    let text: String = sums.iter().map(|(sum, name)| format!("{sum}  {name}\n")).collect();
    let place = put(directory, CHECKSUMS, text.as_bytes(), 0o644)?;
    progress(&format!("{}: check it with sha256sum -c {CHECKSUMS}", place.display()));
    Ok(())
}

/// Writes a file beside its place and moves it there whole: a program that runs is not touched.
fn put(directory: &Path, name: &str, content: &[u8], mode: u32) -> Result<PathBuf, Error> {
    let (path, draft) = (directory.join(name), directory.join(format!(".{name}.draft")));
    fs::write(&draft, content).map_err(Error::file(&draft))?;
    fs::set_permissions(&draft, fs::Permissions::from_mode(mode)).map_err(Error::file(&draft))?;
    fs::rename(&draft, &path).map_err(Error::file(&path))?;
    Ok(path)
}

fn remove(path: &Path) -> Result<(), Error> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(Error::file(path)(error)),
        _ => Ok(()),
    }
}

fn size(bytes: usize) -> String {
    match bytes {
        0..100_000 => format!("{bytes} bytes"),
        _ => format!("{}.{} MB", bytes / 1_000_000, bytes % 1_000_000 / 100_000),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_for_people() {
        for (bytes, expected) in
            [(0, "0 bytes"), (99_999, "99999 bytes"), (100_000, "0.1 MB"), (31_174_344, "31.1 MB")]
        {
            assert_eq!(size(bytes), expected);
        }
    }
}

//! Writes the distribution directory: the program with its kubectl names, the image, and checksums.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::digest::sha256;
use crate::image::Image;
use crate::{PackageError, elf, libraries};

/// Image name. The image is in no registry, so its host is `localhost`.
pub const REFERENCE: &str = "localhost/atoll:1";

pub const CHECKSUMS: &str = "SHA256SUMS";

/// File names that kubectl looks for. The program chooses its behavior by its own name, so these are hard
/// links to it.
const PLUGIN: [&str; 2] = ["kubectl-atoll", "kubectl_complete-atoll"];

/// Writes the distribution of `program` into `directory` and reports each step to `progress`.
pub fn write(
    program: &Path,
    version: &str,
    directory: &Path,
    mut progress: impl FnMut(&str),
) -> Result<(), PackageError> {
    let content = fs::read(program).map_err(PackageError::file(program))?;
    let kind = elf::read(&content)?;
    fs::create_dir_all(directory).map_err(PackageError::file(directory))?;
    let name = format!("atoll-{version}-linux-{}", kind.architecture);
    let mut checksums = Vec::new();

    let file = write_file(directory, &name, &content, 0o755)?;
    progress(&format!("{}: {}", file.display(), size(content.len())));
    checksums.push((sha256(&content), name.clone()));
    for link in PLUGIN {
        let path = directory.join(link);
        remove(&path)?;
        fs::hard_link(&file, &path).map_err(PackageError::file(&path))?;
        progress(&format!("{}: the same file, for kubectl", path.display()));
        checksums.push((sha256(&content), link.to_owned()));
    }

    let libraries = match &kind.loader {
        Some(loader) => libraries::list(program, loader)?,
        None => Vec::new(),
    };
    for library in &libraries {
        progress(&format!("  adding to the image: {}, {}", library.path, size(library.content.len())));
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
    let file = write_file(directory, &name, &image, 0o644)?;
    progress(&format!("{}: {}, the image {REFERENCE}", file.display(), size(image.len())));
    checksums.push((sha256(&image), name));

    checksums.sort_by(|one, other| one.1.cmp(&other.1));
    let text: String = checksums.iter().map(|(sum, name)| format!("{sum}  {name}\n")).collect();
    let file = write_file(directory, CHECKSUMS, text.as_bytes(), 0o644)?;
    progress(&format!("{}: verify with sha256sum -c {CHECKSUMS}", file.display()));
    Ok(())
}

/// Writes a temporary file and renames it, so that a running program is never overwritten in place.
fn write_file(directory: &Path, name: &str, content: &[u8], mode: u32) -> Result<PathBuf, PackageError> {
    let (path, draft) = (directory.join(name), directory.join(format!(".{name}.draft")));
    fs::write(&draft, content).map_err(PackageError::file(&draft))?;
    fs::set_permissions(&draft, fs::Permissions::from_mode(mode)).map_err(PackageError::file(&draft))?;
    fs::rename(&draft, &path).map_err(PackageError::file(&path))?;
    Ok(path)
}

fn remove(path: &Path) -> Result<(), PackageError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(PackageError::file(path)(error)),
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
    fn sizes_are_human_readable() {
        for (bytes, expected) in
            [(0, "0 bytes"), (99_999, "99999 bytes"), (100_000, "0.1 MB"), (31_174_344, "31.1 MB")]
        {
            assert_eq!(size(bytes), expected);
        }
    }
}

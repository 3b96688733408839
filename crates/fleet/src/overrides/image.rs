//! Names of images: `registry.example.com:5000/team/app:1.2@sha256:…`.

/// The registry of names that say none.
const DEFAULT: &str = "docker.io";
/// Where it keeps names that have only one part.
const DEFAULT_FOLDER: &str = "library";
/// Its older name.
const DEFAULT_ALIAS: &str = "index.docker.io";

/// Registry and the rest of a name, as container runtimes understand it: the first part is a registry only if it could not
/// be a folder.
fn split(image: &str) -> (&str, String) {
    match image.split_once('/') {
        Some((first, rest)) if is_registry(first) => {
            (if first == DEFAULT_ALIAS { DEFAULT } else { first }, in_folder(first, rest))
        }
        _ => (DEFAULT, in_folder(DEFAULT, image)),
    }
}

pub(super) fn is_registry(part: &str) -> bool {
    part == "localhost" || part.contains(['.', ':']) || part.bytes().any(|byte| byte.is_ascii_uppercase())
}

fn in_folder(registry: &str, rest: &str) -> String {
    let is_default = registry == DEFAULT || registry == DEFAULT_ALIAS;
    if is_default && !rest.contains('/') { format!("{DEFAULT_FOLDER}/{rest}") } else { rest.to_owned() }
}

/// The name of the same image elsewhere: `to` instead of `from`, or instead of whatever its registry is. Both are
/// registries, perhaps with folders. `None` if it stays.
pub(super) fn moved(image: &str, from: Option<&str>, to: &str) -> Option<String> {
    if image.is_empty() {
        return None;
    }
    let (registry, rest) = split(image);
    let whole = format!("{registry}/{rest}");
    if below(&whole, to).is_some() {
        return None;
    }
    let kept = match from {
        None => rest.as_str(),
        Some(from) => below(
            &whole,
            from.strip_prefix("index.").filter(|name| name.starts_with(DEFAULT)).unwrap_or(from),
        )?,
    };
    Some(format!("{to}/{kept}"))
}

/// What of a name is below a folder.
fn below<'a>(whole: &'a str, folder: &str) -> Option<&'a str> {
    whole.strip_prefix(folder)?.strip_prefix('/')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_are_found_elsewhere() {
        let mirror = "mirror.local:5000/hub";
        let cases = [
            ("nginx", None, mirror, "mirror.local:5000/hub/library/nginx"),
            ("nginx:1.25", None, mirror, "mirror.local:5000/hub/library/nginx:1.25"),
            ("team/app:1", None, mirror, "mirror.local:5000/hub/team/app:1"),
            ("docker.io/nginx", None, "r.io", "r.io/library/nginx"),
            ("docker.io/library/nginx@sha256:ab", None, "r.io", "r.io/library/nginx@sha256:ab"),
            ("index.docker.io/nginx", Some("docker.io"), "r.io", "r.io/library/nginx"),
            ("nginx", Some("index.docker.io"), "r.io", "r.io/library/nginx"),
            ("ghcr.io/team/app:1.2@sha256:ab", None, "r.io", "r.io/team/app:1.2@sha256:ab"),
            ("host:5000/app:1", None, "r.io", "r.io/app:1"),
            ("localhost/app", None, "r.io", "r.io/app"),
            ("localhost:5000/app", Some("localhost:5000"), "r.io", "r.io/app"),
            ("[fd00::1]:5000/app", None, "r.io", "r.io/app"),
            ("nginx", Some("docker.io"), "r.io", "r.io/library/nginx"),
            ("nginx", Some("docker.io/library"), "r.io/a", "r.io/a/nginx"),
            ("ghcr.io/team/app", Some("ghcr.io/team"), "r.io", "r.io/app"),
            // These stay.
            ("ghcr.io/team/app", Some("docker.io"), "r.io", ""),
            ("ghcr.io/teams/app", Some("ghcr.io/team"), "r.io", ""),
            ("ghcr.io.example.com/app", Some("ghcr.io"), "r.io", ""),
            ("mirror.local:5000/hub/library/nginx", None, mirror, ""),
            ("", None, "r.io", ""),
        ];
        for (image, from, to, expected) in cases {
            let found = moved(image, from, to);
            assert_eq!(found.as_deref().unwrap_or_default(), expected, "{image} from {from:?}");
            if let Some(found) = found {
                assert_eq!(moved(&found, None, to), None, "it is there already");
            }
        }
    }
}

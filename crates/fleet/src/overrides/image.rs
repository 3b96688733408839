//! Image names such as `registry.example.com:5000/team/app:1.2@sha256:…`.

/// Registry of names without one.
const DEFAULT: &str = "docker.io";
/// Path of names with only one part in the default registry.
const DEFAULT_FOLDER: &str = "library";
/// Old name of the default registry.
const DEFAULT_ALIAS: &str = "index.docker.io";

/// Splits a name into registry and rest like container runtimes: the first part is a registry only if it
/// cannot be a path.
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

/// Returns the name of an image in another registry: `to` replaces `from`, or any registry. Both may have a
/// path. `None` if the name does not change.
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

/// Returns the part of a name below a path.
fn below<'a>(whole: &'a str, folder: &str) -> Option<&'a str> {
    whole.strip_prefix(folder)?.strip_prefix('/')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registries_are_replaced() {
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
            // Unchanged names.
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
                assert_eq!(moved(&found, None, to), None, "the image is already there");
            }
        }
    }
}

//! The operating system's limit on open files, which are mostly connections.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Maximum number of connections of clients, however many files may be open: they take memory as well. Half of
/// it, the part of one address, is enough for the default number of watches.
const MAX_CONNECTIONS: u64 = 20_480;
/// Minimum number of open files for everything else: clusters, the store, streams to nodes.
const MIN_RESERVE: u64 = 256;

/// Raises the soft limit to the hard limit. Soft limits are low for programs that use `select`.
pub fn raise_limit() {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current != maximum
        && let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum })
    {
        tracing::warn!(%error, limit = current, wanted = maximum, "cannot raise the limit on open files");
        return;
    }
    tracing::debug!(before = current, now = maximum, "limit on open files");
}

/// Returns the maximum number of connections of clients.
pub fn max_connections() -> usize {
    connections_of(getrlimit(Resource::Nofile).current)
}

/// Returns the part of `open_files` for connections of clients: three quarters, or less if the limit is low.
fn connections_of(open_files: Option<u64>) -> usize {
    let Some(files) = open_files else { return MAX_CONNECTIONS as usize };
    let quarter = files / 4;
    let reserve = quarter.max(MIN_RESERVE).min(3 * quarter);
    files.saturating_sub(reserve).min(MAX_CONNECTIONS) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quarter_of_the_files_is_left_for_others() {
        for (files, connections) in [
            (Some(256), 64),
            (Some(512), 256),
            (Some(1024), 768),
            (Some(4096), 3072),
            (Some(1 << 20), 20_480),
            (Some(u64::MAX), 20_480),
            (None, 20_480),
        ] {
            assert_eq!(connections_of(files), connections, "{files:?}");
        }
    }
}

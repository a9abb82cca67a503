//! What a list of a profile lets through.

/// Whether an entry is the value, or ends in `*` and the value begins with the rest of it.
pub fn listed(entries: &[String], value: &str) -> bool {
    entries.iter().any(|entry| match entry.strip_suffix('*') {
        Some(start) => value.starts_with(start),
        None => entry == value,
    })
}

/// The same for images, where the `*` must follow a separator: `registry.example.org*` would also
/// let through `registry.example.org.evil.net`.
pub fn image(entries: &[String], value: &str) -> bool {
    entries.iter().any(|entry| match entry.strip_suffix('*') {
        Some(start) => start.ends_with(['/', ':', '@']) && value.starts_with(start),
        None => entry == value,
    })
}

/// Whether a URI is one of the prefixes or lies below it; a prefix ends where a part does.
pub fn uri(prefixes: &[String], value: &str) -> bool {
    prefixes.iter().any(|prefix| {
        let prefix = prefix.strip_suffix('*').unwrap_or(prefix);
        let rest = value.strip_prefix(prefix);
        // A scheme alone would allow everything, and `s3://` is easily written by mistake.
        let place = prefix.split_once("://").is_some_and(|(_, place)| !place.is_empty());
        place
            && rest.is_some_and(|rest| {
                rest.is_empty() || rest.starts_with('/') || prefix.ends_with('/')
            })
    })
}

/// Whether a URI could mean another place than it begins with.
pub fn climbs(uri: &str) -> bool {
    let path = uri.split_once("://").map_or(uri, |(_, path)| path);
    let hidden = |part: &str| {
        let part = part.to_ascii_lowercase();
        part.contains("%2e") || part.contains("%2f") || part.contains("%5c")
    };
    path.contains('\\') || path.split('/').any(|part| part == "." || part == ".." || hidden(part))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries(entries: &[&str]) -> Vec<String> {
        entries.iter().map(|entry| (*entry).to_owned()).collect()
    }

    #[test]
    fn images() {
        let list = entries(&["r.io/team/*", "r.io/one:1", "q.io*"]);
        for yes in ["r.io/team/a:1", "r.io/team/a/b@sha256:0", "r.io/one:1"] {
            assert!(image(&list, yes), "{yes}");
        }
        for no in ["r.io/teams/a", "r.io/one:2", "r.io/one:11", "q.io/a", "q.io.evil.net/a", ""] {
            assert!(!image(&list, no), "{no}");
        }
    }

    #[test]
    fn uris() {
        let list = entries(&["s3://models/team", "s3://shared/", "https://h/a*", "s3://"]);
        for yes in ["s3://models/team", "s3://models/team/x", "s3://shared/x/y", "https://h/a/b"] {
            assert!(uri(&list, yes), "{yes}");
        }
        for no in ["s3://models/teams", "s3://models", "s3://sharedx/y", "https://h/ab", "s3://x/y"]
        {
            assert!(!uri(&list, no), "{no}");
        }
    }

    #[test]
    fn uris_that_climb() {
        for yes in ["s3://a/../b", "data://c/./x", "s3://a/%2E%2e/b", "s3://a/b%2fc", "s3://a\\b"] {
            assert!(climbs(yes), "{yes}");
        }
        for no in ["s3://a/b..c/d", "s3://a/.hidden", "s3://a/50%25"] {
            assert!(!climbs(no), "{no}");
        }
    }
}

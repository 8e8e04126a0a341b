//! Suggestions for patterns that match no function.

use super::path::FunctionPath;
use super::pattern::Pattern;

/// Maximum number of suggestions.
const MOST: usize = 5;

/// Returns the paths that are similar to a pattern without a match, most similar first. These are
/// paths with the same last name, and paths with a similar spelling. At most five paths are
/// returned.
pub fn near_misses<'seen>(
    pattern: &Pattern,
    seen: impl IntoIterator<Item = &'seen str>,
) -> Vec<String> {
    let wanted: Vec<&str> = pattern
        .segments()
        .iter()
        .map(|name| name.trim_matches('*'))
        .filter(|name| !name.is_empty())
        .collect();
    let mut near: Vec<(f64, String)> = seen
        .into_iter()
        .map(|path| FunctionPath::parse(path).to_string())
        .map(|path| (likeness(&wanted, &path), path))
        .filter(|(likeness, _)| *likeness > ENOUGH)
        .collect();
    near.sort_by(|one, other| other.0.total_cmp(&one.0).then(one.1.cmp(&other.1)));
    near.dedup_by(|one, other| one.1 == other.1);
    near.into_iter().take(MOST).map(|(_, path)| path).collect()
}

const ENOUGH: f64 = 0.7;

/// Returns the similarity of the paths, from 0 to 2. An equal last name adds 1.
fn likeness(wanted: &[&str], path: &str) -> f64 {
    let Some(last) = wanted.last() else { return 0. };
    let names: Vec<&str> = path.split("::").collect();
    let written = wanted.join("::").to_lowercase();
    // If the pattern omits modules, it is compared with the end of the path.
    let tail = names[names.len().saturating_sub(wanted.len())..].join("::").to_lowercase();
    let whole = path.to_lowercase();
    let alike = strsim::normalized_damerau_levenshtein(&written, &tail)
        .max(strsim::normalized_damerau_levenshtein(&written, &whole));
    let is_named = names.last().is_some_and(|name| name.eq_ignore_ascii_case(last));
    alike + f64::from(u8::from(is_named))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEEN: [&str; 5] = [
        "my_model::net::Net::forward",
        "my_model::net::Net::new",
        "my_model::data::load",
        "my_model::data::Loader::next",
        "my_model::main",
    ];

    fn near(pattern: &str) -> Vec<String> {
        near_misses(&pattern.parse().expect("a pattern"), SEEN)
    }

    #[test]
    fn misspelled_and_cut_paths_find_what_was_meant() {
        assert_eq!(near("my_model::net::Net::forwrad")[0], SEEN[0]);
        assert_eq!(near("my_model::net::net::forward")[0], SEEN[0]);
        assert_eq!(near("Net::forward")[0], SEEN[0]);
        assert_eq!(near("forward")[0], SEEN[0]);
        assert_eq!(near("my_model::Loader::next")[0], SEEN[3]);
        assert_eq!(near("my_mdoel::data::load")[0], SEEN[2]);
    }

    #[test]
    fn dissimilar_names_have_no_suggestion() {
        assert_eq!(near("tokio::runtime::Builder::enable_all"), Vec::<String>::new());
        assert_eq!(near("**"), Vec::<String>::new());
    }
}

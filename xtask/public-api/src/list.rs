//! Converts rustdoc's JSON of a crate to a list of its public items.

use std::fs;
use std::path::Path;

use public_api::Builder;
use serde::Deserialize;

/// Auto traits that are not listed, because their loss does not break programs here. `Send` and
/// `Sync` are listed.
const UNSAID: [&str; 5] = [
    "core::marker::Freeze",
    "core::marker::Unpin",
    "core::marker::UnsafeUnpin",
    "core::panic::unwind_safe::RefUnwindSafe",
    "core::panic::unwind_safe::UnwindSafe",
];

/// Returns all public items, sorted. If the JSON format belongs to another rustdoc release, prints
/// a message and returns `None`.
pub fn of_crate(json: &Path) -> Result<Option<Vec<String>>, String> {
    #[derive(Deserialize)]
    struct Version {
        format_version: u32,
    }
    let explain = |error: &dyn std::fmt::Display| format!("{}: {error}", json.display());
    let text = fs::read_to_string(json).map_err(|error| explain(&error))?;
    let version: Version = serde_json::from_str(&text).map_err(|error| explain(&error))?;
    let known = rustdoc_types::FORMAT_VERSION;
    if version.format_version != known {
        let found = version.format_version;
        println!(
            "public items: skipped: rustdoc's JSON has format {found}, but xtask supports \
                  format {known}"
        );
        return Ok(None);
    }
    let items = Builder::from_rustdoc_json(json).omit_blanket_impls(true).build();
    let items = items.map_err(|error| explain(&error))?;
    Ok(Some(items.items().map(ToString::to_string).filter(|item| is_said(item)).collect()))
}

fn is_said(item: &str) -> bool {
    !item.starts_with("impl") || !UNSAID.iter().any(|name| item.contains(&format!("{name} for ")))
}

/// Returns the list file of a crate.
pub fn page(name: &str, options: &[&str], items: &[String]) -> String {
    let options = options.iter().map(|option| format!(" {option}")).collect::<String>();
    let mut page = format!(
        "# The public items of {name}{options}. Updated by: cargo xtask public-api --write\n"
    );
    for item in items {
        page.push_str(item);
        page.push('\n');
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn common_auto_traits_are_omitted() {
        assert!(!is_said("impl core::marker::Unpin for a::B"));
        assert!(!is_said("impl<T> core::panic::unwind_safe::UnwindSafe for a::B<T> where T: X"));
        assert!(is_said("impl core::marker::Send for a::B"));
        assert!(is_said("impl !core::marker::Sync for a::B"));
        assert!(is_said("pub fn a::b() -> core::marker::Unpin for "));
    }

    #[test]
    fn json_of_another_release_is_not_misread() {
        let path = std::env::temp_dir().join(format!("rustdoc-{}.json", std::process::id()));
        fs::write(&path, r#"{"format_version": 1, "root": "0"}"#).expect("a file");
        let list = of_crate(&path);
        fs::remove_file(&path).expect("it was there");
        assert_eq!(list, Ok(None));
    }
}

//! Checks that library errors print their message with `Debug`, which a program uses if `main`
//! returns the error.

/// Returns the public errors in `text` with a derived `Debug`.
pub fn with_derived_debug(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut is_derived = false;
    for line in text.lines().map(str::trim) {
        if line.starts_with("#[derive(") {
            is_derived = line.contains("thiserror::Error") && line.contains("Debug");
        } else if let Some(declared) = line.strip_prefix("pub ")
            && (declared.starts_with("enum ") || declared.starts_with("struct "))
        {
            if std::mem::take(&mut is_derived) {
                found.push(declared.trim_end_matches(" {").to_owned());
            }
        } else if line.starts_with("enum ")
            || line.starts_with("struct ")
            || line.starts_with("pub(")
        {
            is_derived = false;
        }
    }
    found
}

#[test]
fn a_derived_debug_is_found() {
    let text = "#[derive(Debug, thiserror::Error)]\n#[non_exhaustive]\npub enum Bad {\n\
                #[derive(Clone, thiserror::Error)]\npub enum Good {\n\
                #[derive(Debug, thiserror::Error)]\nenum Private {\n#[derive(Debug)]\npub struct Value {";
    assert_eq!(with_derived_debug(text), ["enum Bad"]);
}

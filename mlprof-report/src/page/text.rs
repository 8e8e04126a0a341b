//! Escaping of text for its position in a page.

use crate::label;
pub(super) use crate::markup::escape;

/// Formats a name as in text tables, with at most `longest` characters, and escapes it for HTML.
/// Bidirectional control characters are made visible and have no effect.
pub(super) fn name(name: &str, longest: usize) -> String {
    let shown = label::shown(name);
    match shown.char_indices().nth(longest) {
        Some((end, _)) => escape(&shown[..end]) + "…",
        None => escape(&shown),
    }
}

/// Formats a sentence on one line.
pub(super) fn sentence(text: &str) -> String {
    escape(&label::one_line(text))
}

/// Formats advice as a sentence with an uppercase first letter. Text in backticks becomes code.
pub(super) fn advice(text: &str) -> String {
    let text = sentence(text);
    let mut letters = text.chars();
    let first = letters.next().into_iter().flat_map(char::to_uppercase);
    let text: String = first.chain(letters).collect();
    let parts: Vec<_> = text.split('`').collect();
    // With an odd number of backticks, the text is left unchanged.
    if parts.len().is_multiple_of(2) {
        return text;
    }
    let part = |(index, part): (usize, &&str)| match index % 2 {
        0 => (*part).to_owned(),
        _ => format!("<code>{part}</code>"),
    };
    parts.iter().enumerate().map(part).collect()
}

/// Escapes JSON for a `script` element, so that no text can end the element or begin a comment.
pub(super) fn json(json: &str) -> String {
    // These characters occur only in strings.
    json.replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_ends_an_element() {
        let text = serde_json::to_string("</script><!--<script>&").expect("a string");
        let safe = json(&text);
        assert!(!safe.contains('<') && !safe.contains('>'), "{safe}");
        let back: String = serde_json::from_str(&safe).expect("still JSON");
        assert_eq!(back, "</script><!--<script>&");
    }

    #[test]
    fn names_are_short_and_turn_nothing_around() {
        assert_eq!(name("a\u{202e}b", 50), r"a\u{202e}b");
        assert_eq!(name(&"é".repeat(10_000), 60), "é".repeat(60) + "…");
        assert_eq!(name("a\nb", 50), r"a\nb");
        assert_eq!(sentence("1 < 2\n"), r"1 &lt; 2\n");
        assert_eq!(
            advice("use `Vec<T>`, or `a`"),
            "Use <code>Vec&lt;T&gt;</code>, or <code>a</code>"
        );
        assert_eq!(advice("a ` only"), "A ` only");
    }
}

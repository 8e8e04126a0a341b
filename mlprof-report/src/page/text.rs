//! Escaping of text for its position in a page.

use crate::label;
pub(super) use crate::markup::escape;

/// Formats a name with at most `longest` characters and escapes it for HTML. The middle of a longer
/// name is replaced by `…`, because its end often distinguishes it. Bidirectional control
/// characters are made visible and have no effect.
pub(super) fn name(name: &str, longest: usize) -> String {
    let shown = label::one_line(name);
    let characters = shown.chars().count();
    if characters <= longest {
        return escape(&shown);
    }
    let end = longest / 3;
    let start: String = shown.chars().take(longest - end - 1).collect();
    let last: String = shown.chars().skip(characters - end).collect();
    escape(&format!("{start}…{last}"))
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
        let long = format!("{}{}", "é".repeat(10_000), "conv1");
        let short = format!("{}…{}conv1", "é".repeat(39), "é".repeat(15));
        assert_eq!(name(&long, 60), short, "the end stays");
        assert_eq!(name("a\nbcdef", 6), r"a\n…ef");
        assert_eq!(name("abcdef", 6), "abcdef");
        assert_eq!(name("a\nb", 50), r"a\nb");
        assert_eq!(sentence("1 < 2\n"), r"1 &lt; 2\n");
        assert_eq!(
            advice("use `Vec<T>`, or `a`"),
            "Use <code>Vec&lt;T&gt;</code>, or <code>a</code>"
        );
        assert_eq!(advice("a ` only"), "A ` only");
    }
}

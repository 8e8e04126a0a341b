//! Formatting of an error and its causes in one line.

use std::error::Error;
use std::fmt;

/// An error that prints itself and its causes in one line.
#[derive(Debug, Clone, Copy)]
pub struct Chain<'error>(pub &'error (dyn Error + 'static));

impl fmt::Display for Chain<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write(self.0, formatter)
    }
}

/// Writes `error` and its sources in one line, each source after a colon. It omits a source if the
/// line already contains its text, because many errors repeat the text of their source.
///
/// # Errors
///
/// Returns the errors of the formatter.
pub fn write(error: &(dyn Error + 'static), formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
    let text = error.to_string();
    formatter.write_str(&text)?;
    let mut line = without_breaks(&text);
    let mut next = error.source();
    while let Some(source) = next {
        let text = without_breaks(&source.to_string());
        if !line.contains(&text) {
            write!(formatter, ": {text}")?;
            line.push_str(&text);
        }
        next = source.source();
    }
    Ok(())
}

/// Returns the words of `text`, separated by single spaces.
fn without_breaks(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for word in text.split_whitespace() {
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct Failed(&'static str, Option<Box<Failed>>);

    impl fmt::Display for Failed {
        fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
            formatter.write_str(self.0)
        }
    }

    impl Error for Failed {
        fn source(&self) -> Option<&(dyn Error + 'static)> {
            self.1.as_deref().map(|source| source as _)
        }
    }

    fn chain(text: &'static str, source: &'static str) -> String {
        Chain(&Failed(text, Some(Box::new(Failed(source, None))))).to_string()
    }

    #[test]
    fn a_cause_is_told_once_and_in_one_line() {
        assert_eq!(chain("no report", "no space"), "no report: no space");
        assert_eq!(chain("no report", "no space\nleft"), "no report: no space left");
        assert_eq!(
            chain("no field a. Fields are b", "no field a.\nFields are b"),
            "no field a. Fields are b"
        );
    }
}

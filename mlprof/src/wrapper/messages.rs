//! Filters rustc's messages before they are passed to cargo.

use std::io::{self, BufRead, Write};

/// Passes rustc's messages to cargo, with the original paths.
///
/// Notifications of finished files are passed on at once, because cargo starts dependent crates
/// when it receives them. All other messages are buffered until it is clear whether this
/// compilation is used.
#[derive(Debug, Default)]
pub struct Messages {
    kept: Vec<String>,
    has_artifact: bool,
}

impl Messages {
    /// Reads rustc's standard error to its end. `overlay` is the path prefix to remove, which
    /// leaves the original paths.
    ///
    /// # Errors
    ///
    /// Returns an error if reading or writing fails.
    pub fn read(
        &mut self,
        from: impl io::Read,
        overlay: &str,
        to: &mut impl Write,
    ) -> io::Result<()> {
        for line in io::BufReader::new(from).split(b'\n') {
            // Macros of the crate may print arbitrary bytes, so the line is decoded lossily.
            let line = line?;
            let line = String::from_utf8_lossy(&line).replace(overlay, "");
            if line.starts_with(r#"{"$message_type":"artifact""#) {
                // The dependency file is reported even before the first error, so it does not count
                // as an artifact.
                self.has_artifact |= !line.contains(r#""emit":"dep-info""#);
                writeln!(to, "{line}")?;
                to.flush()?;
            } else {
                self.kept.push(line);
            }
        }
        Ok(())
    }

    /// Returns `true` if cargo was notified of an artifact. The compilation can then not be
    /// replaced by another one.
    pub fn has_artifact(&self) -> bool {
        self.has_artifact
    }

    /// Writes the buffered messages.
    ///
    /// # Errors
    ///
    /// Returns an error if writing fails.
    pub fn hand_on(&self, to: &mut impl Write) -> io::Result<()> {
        self.kept.iter().try_for_each(|line| writeln!(to, "{line}"))
    }

    /// Returns `true` if the compiler emitted a diagnostic.
    pub fn has_diagnostics(&self) -> bool {
        self.kept.iter().any(|line| is_diagnostic(line))
    }

    /// Returns these messages with the diagnostics of `other` instead of their own.
    #[must_use]
    pub fn with_diagnostics_of(mut self, other: Self) -> Self {
        self.kept.retain(|line| !is_diagnostic(line));
        self.kept.extend(other.kept.into_iter().filter(|line| is_diagnostic(line)));
        self
    }

    /// Returns the first error in rustc's rendered form.
    pub fn first_error(&self) -> Option<String> {
        self.kept.iter().find_map(|line| {
            let message: serde_json::Value = serde_json::from_str(line).ok()?;
            let is_error = message["level"] == "error";
            let text = message["rendered"].as_str().or(message["message"].as_str());
            text.filter(|_| is_error).map(str::to_owned)
        })
    }
}

fn is_diagnostic(line: &str) -> bool {
    line.starts_with(r#"{"$message_type":"diagnostic""#)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_sources_is_no_way_back() {
        let said = r#"{"$message_type":"artifact","artifact":"/t/a.d","emit":"dep-info"}"#;
        let (mut messages, mut out) = (Messages::default(), Vec::new());
        messages.read(said.as_bytes(), "/o", &mut out).expect("memory");
        assert!(!messages.has_artifact() && !out.is_empty());
    }

    #[test]
    fn artifacts_go_on_at_once_and_all_else_when_asked() {
        let said = concat!(
            r#"{"$message_type":"diagnostic","message":"bad","level":"error","rendered":"error: bad /o/work/a.rs"}"#,
            "\n",
            r#"{"$message_type":"artifact","artifact":"/t/liba.rmeta","emit":"metadata"}"#,
            "\n",
        );
        let (mut messages, mut out) = (Messages::default(), Vec::new());
        messages.read(said.as_bytes(), "/o", &mut out).expect("memory");
        assert!(messages.has_artifact());
        assert!(String::from_utf8_lossy(&out).contains("liba.rmeta"));
        assert_eq!(messages.first_error().as_deref(), Some("error: bad /work/a.rs"));
        let text = |messages: &Messages| {
            let mut text = Vec::new();
            messages.hand_on(&mut text).expect("memory");
            String::from_utf8_lossy(&text).into_owned()
        };
        assert_eq!(text(&messages).lines().count(), 1);
        let mut other = Messages::default();
        let said = b"plain \xff\n{\"$message_type\":\"diagnostic\",\"message\":\"good\"}\n";
        other.read(&said[..], "/o", &mut io::sink()).expect("memory");
        assert!(messages.has_diagnostics() && other.has_diagnostics());
        let both = other.with_diagnostics_of(messages);
        assert!(
            text(&both).starts_with("plain \u{fffd}\n{") && text(&both).contains("bad"),
            "{both:?}"
        );
        assert!(!text(&both).contains("good"));
    }
}

//! What rustc says, on its way to cargo.

use std::io::{self, BufRead, Write};

/// Hands rustc's messages on to cargo, with the original paths in them.
///
/// Notes of finished files go on at once: cargo waits for them to begin with the next crate.
/// Everything else is kept until it is known whether the compilation was worth anything.
#[derive(Debug, Default)]
pub struct Messages {
    kept: Vec<String>,
    has_artifact: bool,
}

impl Messages {
    /// Reads all of rustc's standard error. `overlay` is what stands before original paths.
    ///
    /// # Errors
    ///
    /// Those of the streams.
    pub fn read(
        &mut self,
        from: impl io::Read,
        overlay: &str,
        to: &mut impl Write,
    ) -> io::Result<()> {
        for line in io::BufReader::new(from).split(b'\n') {
            // Macros of the crate may write whatever they like.
            let line = line?;
            let line = String::from_utf8_lossy(&line).replace(overlay, "");
            if line.starts_with(r#"{"$message_type":"artifact""#) {
                // The list of source files is there before the first error is.
                self.has_artifact |= !line.contains(r#""emit":"dep-info""#);
                writeln!(to, "{line}")?;
                to.flush()?;
            } else {
                self.kept.push(line);
            }
        }
        Ok(())
    }

    /// Whether cargo knows of a file: then there is no way back.
    pub fn has_artifact(&self) -> bool {
        self.has_artifact
    }

    /// Hands on what was kept.
    ///
    /// # Errors
    ///
    /// Those of the stream.
    pub fn hand_on(&self, to: &mut impl Write) -> io::Result<()> {
        self.kept.iter().try_for_each(|line| writeln!(to, "{line}"))
    }

    /// Whether the compiler has found something to say about the text.
    pub fn has_diagnostics(&self) -> bool {
        self.kept.iter().any(|line| is_diagnostic(line))
    }

    /// These, with the diagnostics of `other` in place of its own.
    #[must_use]
    pub fn with_diagnostics_of(mut self, other: Self) -> Self {
        self.kept.retain(|line| !is_diagnostic(line));
        self.kept.extend(other.kept.into_iter().filter(|line| is_diagnostic(line)));
        self
    }

    /// The first error, as rustc prints it.
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

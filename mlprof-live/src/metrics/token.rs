//! Access token for metrics: a random text in a file that only its user can read.

use std::io;
use std::path::{Path, PathBuf};

use mlprof_events::environment::variable;
use mlprof_events::files;

use crate::Error;
use crate::random::random;

/// Maximum size of a token in bytes.
const LONGEST: u64 = 1024;

const VARIABLE: &str = "MLPROF_METRICS_TOKEN";

/// Setting of the environment variable `MLPROF_METRICS_TOKEN`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum TokenPolicy {
    /// A random token in a new file.
    Random,
    /// The token in this file.
    In(PathBuf),
    Off,
}

impl TokenPolicy {
    pub(super) fn of_environment() -> Self {
        let value = variable(VARIABLE).filter(|value| !value.is_empty());
        match value {
            None => Self::Random,
            Some(value) if value.eq_ignore_ascii_case("off") => Self::Off,
            Some(path) => Self::In(path.into()),
        }
    }

    /// Returns the configured token, or one that disables the check. Returns `None` if a random
    /// token is requested.
    pub(super) fn named(&self) -> Result<Option<Token>, Error> {
        match self {
            Self::Random => Ok(None),
            Self::Off => Ok(Some(Token::OFF)),
            Self::In(path) => match Token::read(path) {
                Ok(token) => Ok(Some(token)),
                // The error omits the value. If a user sets the variable to the token itself, the
                // token must not appear in a log.
                Err(error) => {
                    Err(Error::Token { path: format!("${VARIABLE}").into(), source: error })
                }
            },
        }
    }
}

/// Token that a request must contain; `None` disables the check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Token(Option<String>);

impl Token {
    #[cfg(test)]
    pub(super) fn of(text: &str) -> Self {
        Self(Some(text.to_owned()))
    }

    pub(super) const OFF: Self = Self(None);

    /// Returns a random token.
    pub(super) fn random() -> Self {
        Self(Some(format!("{:016x}{:016x}", random(), random())))
    }

    /// Writes the token to a new file that only its user can read.
    pub(super) fn write(&self, path: &Path) -> io::Result<()> {
        let text = self.0.as_deref().unwrap_or_default();
        // An existing file with this name was left by the same process before `exec`.
        match std::fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        files::create_private(path, text.as_bytes())
    }

    /// Reads the token from a user's file.
    pub(super) fn read(path: &Path) -> io::Result<Self> {
        let text = files::read_text(path, LONGEST)?;
        let text = text.trim();
        if text.is_empty() {
            let message = format!("the file is empty; write a token of 1 to {LONGEST} bytes");
            return Err(io::Error::new(io::ErrorKind::InvalidData, message));
        }
        Ok(Self(Some(text.to_owned())))
    }

    /// Returns `true` if an `Authorization` header contains the token.
    pub(super) fn allows(&self, header: Option<&[u8]>) -> bool {
        let Some(own) = &self.0 else { return true };
        let Some((scheme, given)) = header.and_then(|it| it.split_at_checked(7)) else {
            return false;
        };
        scheme.eq_ignore_ascii_case(b"bearer ") && is_same(given, own.as_bytes())
    }
}

/// Compares two texts in constant time.
fn is_same(one: &[u8], other: &[u8]) -> bool {
    let differences = one.iter().zip(other).fold(0, |sum, (one, other)| sum | (one ^ other));
    one.len() == other.len() && std::hint::black_box(differences) == 0
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;

    #[test]
    fn a_token_is_random_and_its_users() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("1.token");
        let (one, other) = (Token::random(), Token::random());
        one.write(&path).expect("written");
        other.write(&path).expect("in its place");
        assert_ne!(one, other);
        assert_eq!(path.metadata().expect("a file").mode() & 0o777, 0o600);
        let text = std::fs::read_to_string(&path).expect("text");
        assert_eq!((text.len(), Token::of(&text)), (32, other.clone()));
        assert!(other.allows(Some(format!("bearer {text}").as_bytes())));
        assert!(!one.allows(Some(format!("Bearer {text}").as_bytes())) && !other.allows(None));
        assert!(!other.allows(Some(b"Bearer ")) && Token::OFF.allows(None));
    }

    #[test]
    fn a_token_of_the_users_own_is_read() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("token");
        std::fs::write(&path, "secret\n").expect("written");
        assert_eq!(Token::read(&path).expect("read"), Token::of("secret"));
        std::fs::write(&path, " \n").expect("written");
        assert!(Token::read(&path).is_err());
        assert!(Token::read(&folder.path().join("none")).is_err());
        // The user has mistaken the variable for the token itself.
        let error =
            TokenPolicy::In("s3cret-token".into()).named().expect_err("no file").to_string();
        assert!(error.contains("$MLPROF_METRICS_TOKEN") && !error.contains("s3cret"), "{error}");
    }
}

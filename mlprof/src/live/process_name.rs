//! Process names on the command line: a process id, optionally with a PID namespace.

use std::fmt;
use std::str::FromStr;

/// Name of a process: `4711`, or `1@4026532201` for process 1 of another container. The part after
/// `@` is the inode of the container's PID namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProcessName {
    /// Process id in its namespace.
    pub number: u32,
    /// Inode of the PID namespace; `None` if the id is valid in the namespace of the command.
    pub namespace: Option<u64>,
}

impl From<u32> for ProcessName {
    fn from(number: u32) -> Self {
        Self { number, namespace: None }
    }
}

impl fmt::Display for ProcessName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self.namespace {
            Some(namespace) => format!("{}@{namespace}", self.number),
            None => self.number.to_string(),
        };
        f.pad(&name)
    }
}

impl FromStr for ProcessName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (number, namespace) = match text.split_once('@') {
            Some((number, namespace)) => (number, Some(namespace)),
            None => (text, None),
        };
        let parsed = number.parse().ok().zip(namespace.map(str::parse).transpose().ok());
        let (number, namespace) =
            parsed.ok_or("expected a process id, or PID@NAMESPACE as printed by mlprof ps")?;
        Ok(Self { number, namespace })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_a_number_or_has_a_namespace_too() {
        for text in ["4711", "1@4026532201"] {
            assert_eq!(
                text.parse::<ProcessName>().map(|name| name.to_string()),
                Ok(text.to_owned())
            );
        }
        for text in ["", "-1", "1@", "@1", "1@x", "report.json", "99999999999"] {
            assert!(text.parse::<ProcessName>().is_err(), "{text}");
        }
        assert_eq!(format!("{:>7}", ProcessName::from(12)), "     12");
    }
}

//! Text about the frameworks that a program trains with.

use std::fmt::Write;

use mlprof_events::Framework;

use crate::number::grouped;
use crate::{ReportHeader, label};

/// Returns the frameworks as text, such as `candle 0.11 (avx2, mkl), 4 threads, on cpu`. Several
/// frameworks are separated by semicolons. Returns `None` if no framework is known.
pub(crate) fn in_words(header: &ReportHeader) -> Option<String> {
    let all: Vec<_> = header.frameworks.iter().map(of_one).collect();
    (!all.is_empty()).then(|| all.join("; "))
}

fn of_one(framework: &Framework) -> String {
    let known = [Some(&framework.name), framework.version.as_ref(), framework.library.as_ref()];
    let known: Vec<_> = known.into_iter().flatten().map(|name| label::shown(name)).collect();
    let mut text = known.join(" ");
    if !framework.features.is_empty() {
        // Writing into a string cannot fail, so these results are ignored.
        let _ = write!(text, " ({})", label::shown(&framework.features.join(", ")));
    }
    if let Some(threads) = framework.threads {
        let plural = if threads == 1 { "" } else { "s" };
        let _ = write!(text, ", {} thread{plural}", grouped(threads));
    }
    if !framework.devices.is_empty() {
        let _ = write!(text, ", on {}", label::shown(&framework.devices.join(", ")));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::findings::samples::header;

    #[test]
    fn only_known_settings_are_listed() {
        let mut header = header(1.0);
        assert_eq!(in_words(&header), None);
        header.frameworks.push(Framework {
            name: "candle".to_owned(),
            version: Some("0.11".to_owned()),
            features: vec!["avx2".to_owned(), "mkl".to_owned()],
            threads: Some(4),
            devices: vec!["cpu".to_owned()],
            ..Framework::default()
        });
        let candle = "candle 0.11 (avx2, mkl), 4 threads, on cpu";
        assert_eq!(in_words(&header).as_deref(), Some(candle));
        header.frameworks.push(Framework {
            name: "tch".to_owned(),
            library: Some("libtorch 2.13.0\n".to_owned()),
            ..Framework::default()
        });
        assert_eq!(in_words(&header), Some(format!("{candle}; tch libtorch 2.13.0\\n")));
    }
}

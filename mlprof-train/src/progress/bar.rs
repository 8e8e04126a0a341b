//! The bar on a terminal: one line that is written over.

use std::fmt::Write;
use std::time::Duration;

use mlprof_events::clock::Stopwatch;
use mlprof_events::files::{self, StandardStream};

/// Shortest time between two drawings.
const BETWEEN_DRAWINGS: Duration = Duration::from_millis(50);

/// Columns between the brackets.
const WIDTH: usize = 30;

/// Columns of a terminal that does not tell its own.
const DEFAULT_COLUMNS: usize = 80;

/// Progress of one pass over the data.
#[derive(Debug)]
pub(super) struct Bar {
    pub(super) title: String,
    pub(super) position: usize,
    /// Batches of the pass, where they are known.
    pub(super) length: Option<usize>,
    /// Text after the rate.
    pub(super) suffix: String,
    began: Stopwatch,
    /// `None` until the first drawing.
    last_drawn: Option<Stopwatch>,
    /// Columns that the line takes on the terminal now.
    columns: usize,
}

impl Bar {
    pub(super) fn new() -> Self {
        Self {
            title: String::new(),
            position: 0,
            length: None,
            suffix: String::new(),
            began: Stopwatch::start(),
            last_drawn: None,
            columns: 0,
        }
    }

    /// Begins a pass.
    pub(super) fn begin(&mut self, title: &str, length: Option<usize>) {
        *self = Self { columns: self.columns, ..Self::new() };
        self.title.push_str(title);
        self.length = length;
        self.draw();
    }

    /// Draws the bar, unless it was drawn a moment ago.
    pub(super) fn draw_if_due(&mut self) {
        if self.last_drawn.is_none_or(|drawn| drawn.elapsed() >= BETWEEN_DRAWINGS) {
            self.draw();
        }
    }

    pub(super) fn draw(&mut self) {
        self.last_drawn = Some(Stopwatch::start());
        // A line that reaches the last column may begin another one.
        let limit = terminal_columns().unwrap_or(DEFAULT_COLUMNS).saturating_sub(1);
        let text: String = self.text().chars().take(limit).collect();
        self.write_over(&text);
    }

    /// Removes the line, so that another text can be written in its place.
    pub(super) fn clear(&mut self) {
        if self.columns > 0 {
            self.write_over("");
            write("\r");
        }
    }

    /// Writes a text over the line. Spaces cover what was longer: every terminal understands those.
    fn write_over(&mut self, text: &str) {
        let columns = text.chars().count();
        let covering = self.columns.saturating_sub(columns);
        write(&format!("\r{text}{:covering$}", ""));
        self.columns = columns;
    }

    fn text(&self) -> String {
        let mut text = self.title.clone();
        let position = self.position;
        // Writing into a string cannot fail.
        let _ = match self.length {
            Some(length) => {
                let done = (WIDTH * position.min(length)).checked_div(length).unwrap_or(WIDTH);
                let line = "=".repeat(done);
                let tip = if done < WIDTH { ">" } else { "" };
                write!(text, " [{:WIDTH$}] {position}/{length}", line + tip)
            }
            None => write!(text, " {position}"),
        };
        let seconds = self.began.elapsed().as_secs_f64();
        if position > 0 && seconds > 0.0 {
            let _ = write!(text, " {:.1} step/s", position as f64 / seconds);
        }
        if !self.suffix.is_empty() {
            let _ = write!(text, " {}", self.suffix);
        }
        text
    }
}

/// Writes to standard error. Where that is full or closed, training goes on.
fn write(text: &str) {
    let _ = files::print(StandardStream::Error, text.as_bytes());
}

/// Returns how many columns the terminal at standard error has; `None` where the system does not tell.
#[cfg(unix)]
fn terminal_columns() -> Option<usize> {
    // SAFETY: every field of this C struct is a number, for which zero is valid.
    let mut size: libc::winsize = unsafe { std::mem::zeroed() };
    // SAFETY: TIOCGWINSZ writes one `winsize`, and `size` is one that outlives the call. For a descriptor that is closed or
    // not a terminal the call returns an error.
    let status = unsafe { libc::ioctl(libc::STDERR_FILENO, libc::TIOCGWINSZ, &mut size) };
    (status == 0 && size.ws_col > 0).then_some(usize::from(size.ws_col))
}

#[cfg(not(unix))]
fn terminal_columns() -> Option<usize> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bar(position: usize, length: Option<usize>) -> String {
        let bar = Bar { title: "epoch 1/2".into(), position, length, ..Bar::new() };
        let text = bar.text();
        let rate =
            text.find(" step/s").map_or(text.len(), |end| text[..end].rfind(' ').unwrap_or(0));
        text[..rate].to_owned()
    }

    #[test]
    fn the_line_grows_with_the_batches() {
        let line = |done: usize| format!("epoch 1/2 [{:30}]", "=".repeat(done) + ">");
        assert_eq!(bar(0, Some(10)), format!("{} 0/10", line(0)));
        assert_eq!(bar(5, Some(10)), format!("{} 5/10", line(15)));
        assert_eq!(bar(10, Some(10)), format!("epoch 1/2 [{}] 10/10", "=".repeat(30)));
        // A loader may give more batches than it promised, and one may promise none.
        assert_eq!(bar(12, Some(10)), format!("epoch 1/2 [{}] 12/10", "=".repeat(30)));
        assert_eq!(bar(0, Some(0)), format!("epoch 1/2 [{}] 0/0", "=".repeat(30)));
        assert_eq!(bar(7, None), "epoch 1/2 7");
    }

    #[test]
    fn a_pass_begins_from_nothing() {
        let mut bar = Bar { position: 3, suffix: "loss 1".into(), columns: 60, ..Bar::new() };
        bar.begin("test", None);
        assert_eq!((bar.position, bar.text().as_str()), (0, "test 0"));
        assert_eq!(bar.columns, "test 0".len());
        bar.suffix = "loss 2".into();
        assert!(bar.text().ends_with(" loss 2"));
    }
}

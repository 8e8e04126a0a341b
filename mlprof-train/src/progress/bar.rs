//! Progress bar on a terminal: one line that is overwritten.

use std::ffi::OsStr;
use std::fmt::Write;
use std::io::IsTerminal;
use std::time::Duration;

use mlprof_events::clock::Stopwatch;
use mlprof_events::files::{self, StandardStream};

/// Minimum time between two drawings.
const BETWEEN_DRAWINGS: Duration = Duration::from_millis(50);

/// Seconds after which an older rate has 10 % of the weight in the displayed rate.
const MEMORY_SECONDS: f64 = 15.0;

/// Width of the bar between the brackets, in columns.
const WIDTH: usize = 30;

/// Width in columns of a terminal that does not report its own.
const DEFAULT_COLUMNS: usize = 80;

/// Progress of one pass over the data.
#[derive(Debug)]
pub(super) struct Bar {
    pub(super) title: String,
    pub(super) position: usize,
    /// Number of batches in the pass, if it is known.
    pub(super) length: Option<usize>,
    /// Text after the rate.
    pub(super) suffix: String,
    rate: Rate,
    /// Time since the last drawing; `None` before the first one.
    last_drawn: Option<Stopwatch>,
    /// Upper bound of the columns that the line now occupies on the terminal.
    columns: usize,
}

impl Bar {
    /// Returns a bar if standard error is a terminal that can overwrite its line.
    pub(super) fn of_terminal() -> Option<Self> {
        let writes_over = can_write_over(std::env::var_os("TERM").as_deref());
        (std::io::stderr().is_terminal() && writes_over).then(Self::new)
    }

    fn new() -> Self {
        Self {
            title: String::new(),
            position: 0,
            length: None,
            suffix: String::new(),
            rate: Rate::default(),
            last_drawn: None,
            columns: 0,
        }
    }

    /// Begins a pass over the data.
    pub(super) fn begin(&mut self, title: &str, length: Option<usize>) {
        title.clone_into(&mut self.title);
        (self.position, self.length) = (0, length);
        self.suffix.clear();
        self.rate = Rate::default();
        // The time before the pass must not count in its rate.
        self.last_drawn = None;
        self.draw();
    }

    /// Draws the bar, unless it was drawn less than [`BETWEEN_DRAWINGS`] ago.
    pub(super) fn draw_if_due(&mut self) {
        if self.last_drawn.is_none_or(|drawn| drawn.elapsed() >= BETWEEN_DRAWINGS) {
            self.draw();
        }
    }

    pub(super) fn draw(&mut self) {
        if let Some(drawn) = self.last_drawn.replace(Stopwatch::start()) {
            self.rate.advance(self.position, drawn.elapsed().as_secs_f64());
        }
        // A line that reaches the last column may wrap.
        let limit = terminal_columns().unwrap_or(DEFAULT_COLUMNS).saturating_sub(1);
        let text = shorten(&self.text(), limit);
        write(&self.written_over(&text, limit));
    }

    /// Removes the line, so that other text can be written in its place.
    pub(super) fn clear(&mut self) {
        if self.columns > 0 {
            write(&self.written_over("", usize::MAX));
        }
    }

    /// Returns the output that replaces the current line with `text`. Spaces erase the old line,
    /// because every terminal supports them. If the terminal has become narrower, at most `limit`
    /// spaces are written.
    fn written_over(&mut self, text: &str, limit: usize) -> String {
        let before = std::mem::replace(&mut self.columns, columns(text)).min(limit);
        format!("\r{:before$}\r{text}", "")
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
        if let Some(rate) = self.rate.per_second() {
            let _ = write!(text, " {rate:.1} step/s");
        }
        if !self.suffix.is_empty() {
            let _ = write!(text, " {}", self.suffix);
        }
        text
    }
}

/// Removes the line when a training ends early, for example by a panic.
impl Drop for Bar {
    fn drop(&mut self) {
        self.clear();
    }
}

/// Moving average of batches per second. The last 15 seconds have 90 % of the weight.
#[derive(Debug, Default)]
struct Rate {
    position: usize,
    /// Sum of the rates, each weighted by its duration and its age.
    weighted: f64,
    /// Sum of the weights, below 1.
    weight: f64,
}

impl Rate {
    /// Adds the rate of an interval of `seconds` that ended at `position`.
    fn advance(&mut self, position: usize, seconds: f64) {
        if seconds <= 0.0 {
            return;
        }
        let rate = position.saturating_sub(self.position) as f64 / seconds;
        let kept = 0.1_f64.powf(seconds / MEMORY_SECONDS);
        self.weighted = self.weighted * kept + rate * (1.0 - kept);
        self.weight = self.weight * kept + (1.0 - kept);
        self.position = position;
    }

    /// Returns the rate; `None` before the first batch.
    fn per_second(&self) -> Option<f64> {
        (self.position > 0).then(|| self.weighted / self.weight)
    }
}

/// Returns `true` if a terminal of this name moves the cursor to the start of the line on `\r`. On
/// Unix, a terminal without a name does not.
fn can_write_over(name: Option<&OsStr>) -> bool {
    name.map_or(cfg!(not(unix)), |name| name != "dumb")
}

/// Returns the maximum number of columns that a text occupies on a terminal. Each non-ASCII
/// character counts as two columns, the width of Chinese characters and emoji.
fn columns(text: &str) -> usize {
    text.chars().map(columns_of).sum()
}

fn columns_of(character: char) -> usize {
    1 + usize::from(!character.is_ascii())
}

/// Returns the beginning of the text, up to `limit` columns. Control characters would move the
/// cursor, so they become spaces.
fn shorten(text: &str, limit: usize) -> String {
    let mut left = limit;
    let fits = |character: &char| {
        let rest = left.checked_sub(columns_of(*character));
        left = rest.unwrap_or(0);
        rest.is_some()
    };
    let plain = |character: char| if character.is_control() { ' ' } else { character };
    text.chars().map(plain).take_while(fits).collect()
}

/// Writes to standard error. Errors are ignored: training continues if standard error is full or
/// closed.
fn write(text: &str) {
    let _ = files::print(StandardStream::Error, text.as_bytes());
}

/// Returns the width in columns of the terminal at standard error; `None` if the system does not
/// know it.
#[cfg(unix)]
fn terminal_columns() -> Option<usize> {
    // SAFETY: `winsize` is a C struct of integers only, for which the all-zero bit pattern is
    // valid.
    let mut size: libc::winsize = unsafe { std::mem::zeroed() };
    // SAFETY: `TIOCGWINSZ` writes one `winsize` to the pointer. `size` is initialised, aligned and
    // exclusively borrowed, and it outlives the call. If the descriptor is closed or not a
    // terminal, the call returns an error.
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
        let mut bar = Bar::new();
        bar.title.push_str("epoch 1/2");
        (bar.position, bar.length) = (position, length);
        bar.text()
    }

    #[test]
    fn the_line_grows_with_the_batches() {
        let line = |done: usize| format!("epoch 1/2 [{:30}]", "=".repeat(done) + ">");
        assert_eq!(bar(0, Some(10)), format!("{} 0/10", line(0)));
        assert_eq!(bar(5, Some(10)), format!("{} 5/10", line(15)));
        assert_eq!(bar(10, Some(10)), format!("epoch 1/2 [{}] 10/10", "=".repeat(30)));
        // A loader may yield more batches than it promised, and it may promise 0.
        assert_eq!(bar(12, Some(10)), format!("epoch 1/2 [{}] 12/10", "=".repeat(30)));
        assert_eq!(bar(0, Some(0)), format!("epoch 1/2 [{}] 0/0", "=".repeat(30)));
        assert_eq!(bar(7, None), "epoch 1/2 7");
    }

    #[test]
    fn a_pass_begins_from_nothing() {
        let mut bar = Bar::new();
        (bar.position, bar.columns) = (3, 60);
        bar.suffix.push_str("loss 1");
        bar.rate.advance(3, 1.0);
        bar.begin("test", None);
        assert_eq!((bar.position, bar.text().as_str()), (0, "test 0"));
        assert_eq!(bar.columns, "test 0".len());
        bar.suffix = "loss 2".into();
        assert!(bar.text().ends_with(" loss 2"));
    }

    #[test]
    fn a_shorter_line_leaves_nothing_of_the_longer_one() {
        let mut bar = Bar::new();
        assert_eq!(bar.written_over("损失 1", 79), "\r\r损失 1");
        assert_eq!(bar.written_over("ab", 79), "\r      \rab");
        assert_eq!(bar.written_over("abcd", 79), "\r  \rabcd");
        // The terminal has become narrower.
        assert_eq!(bar.written_over("", 3), "\r   \r");
        assert_eq!(bar.columns, 0);
    }

    #[test]
    fn a_long_line_ends_before_the_terminal_does() {
        assert_eq!(shorten("epoch 1", 7), "epoch 1");
        assert_eq!(shorten("epoch 12", 7), "epoch 1");
        // A wide character that fits only by half is dropped, and so is the text after it.
        assert_eq!(shorten("损失 1", 3), "损");
        assert_eq!(shorten("loss\n\u{1b}[2J1", 20), "loss  [2J1");
        assert_eq!(shorten("epoch", 0), "");
    }

    #[test]
    fn the_rate_follows_the_last_batches() {
        let mut rate = Rate::default();
        assert_eq!(rate.per_second(), None);
        rate.advance(0, 1.0);
        assert_eq!(rate.per_second(), None);
        (1..=100).for_each(|step| rate.advance(10 * step, 1.0));
        assert!((9.9..10.1).contains(&rate.per_second().expect("batches")), "{rate:?}");
        rate.advance(1000, 15.0);
        assert!((0.9..1.1).contains(&rate.per_second().expect("batches")), "{rate:?}");
        rate.advance(1001, 0.0);
        assert!((0.9..1.1).contains(&rate.per_second().expect("batches")), "{rate:?}");
    }

    #[test]
    fn a_terminal_that_only_appends_has_no_bar() {
        assert!(can_write_over(Some(OsStr::new("xterm-256color"))));
        assert!(!can_write_over(Some(OsStr::new("dumb"))));
        assert_eq!(can_write_over(None), cfg!(not(unix)));
    }
}

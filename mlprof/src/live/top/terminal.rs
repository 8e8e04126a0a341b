//! Event loop of `mlprof top`: receives process states and key presses until the user quits.

use mlprof_events::error_chain::Chain;
use std::collections::HashSet;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use mlprof_events::live::{Answer, ProcessState, Request};
use mlprof_report::findings::Rules;
use mlprof_report::output::say;
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use super::super::client::Client;
use super::super::{Error, ProcessName, record, reports};
use super::screen::draw;
use super::view::{Body, View};

/// Maximum time to wait for a key press.
const LOOK: Duration = Duration::from_millis(100);

/// Interval between searches for new processes.
const SEARCH: Duration = Duration::from_secs(2);

/// Interval between requests for the current report, while findings are shown.
const FINDINGS: Duration = Duration::from_secs(10);

/// Time without an answer, in addition to the refresh interval, after which a process is shown as
/// not answering.
const SILENCE: Duration = Duration::from_secs(5);

/// Event that the main loop receives.
enum News {
    Come(Client),
    State(ProcessName, Box<ProcessState>),
    /// The process has ended; the text is its key.
    Ended(ProcessName, String),
    Found(ProcessName, Result<Vec<String>, String>),
    Message(String),
}

/// Shows the processes until the user quits or all of them have ended. With `search`, processes
/// that start later are also shown.
pub(super) fn show(clients: Vec<Client>, interval: u64, search: bool) -> Result<(), Error> {
    let asked_to_end = signals().map_err(broken)?;
    // ratatui's panic hook also restores the terminal before a panic message is printed.
    let mut terminal = ratatui::try_init().map_err(broken)?;
    let shown = Shown::new(interval).run(clients, search, &mut terminal, &asked_to_end);
    ratatui::try_restore().map_err(broken)?;
    let ended = shown.map_err(broken)?;
    if let Some(ended) = ended {
        let numbers: Vec<String> = ended.iter().map(ProcessName::to_string).collect();
        say(format_args!("mlprof: process {} has ended", numbers.join(", ")));
    }
    Ok(())
}

fn broken(error: io::Error) -> Error {
    Error::Write { path: PathBuf::from("the terminal"), error }
}

/// Registers signal handlers and returns the flag that they set.
fn signals() -> io::Result<Arc<AtomicBool>> {
    let asked = Arc::new(AtomicBool::new(false));
    #[cfg(unix)]
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
        signal_hook::flag::register(signal, asked.clone())?;
    }
    Ok(asked)
}

struct Shown {
    view: View,
    interval: u64,
    /// Followed processes, each with the time at which following began. A process that ends before
    /// its first answer is removed.
    followed: Vec<(ProcessName, Instant)>,
    /// Keys of the connected processes.
    known: Arc<Mutex<HashSet<String>>>,
    news: (Sender<News>, Receiver<News>),
    /// Process whose findings were requested last, and the time of that request.
    asked_for_findings: Option<(ProcessName, Instant)>,
}

impl Shown {
    fn new(interval: u64) -> Self {
        let (view, followed, known, news) =
            (View::default(), Vec::new(), Arc::default(), channel());
        Self { view, interval, followed, known, news, asked_for_findings: None }
    }

    /// Runs the event loop. Returns the processes if the loop stopped because all of them ended, or
    /// `None` if the user quit. With `search`, processes that start later are also followed.
    fn run(
        mut self,
        clients: Vec<Client>,
        search: bool,
        terminal: &mut DefaultTerminal,
        asked_to_end: &AtomicBool,
    ) -> io::Result<Option<Vec<ProcessName>>> {
        clients.into_iter().for_each(|client| self.follow(client));
        if search {
            self.search();
        }
        while !asked_to_end.load(Ordering::Relaxed) {
            while let Ok(news) = self.news.1.try_recv() {
                self.hear(news);
            }
            self.view.look_at_clock(SILENCE + Duration::from_millis(self.interval));
            self.view.unanswered = self.unanswered().count();
            if self.has_all_ended() {
                return Ok(Some(self.followed.into_iter().map(|(name, _)| name).collect()));
            }
            self.look_for_findings();
            terminal.draw(|frame| draw(&self.view, frame))?;
            if event::poll(LOOK)?
                && let Event::Key(key) = event::read()?
                && key.kind != KeyEventKind::Release
                && !self.press(key)
            {
                break;
            }
        }
        Ok(None)
    }

    /// Returns, for each process without an answer so far, the time at which following began.
    fn unanswered(&self) -> impl Iterator<Item = Instant> {
        let has_said = |name: ProcessName| self.view.processes.iter().any(|it| it.name == name);
        self.followed.iter().filter(move |(name, _)| !has_said(*name)).map(|(_, since)| *since)
    }

    /// Returns `true` if all known processes have ended. Stopped processes that never answered do
    /// not delay this.
    fn has_all_ended(&self) -> bool {
        let known = &self.view.processes;
        let may_answer = self.unanswered().any(|since| since.elapsed() < SILENCE);
        !known.is_empty() && known.iter().all(|it| it.has_ended) && !may_answer
    }

    /// Searches for new processes in a separate thread, so that the screen and the keyboard do not
    /// wait. If a search fails, the known processes are still shown.
    fn search(&self) {
        let (known, news) = (self.known.clone(), self.news.0.clone());
        std::thread::spawn(move || {
            loop {
                std::thread::sleep(SEARCH);
                let before = known.lock().unwrap_or_else(PoisonError::into_inner).clone();
                for client in Client::all_but(&before).unwrap_or_default() {
                    known.lock().unwrap_or_else(PoisonError::into_inner).insert(client.key());
                    if news.send(News::Come(client)).is_err() {
                        return;
                    }
                }
            }
        });
    }

    fn follow(&mut self, mut client: Client) {
        let (process, key, news) = (client.process(), client.key(), self.news.0.clone());
        self.known.lock().unwrap_or_else(PoisonError::into_inner).insert(key.clone());
        self.followed.retain(|(name, _)| *name != process);
        self.followed.push((process, Instant::now()));
        let interval_milliseconds = self.interval;
        std::thread::spawn(move || {
            let request = Request::Follow { interval_milliseconds, actions: true };
            // A stopped process may continue later, so the read timeout is removed.
            let waits = client.wait_for_ever();
            let mut answer = waits.and_then(|()| client.ask(request));
            // Sending fails once the main loop has ended.
            while let Ok(Answer::State(state)) = answer {
                if news.send(News::State(process, Box::new(state))).is_err() {
                    return;
                }
                answer = client.answer();
            }
            let _ = news.send(News::Ended(process, key));
        });
    }

    fn hear(&mut self, news: News) {
        match news {
            News::Come(client) => self.follow(client),
            News::State(process, state) => self.view.hear(process, *state),
            News::Ended(process, key) => {
                self.view.has_ended(process);
                // A process that never answered is removed, so a later search can find it again.
                if !self.view.processes.iter().any(|it| it.name == process) {
                    self.followed.retain(|(name, _)| *name != process);
                    self.known.lock().unwrap_or_else(PoisonError::into_inner).remove(&key);
                }
            }
            News::Found(process, findings) => self.view.found(process, findings),
            News::Message(message) => self.view.message = message,
        }
    }

    /// Handles a key press and returns `false` if the user quits.
    fn press(&mut self, key: KeyEvent) -> bool {
        let is_control = key.modifiers.contains(KeyModifiers::CONTROL);
        match key.code {
            KeyCode::Char('c') if is_control => return false,
            KeyCode::Char('q') => return false,
            KeyCode::Char('?') => self.view.shows_help = !self.view.shows_help,
            KeyCode::Esc => self.view.shows_help = false,
            KeyCode::Char('s') => self.view.order = self.view.order.next(),
            KeyCode::Char('a') => self.view.shows_all = !self.view.shows_all,
            KeyCode::Char('t') => self.view.show(Body::Threads),
            KeyCode::Char('p') => self.view.show(Body::Processes),
            KeyCode::Char('f') => self.view.show(Body::Findings),
            KeyCode::Char('r') => self.record(),
            KeyCode::Tab | KeyCode::Right => self.view.turn(true),
            KeyCode::BackTab | KeyCode::Left => self.view.turn(false),
            KeyCode::Down => self.view.scroll(true),
            KeyCode::Up => self.view.scroll(false),
            _ => {}
        }
        true
    }

    /// Requests the current report of the selected process at intervals, while its findings are
    /// shown.
    fn look_for_findings(&mut self) {
        let Some(chosen) = self.view.chosen() else { return };
        let process = chosen.name;
        let is_fresh = |(of, at): (ProcessName, Instant)| of == process && at.elapsed() < FINDINGS;
        let is_shown = self.view.body == Body::Findings && !chosen.has_ended;
        if !is_shown || self.asked_for_findings.is_some_and(is_fresh) {
            return;
        }
        self.asked_for_findings = Some((process, Instant::now()));
        let news = self.news.0.clone();
        std::thread::spawn(move || {
            let _ = news.send(News::Found(process, findings(process)));
        });
    }

    fn record(&mut self) {
        let Some(chosen) = self.view.chosen() else { return };
        let (process, news) = (chosen.name, self.news.0.clone());
        self.view.message = "recording 5 steps".to_owned();
        std::thread::spawn(move || {
            let message = match record::record(&record::Arguments::of_steps(process)) {
                Ok((files, _)) => format!("written: {}", files.trace.display()),
                Err(error) => Chain(&error).to_string(),
            };
            let _ = news.send(News::Message(message));
        });
    }
}

/// Returns the findings in the current reports of a process.
fn findings(process: ProcessName) -> Result<Vec<String>, String> {
    let reports = reports(process).map_err(|error| Chain(&error).to_string())?;
    let rules = Rules::new();
    let mut found = Vec::new();
    for report in reports {
        let report = serde_json::from_value(report)
            .map_err(|error| format!("cannot parse a report of process {process}: {error}"))?;
        found.extend(rules.apply(&report));
    }
    found.sort_by(|one, other| other.cost.seconds.total_cmp(&one.cost.seconds));
    Ok(found.iter().map(|it| format!("{} {}", it.sentence, it.remedy)).collect())
}

//! Connects the ranks of a run.

use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

use mlprof_core::RunContext;

use super::wire::{Kind, Link};
use super::{GroupError, Result, link};

/// Polling interval for new connections.
const PAUSE: Duration = Duration::from_millis(5);
/// Maximum time for a connected process to identify itself.
const TO_SAY_HELLO: Duration = Duration::from_secs(2);

/// The meeting point of the ranks, and the maximum time that ranks wait for each other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Meeting {
    /// Address of rank 0.
    pub address: String,
    /// Port of rank 0.
    pub port: u16,
    /// Maximum time to wait for all ranks, and then for each response.
    pub patience: Duration,
}

impl Meeting {
    /// Reads the meeting point from `MASTER_ADDR` and `MASTER_PORT`, which launchers or users set.
    ///
    /// Under torchrun, the next port is used, because torchrun's own store listens at
    /// `MASTER_PORT`.
    ///
    /// # Errors
    ///
    /// Returns an error if one of the variables is missing or if the port is invalid.
    pub fn from_environment(patience: Duration) -> Result<Self> {
        Self::from_variables(|name| std::env::var(name).ok(), patience)
    }

    pub(super) fn from_variables(
        variable: impl Fn(&str) -> Option<String>,
        patience: Duration,
    ) -> Result<Self> {
        let said = |name: &str| {
            variable(name).filter(|value| !value.is_empty()).ok_or_else(|| {
                GroupError::Setting(format!(
                    "{name} is not set: several processes need MASTER_ADDR and MASTER_PORT, the \
                     address of rank 0's machine and a free port there"
                ))
            })
        };
        let (address, port) = (said("MASTER_ADDR")?, said("MASTER_PORT")?);
        let has_store = variable("TORCHELASTIC_USE_AGENT_STORE").as_deref() == Some("True");
        let port = port.trim().parse::<u16>().ok();
        let port = if has_store { port.and_then(|port| port.checked_add(1)) } else { port };
        let port = port.filter(|&port| port != 0).ok_or_else(|| {
            GroupError::Setting(
                "MASTER_PORT is not a port: use a number from 1 to 65535".to_owned(),
            )
        })?;
        Ok(Self { address, port, patience })
    }

    fn addresses(&self) -> Result<Vec<SocketAddr>> {
        let place = (self.address.as_str(), self.port);
        let addresses: Vec<_> = place
            .to_socket_addrs()
            .map_err(|error| GroupError::Join(format!("{}: {error}", self.address)))?
            .collect();
        Ok(addresses)
    }
}

/// Returns the connections of this rank: to all others for rank 0, otherwise to rank 0.
pub(super) fn links(run: &RunContext, meeting: &Meeting) -> Result<Vec<Link>> {
    match (run.world_size, run.rank) {
        (0 | 1, _) => Ok(Vec::new()),
        (_, 0) => {
            let listener = TcpListener::bind(&meeting.addresses()?[..]).map_err(|error| {
                let Meeting { address, port, .. } = meeting;
                GroupError::Join(format!("rank 0 cannot listen at {address}:{port}: {error}"))
            })?;
            gather(&listener, run.world_size, meeting.patience)
        }
        _ => Ok(vec![connect(run, meeting)?]),
    }
}

/// Waits for all other ranks to connect.
pub(super) fn gather(
    listener: &TcpListener,
    world_size: u32,
    patience: Duration,
) -> Result<Vec<Link>> {
    let failed = |error: std::io::Error| GroupError::Join(error.to_string());
    let deadline = Instant::now() + patience;
    listener.set_nonblocking(true).map_err(failed)?;
    let mut links: Vec<Option<Link>> = (1..world_size).map(|_| None).collect();
    while links.iter().any(Option::is_none) {
        match listener.accept() {
            Ok((stream, _)) => {
                // A connection without a valid greeting does not belong to this run.
                let Some((link, rank)) = welcome(stream, world_size, patience)? else { continue };
                let place = &mut links[rank as usize - 1];
                if place.replace(link).is_some() {
                    return Err(GroupError::Join(format!("two processes have rank {rank}")));
                }
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                if Instant::now() > deadline {
                    return Err(GroupError::Join(missing(&links, patience)));
                }
                std::thread::sleep(PAUSE);
            }
            Err(error) => return Err(failed(error)),
        }
    }
    Ok(links.into_iter().flatten().collect())
}

fn missing(links: &[Option<Link>], patience: Duration) -> String {
    let absent = (1..).zip(links).filter(|(_, link)| link.is_none());
    let ranks: Vec<_> = absent.map(|(rank, _): (u32, _)| rank.to_string()).collect();
    format!("rank {} did not connect within {patience:?}", ranks.join(", "))
}

/// Reads the greeting of a connection. Returns `None` for an unrelated process.
fn welcome(stream: TcpStream, world_size: u32, patience: Duration) -> Result<Option<(Link, u32)>> {
    let Ok(mut link) = link(stream, u32::MAX, TO_SAY_HELLO.min(patience)) else { return Ok(None) };
    let Ok([rank, theirs]) = link.receive_words(Kind::Hello) else { return Ok(None) };
    let Some(known) = u32::try_from(rank).ok().filter(|rank| (1..world_size).contains(rank)) else {
        let problem = format!(
            "a process has rank {rank} of {theirs}, but rank 0 expects {world_size} \
                     processes"
        );
        return Err(GroupError::Join(problem));
    };
    if theirs != u64::from(world_size) {
        let problem = format!(
            "rank {rank} expects {theirs} processes, but rank 0 expects \
                               {world_size}"
        );
        return Err(GroupError::Join(problem));
    }
    let failed = |error| {
        GroupError::Join(format!(
            "cannot use the connection to rank {rank}: \
                                                   {error}"
        ))
    };
    let mut link = link.with_rank(known, patience).map_err(failed)?;
    link.send_words(Kind::Welcome, [0, theirs])?;
    Ok(Some((link, known)))
}

/// Retries until rank 0 accepts the connection.
fn connect(run: &RunContext, meeting: &Meeting) -> Result<Link> {
    let Meeting { address, port, patience } = meeting;
    let deadline = Instant::now() + *patience;
    let addresses = meeting.addresses()?;
    let stream = loop {
        match TcpStream::connect(&addresses[..]) {
            Ok(stream) => break stream,
            Err(error) if Instant::now() > deadline => {
                return Err(GroupError::Join(format!(
                    "rank 0 did not answer at {address}:{port} within {patience:?}: {error}"
                )));
            }
            Err(_) => std::thread::sleep(PAUSE),
        }
    };
    let mut link = link(stream, 0, *patience)?;
    link.send_words(Kind::Hello, [run.rank.into(), run.world_size.into()])?;
    link.receive_words(Kind::Welcome)?;
    Ok(link)
}

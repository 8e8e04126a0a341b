//! Requesters of recordings, and the error for a second request during a recording.

use std::fmt;
use std::time::Duration;

/// Origin of a recording request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Requester {
    /// `mlprof record`, or another client of the socket.
    Command {
        /// Process id of the client, if known.
        process: Option<u32>,
    },
    /// TensorBoard or XProf, which means any process that can connect to the local port.
    #[cfg_attr(not(feature = "capture"), allow(dead_code, reason = "there is no such endpoint"))]
    Capture,
    /// The dynolog daemon.
    #[cfg_attr(not(target_os = "linux"), allow(dead_code, reason = "there is no such endpoint"))]
    Dynolog,
}

impl Requester {
    /// Returns the time within which a recording must begin. Only the user of the training may let
    /// it wait for long.
    pub(crate) fn patience(self) -> Duration {
        match self {
            Self::Command { .. } => Duration::from_secs(3600),
            Self::Capture | Self::Dynolog => Duration::from_secs(600),
        }
    }
}

impl fmt::Display for Requester {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Command { process: Some(process) } => {
                write!(f, "mlprof record (process {process})")
            }
            Self::Command { process: None } => f.write_str("mlprof record"),
            Self::Capture => f.write_str("TensorBoard or XProf"),
            Self::Dynolog => f.write_str("dynolog"),
        }
    }
}

/// Reason why a recording cannot be requested now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Busy {
    /// Another recording is active.
    UnderWay {
        /// Requester of the active recording.
        requester: Requester,
        /// Time since the request.
        since: Duration,
        /// Set when the recording has begun.
        has_begun: bool,
    },
    /// The user has just cancelled a recording and has priority.
    Reserved {
        /// Time until other requesters may request a recording again.
        left: Duration,
    },
}

impl fmt::Display for Busy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnderWay { requester, since, has_begun } => {
                let seconds = since.as_secs_f64();
                let state = if *has_begun { "" } else { " (not started yet)" };
                let process = mlprof_events::process_id();
                write!(
                    f,
                    "cannot record: a recording requested by {requester} {seconds:.1} s ago is still \
                     active{state}; try again later, or cancel it with `mlprof record {process} --cancel`"
                )
            }
            Self::Reserved { left } => {
                let seconds = left.as_secs_f64();
                write!(
                    f,
                    "cannot record: the user has just cancelled a recording; try again in {seconds:.1} s"
                )
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rejected_request_names_the_active_requester_and_a_remedy() {
        let requester = Requester::Command { process: Some(7) };
        let since = Duration::from_millis(3200);
        let text = Busy::UnderWay { requester, since, has_begun: false }.to_string();
        for part in [
            "requested by mlprof record (process 7) 3.2 s ago is still active (not started yet)",
            "--cancel",
        ] {
            assert!(text.contains(part), "{part} in {text}");
        }
        let text = Busy::UnderWay { requester: Requester::Capture, since, has_begun: true };
        assert!(
            text.to_string()
                .contains("requested by TensorBoard or XProf 3.2 s ago is still active")
        );
    }
}

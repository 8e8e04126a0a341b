//! Queries on a Ballista cluster. Ballista is a distributed engine based on DataFusion. Its
//! executors read and compute, and its scheduler distributes the work and reassigns it if an
//! executor is lost.

use datafusion::prelude::SessionContext;

use crate::Error;

/// Returns a session that runs its queries on the cluster of this scheduler. This machine itself
/// lists the files and reads their columns beforehand.
///
/// # Errors
///
/// Returns an error if the address is invalid or the scheduler does not respond.
#[cfg(feature = "cluster")]
pub(crate) async fn context(address: &str) -> Result<SessionContext, Error> {
    use ballista::prelude::{SessionConfigExt, SessionContextExt};
    use datafusion::execution::SessionStateBuilder;

    /// Configuration key of adaptive planning. With it, Ballista 55 loses the order of rows.
    const ADAPTIVE: &str = "ballista.planner.adaptive.enabled";
    /// Time to wait for the scheduler.
    const PATIENCE: std::time::Duration = std::time::Duration::from_secs(10);

    let (host, port) = host_and_port(address)?;
    let unreachable = |reason| Error::Cluster { address: address.to_owned(), reason };
    let connected = tokio::net::TcpStream::connect((host.trim_matches(['[', ']']), port));
    match tokio::time::timeout(PATIENCE, connected).await {
        Ok(Ok(_)) => {}
        Ok(Err(error)) => return Err(unreachable(error.to_string())),
        Err(_) => return Err(unreachable(format!("no reply within {} s", PATIENCE.as_secs()))),
    }
    let state = crate::context(None)?.state();
    let config = state.config().clone().upgrade_for_ballista().set_bool(ADAPTIVE, false);
    let state = SessionStateBuilder::new_from_existing(state).with_config(config).build();
    Ok(SessionContext::remote_with_state(&format!("df://{host}:{port}"), state).await?)
}

/// Parses the host and port of a scheduler from `df://HOST:PORT`. The default is Ballista's port.
#[cfg(feature = "cluster")]
fn host_and_port(address: &str) -> Result<(String, u16), Error> {
    const PORT: u16 = 50_050;
    let none = || Error::Scheduler { address: address.to_owned() };
    let url = url::Url::parse(address).map_err(|_| none())?;
    let host = url.host_str().filter(|host| url.scheme() == "df" && !host.is_empty());
    Ok((host.ok_or_else(none)?.to_owned(), url.port().unwrap_or(PORT)))
}

/// Returns an error, because the program was built without cluster support.
#[cfg(not(feature = "cluster"))]
#[allow(clippy::unused_async, reason = "as with clusters")]
pub(crate) async fn context(_address: &str) -> Result<SessionContext, Error> {
    Err(Error::NoClusters)
}

#[cfg(all(test, feature = "cluster"))]
mod tests {
    use super::*;

    #[test]
    fn schedulers_have_addresses() {
        for (address, host, port) in [
            ("df://localhost:50051", "localhost", 50_051),
            ("df://ballista.example", "ballista.example", 50_050),
            ("df://[::1]:7", "[::1]", 7),
        ] {
            assert_eq!(host_and_port(address).ok(), Some((host.to_owned(), port)));
        }
        for address in ["localhost:50050", "http://localhost:50050", "df://", "df", ""] {
            assert!(host_and_port(address).is_err(), "{address}");
        }
    }
}

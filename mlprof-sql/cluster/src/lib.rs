//! Code shared by the programs of a cluster's machines. See `README.md`.

use std::error::Error;
use std::future::Future;
use std::io::{self, Write};
use std::net::{SocketAddr, ToSocketAddrs};
use std::process::ExitCode;

/// Stack size of a thread in bytes. Plans of complex queries are deep, and each level uses some
/// stack.
const STACK: usize = 64 << 20;

/// Runs a machine's program until it ends. It ends by itself only after an error, which is printed
/// in one line.
pub fn run(machine: impl Future<Output = Result<(), Box<dyn Error>>>) -> ExitCode {
    env_logger::Builder::from_env(env_logger::Env::default().default_filter_or("warn")).init();
    let mut threads = tokio::runtime::Builder::new_multi_thread();
    let ended = match threads.enable_all().thread_stack_size(STACK).build() {
        Ok(runtime) => runtime.block_on(machine),
        Err(error) => Err(error.into()),
    };
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // If standard error is closed, the message cannot be printed.
            let _ = writeln!(io::stderr(), "error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Parses the address to listen on from `ADDRESS:PORT`.
///
/// # Errors
///
/// Returns an error if the address does not resolve.
pub fn place(address: &str) -> Result<SocketAddr, String> {
    let mut places = address.to_socket_addrs().map_err(|error| error.to_string())?;
    places.next().ok_or_else(|| "the name has no address".to_owned())
}

/// Parses a host name and a port from `HOST:PORT`. The default is Ballista's port.
///
/// # Errors
///
/// Returns an error if the host is missing or the port is invalid.
pub fn host_and_port(address: &str) -> Result<(String, u16), String> {
    const PORT: u16 = 50_050;
    let (host, port) = match address.rsplit_once(':') {
        Some((host, port)) => (host, port.parse().map_err(|_| format!("{port} is not a port"))?),
        None => (address, PORT),
    };
    match host {
        "" => Err("the address has no host".to_owned()),
        host => Ok((host.to_owned(), port)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machines_are_named_with_or_without_a_port() {
        assert_eq!(host_and_port("head"), Ok(("head".to_owned(), 50_050)));
        assert_eq!(host_and_port("head:7"), Ok(("head".to_owned(), 7)));
        assert!(host_and_port(":7").is_err());
        assert_eq!(host_and_port("head:x"), Err("x is not a port".to_owned()));
    }

    #[test]
    fn places_are_addresses() {
        assert_eq!(place("127.0.0.1:7"), Ok(SocketAddr::from(([127, 0, 0, 1], 7))));
        assert!(place("127.0.0.1").is_err());
    }
}

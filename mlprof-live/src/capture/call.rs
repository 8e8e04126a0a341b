//! Handles one gRPC request and sends its answer.

use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use h2::server::SendResponse;
use h2::{Reason, RecvStream, SendStream};
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode};
use mlprof_core::output::say;
use mlprof_events::clock::wall_time;
use mlprof_events::live::LONGEST_RECORDING;
use mlprof_events::{UtcTime, own_thread};
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep, timeout, timeout_at};

use super::grpc::{self, Code, Status};
use super::messages::{MonitorRequest, ProfileRequest, TerminateRequest, TerminateResponse};
use super::profile::{self, Captures, Turn};
use super::{host, monitor};
use crate::answer_budget::ReservedBytes;
use crate::service::answers;
use crate::service::recorded::UnderWay;
use crate::shared;
use crate::watcher::Watcher;

/// Timeout for receiving the parts of a request.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);

/// Path prefix of the service.
const SERVICE: &str = "/tensorflow.ProfilerService/";

/// Maximum size of a request body in bytes.
const LONGEST_REQUEST: usize = 64 << 10;

/// Time to keep the process from exiting after an answer was sent, so that the client can receive
/// it.
const LINGER: Duration = Duration::from_secs(1);

/// Guards that delay the end of the process and the next capture until the answer was received.
#[derive(Default)]
struct Holds {
    under_way: Option<UnderWay>,
    turn: Option<Turn>,
    kept: Option<ReservedBytes>,
    counted: Option<CountGuard>,
}

/// Answers one request, and returns `true` if it was valid. The call is counted in `counts` until
/// the client has received the answer.
pub(super) async fn answer(
    mut request: Request<RecvStream>,
    mut respond: SendResponse<Bytes>,
    captures: Arc<Captures>,
    counts: Arc<CallCounts>,
) -> bool {
    if let Some(refused) = not_grpc(&request) {
        let response = Response::builder().status(refused).body(());
        let _ = response.map(|response| respond.send_response(response, true));
        return false;
    }
    let mut holds = Holds::default();
    let answered = match understood(&mut request).await {
        Ok((method, body)) => {
            let headers = request.headers();
            let call = Call { watcher: shared::watcher(), headers, captures, counts };
            tokio::select! {
                answered = call.run(&method, &body, &mut holds) => answered,
                // The client has cancelled the request or disconnected.
                _ = poll_fn(|cx| respond.poll_reset(cx)) => return true,
            }
        }
        Err(status) => Err(status),
    };
    let is_valid = answered.is_ok();
    // A send error means that the client is gone, so it is ignored.
    let _ = send(&mut respond, answered).await;
    // The next capture may now begin.
    (holds.turn, holds.kept) = (None, None);
    if holds.under_way.is_some() {
        sleep(LINGER).await;
    }
    is_valid
}

/// Numbers of active calls of one client.
#[derive(Debug, Default)]
pub(super) struct CallCounts {
    /// Calls that will be answered after their recording time.
    pub(super) answered: AtomicUsize,
    /// Captures among these calls; at most one over all clients.
    pub(super) captures: AtomicUsize,
}

/// RAII guard that counts one active call.
struct CountGuard {
    counts: Arc<CallCounts>,
    is_capture: bool,
}

impl CountGuard {
    fn begin(counts: &Arc<CallCounts>, is_capture: bool) -> Self {
        counts.answered.fetch_add(1, Ordering::SeqCst);
        counts.captures.fetch_add(usize::from(is_capture), Ordering::SeqCst);
        Self { counts: counts.clone(), is_capture }
    }
}

impl Drop for CountGuard {
    fn drop(&mut self) {
        self.counts.answered.fetch_sub(1, Ordering::SeqCst);
        self.counts.captures.fetch_sub(usize::from(self.is_capture), Ordering::SeqCst);
    }
}

/// Returns the HTTP status that rejects a request which is not gRPC. Returns `None` for a gRPC
/// request.
fn not_grpc<T>(request: &Request<T>) -> Option<StatusCode> {
    let kind = request.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    if request.method() != Method::POST {
        return Some(StatusCode::METHOD_NOT_ALLOWED);
    }
    let is_grpc = kind.is_some_and(|kind| kind.starts_with("application/grpc"));
    (!is_grpc).then_some(StatusCode::UNSUPPORTED_MEDIA_TYPE)
}

/// Returns the called method and the body of the request.
async fn understood(request: &mut Request<RecvStream>) -> Result<(String, Bytes), Status> {
    if !host::is_loopback(request) {
        let what = "mlprof accepts only requests to localhost, 127.0.0.1 or [::1]";
        return Err(Status::new(Code::PermissionDenied, what));
    }
    let Some(method) = request.uri().path().strip_prefix(SERVICE).map(str::to_owned) else {
        let what = format!("mlprof supports only {SERVICE}Profile, Terminate and Monitor");
        return Err(Status::new(Code::Unimplemented, what));
    };
    match timeout(PATIENCE, read(request.body_mut())).await {
        Ok(body) => Ok((method, body?)),
        Err(_) => Err(Status::new(
            Code::DeadlineExceeded,
            "the request was not complete within 10 seconds",
        )),
    }
}

async fn read(body: &mut RecvStream) -> Result<Bytes, Status> {
    let mut bytes = BytesMut::new();
    while let Some(part) = body.data().await {
        let part = part.map_err(|error| {
            Status::new(Code::Internal, format!("cannot read the request: {error}"))
        })?;
        if bytes.len() + part.len() > LONGEST_REQUEST {
            let what = format!("the request has more than {LONGEST_REQUEST} bytes");
            return Err(Status::new(Code::ResourceExhausted, what));
        }
        let _ = body.flow_control().release_capacity(part.len());
        bytes.extend_from_slice(&part);
    }
    Ok(bytes.freeze())
}

struct Call<'request> {
    watcher: Option<&'static Arc<Watcher>>,
    headers: &'request HeaderMap,
    captures: Arc<Captures>,
    counts: Arc<CallCounts>,
}

impl Call<'_> {
    /// Runs the method and returns the framed answer. `holds` receives the guards to keep until the
    /// client has received it.
    async fn run(&self, method: &str, body: &Bytes, holds: &mut Holds) -> Result<Bytes, Status> {
        match method {
            "Profile" => {
                holds.under_way = Some(UnderWay::begin());
                self.profile(grpc::message(body)?, holds).await
            }
            "Terminate" => self.terminate(&grpc::message(body)?),
            "Monitor" => self.monitor(grpc::message(body)?, holds).await,
            "StartContinuousProfiling" | "StopContinuousProfiling" | "GetSnapshot" => {
                let what = "mlprof does not support continuous profiling; use Profile, which captures up to \
                            ten minutes";
                Err(Status::new(Code::Unimplemented, what))
            }
            _ => {
                let what = format!("unknown method {method:?}");
                Err(Status::new(Code::Unimplemented, what))
            }
        }
    }

    fn watcher(&self) -> Result<&'static Arc<Watcher>, Status> {
        self.watcher
            .ok_or_else(|| Status::new(Code::Internal, "the process is still starting; try again"))
    }

    async fn profile(&self, request: ProfileRequest, holds: &mut Holds) -> Result<Bytes, Status> {
        let watcher = self.watcher()?.clone();
        let patience = grpc::timeout(self.headers);
        let turn = match self.captures.begin(request.session_id.clone(), patience) {
            Ok(turn) => turn,
            Err(busy) => {
                return grpc::framed(&profile::response(&request, profile::busy(busy)));
            }
        };
        holds.counted = Some(CountGuard::begin(&self.counts, true));
        // Dropping this guard marks the capture as abandoned.
        let _abandons = turn.abandoned_by();
        let (sender, answer) = oneshot::channel();
        let work = move || {
            let work = AssertUnwindSafe(|| profile::answer(&watcher, &request, &turn));
            let framed = match catch_unwind(work) {
                Ok(space) => space.map(|space| framed(&request, space)),
                Err(_) => Some(Err(Status::new(
                    Code::Internal,
                    "mlprof panicked while it prepared the reply",
                ))),
            };
            // Sending fails if the client no longer waits, and the capture is then discarded.
            let _ = framed.map(|framed| sender.send((framed, turn)));
        };
        if let Err(error) = own_thread::spawn("mlprof-captured", work) {
            let what = format!("cannot start a thread: {error}");
            return Err(Status::new(Code::ResourceExhausted, what));
        }
        let gone = |_| Status::new(Code::Internal, "the capture was discarded");
        let (framed, turn) = answer.await.map_err(gone)?;
        holds.turn = Some(turn);
        let (bytes, kept) = framed?;
        holds.kept = Some(kept);
        Ok(bytes)
    }

    fn terminate(&self, request: &TerminateRequest) -> Result<Bytes, Status> {
        let session = &request.session_id;
        if self.captures.terminate(session) {
            return grpc::framed(&TerminateResponse {});
        }
        let what = format!("session {session:?} has no active capture");
        Err(Status::new(Code::NotFound, what))
    }

    async fn monitor(&self, request: MonitorRequest, holds: &mut Holds) -> Result<Bytes, Status> {
        let watcher = self.watcher()?;
        if request.duration_ms > LONGEST_RECORDING {
            let what = format!(
                "cannot monitor for {} ms: the limit is {LONGEST_RECORDING} ms",
                request.duration_ms
            );
            return Err(Status::new(Code::InvalidArgument, what));
        }
        holds.counted = Some(CountGuard::begin(&self.counts, false));
        let before = answers::state(watcher);
        sleep(Duration::from_millis(request.duration_ms)).await;
        let after = answers::state(watcher);
        let now = format!("{} UTC", UtcTime::from(wall_time()).time_of_day());
        let time = request.timestamp.then_some(now.as_str());
        grpc::framed(&monitor::response(&before, &after, time))
    }
}

/// Frames the answer to a capture and reserves memory for it.
fn framed(request: &ProfileRequest, space: Bytes) -> Result<(Bytes, ReservedBytes), Status> {
    let bytes = grpc::framed(&profile::response(request, space))?;
    let kept = ReservedBytes::begin(bytes.len() as u64);
    let kept = kept.map_err(|why| Status::new(Code::ResourceExhausted, why))?;
    Ok((bytes, kept))
}

/// Sends the answer or the error status.
async fn send(
    respond: &mut SendResponse<Bytes>,
    answered: Result<Bytes, Status>,
) -> Result<(), h2::Error> {
    let mut response = Response::new(());
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    match answered {
        Ok(message) => {
            let mut stream = respond.send_response(response, false)?;
            let patience = ReservedBytes::patience(message.len() as u64);
            if !send_message(&mut stream, message, Instant::now() + patience).await? {
                stream.send_reset(Reason::CANCEL);
                let seconds = patience.as_secs();
                say(format_args!(
                    "mlprof: discarded a capture, because its client did not receive the reply within \
                     {seconds} s"
                ));
                return Ok(());
            }
            stream.send_trailers(grpc::ok())
        }
        Err(status) => {
            response.headers_mut().extend(status.headers());
            respond.send_response(response, true).map(drop)
        }
    }
}

/// Sends a message in parts, as fast as the client receives them. Returns `true` unless the
/// deadline passes first.
async fn send_message(
    stream: &mut SendStream<Bytes>,
    mut message: Bytes,
    until: Instant,
) -> Result<bool, h2::Error> {
    while !message.is_empty() {
        stream.reserve_capacity(message.len());
        match timeout_at(until, poll_fn(|cx| stream.poll_capacity(cx))).await {
            // The deadline is checked explicitly, because a client that reads single bytes makes
            // each wait succeed.
            _ if Instant::now() >= until => return Ok(false),
            Ok(Some(Ok(room))) => {
                // The part is copied, so that the connection's send buffer does not keep the whole
                // message alive.
                let part = message.split_to(room.min(message.len()));
                stream.send_data(Bytes::copy_from_slice(&part), false)?;
            }
            Ok(Some(Err(error))) => return Err(error),
            // The client has cancelled the request.
            Ok(None) => return Ok(true),
            Err(_) => return Ok(false),
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use tokio::net::{TcpListener, TcpStream};
    use tokio::runtime::Builder;

    use super::*;

    /// Connects a client with a window of one byte and sends it a kilobyte. The client reads one
    /// byte per `pause`.
    async fn sent_to_slow_client(pause: Duration, within: Duration) -> Result<bool, h2::Error> {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let client = async move {
            let stream = TcpStream::connect(address).await.expect("it listens");
            let mut settings = h2::client::Builder::new();
            let (mut send, connection) = settings
                .initial_window_size(1)
                .handshake::<_, Bytes>(stream)
                .await
                .expect("HTTP/2");
            tokio::spawn(connection);
            let request = Request::builder().uri("http://localhost/").body(()).expect("a request");
            let (response, _) = send.send_request(request, true).expect("sent");
            let mut body = response.await.expect("a head").into_body();
            while let Some(Ok(part)) = body.data().await {
                sleep(pause).await;
                body.flow_control().release_capacity(part.len()).expect("taken");
            }
        };
        let client = tokio::spawn(client);
        let (stream, _) = listener.accept().await.expect("a client");
        let mut connection = h2::server::handshake(stream).await.expect("HTTP/2");
        let (_, mut respond) = connection.accept().await.expect("a request").expect("whole");
        let mut body = respond.send_response(Response::new(()), false).expect("open");
        let driven = tokio::spawn(async move { while connection.accept().await.is_some() {} });
        let message = Bytes::from(vec![b'x'; 1024]);
        let sent = send_message(&mut body, message, Instant::now() + within).await;
        driven.abort();
        client.abort();
        sent
    }

    #[test]
    fn a_byte_now_and_then_does_not_move_the_deadline() {
        let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
        let millis = Duration::from_millis;
        let slow = runtime.block_on(sent_to_slow_client(millis(20), millis(300)));
        assert!(matches!(slow, Ok(false)), "{slow:?}");
        let quick = runtime.block_on(sent_to_slow_client(Duration::ZERO, Duration::from_secs(60)));
        assert!(matches!(quick, Ok(true)), "{quick:?}");
    }

    #[test]
    fn calls_are_counted_while_they_last() {
        let counts = Arc::new(CallCounts::default());
        let of = |counts: &CallCounts| {
            [&counts.answered, &counts.captures].map(|count| count.load(Ordering::SeqCst))
        };
        let capture = CountGuard::begin(&counts, true);
        let other = CountGuard::begin(&counts, false);
        assert_eq!(of(&counts), [2, 1]);
        drop(capture);
        assert_eq!(of(&counts), [1, 0]);
        drop(other);
        assert_eq!(of(&counts), [0, 0]);
    }
}

//! One request, and its answer.

use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use h2::server::SendResponse;
use h2::{Reason, RecvStream, SendStream};
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode};
use profiler_core::output::say;
use profiler_events::live::LONGEST_RECORDING;
use profiler_events::own_thread;
use tokio::sync::oneshot;
use tokio::time::{sleep, timeout};

use super::grpc::{self, Code, Status};
use super::messages::{MonitorRequest, ProfileRequest, TerminateRequest, TerminateResponse};
use super::profile::{self, Captures};
use super::{host, monitor};
use crate::service::answers;
use crate::service::recorded::UnderWay;
use crate::shared;
use crate::watcher::Watcher;

/// Who does not say what belongs to a request, or does not take its answer, is not waited for any longer.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);

/// Where the service is.
const SERVICE: &str = "/tensorflow.ProfilerService/";

/// What a request may have, in bytes.
const LONGEST_REQUEST: usize = 64 << 10;

/// So long the end of the process waits for an answer to be taken.
const LINGER: Duration = Duration::from_secs(1);

/// Answers one request.
pub(super) async fn answer(
    mut request: Request<RecvStream>,
    mut respond: SendResponse<Bytes>,
    captures: Arc<Captures>,
) {
    if let Some(refused) = not_grpc(&request) {
        let response = Response::builder().status(refused).body(());
        let _ = response.map(|response| respond.send_response(response, true));
        return;
    }
    let mut under_way = None;
    let answered = match understood(&mut request).await {
        Ok((method, body)) => {
            let call = Call { watcher: shared::watcher(), headers: request.headers(), captures };
            tokio::select! {
                answered = call.run(&method, &body, &mut under_way) => answered,
                // Whoever asked has taken it back, or is gone.
                _ = poll_fn(|cx| respond.poll_reset(cx)) => return,
            }
        }
        Err(status) => Err(status),
    };
    // Whoever does not take it is left.
    let _ = send(&mut respond, answered).await;
    if under_way.is_some() {
        sleep(LINGER).await;
    }
}

/// Why a request cannot even be answered by gRPC, if it cannot.
fn not_grpc<T>(request: &Request<T>) -> Option<StatusCode> {
    let kind = request.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    if request.method() != Method::POST {
        return Some(StatusCode::METHOD_NOT_ALLOWED);
    }
    let is_grpc = kind.is_some_and(|kind| kind.starts_with("application/grpc"));
    (!is_grpc).then_some(StatusCode::UNSUPPORTED_MEDIA_TYPE)
}

/// Which method is called, and with what.
async fn understood(request: &mut Request<RecvStream>) -> Result<(String, Bytes), Status> {
    if !host::is_loopback(request) {
        let what = "mlprof answers only who asks for localhost, 127.0.0.1 or [::1]";
        return Err(Status::new(Code::PermissionDenied, what));
    }
    let Some(method) = request.uri().path().strip_prefix(SERVICE).map(str::to_owned) else {
        let what = format!("mlprof answers {SERVICE}Profile, Terminate and Monitor");
        return Err(Status::new(Code::Unimplemented, what));
    };
    match timeout(PATIENCE, read(request.body_mut())).await {
        Ok(body) => Ok((method, body?)),
        Err(_) => {
            Err(Status::new(Code::DeadlineExceeded, "the request did not come within 10 seconds"))
        }
    }
}

async fn read(body: &mut RecvStream) -> Result<Bytes, Status> {
    let mut bytes = BytesMut::new();
    while let Some(part) = body.data().await {
        let part =
            part.map_err(|error| Status::new(Code::Internal, format!("it broke off: {error}")))?;
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
}

impl Call<'_> {
    /// The message that is answered, framed. While it is on its way, and a little longer, `under_way` is set by those that
    /// the end of the process waits for.
    async fn run(
        &self,
        method: &str,
        body: &Bytes,
        under_way: &mut Option<UnderWay>,
    ) -> Result<Bytes, Status> {
        match method {
            "Profile" => {
                *under_way = Some(UnderWay::begin());
                self.profile(grpc::message(body)?).await
            }
            "Terminate" => self.terminate(&grpc::message(body)?),
            "Monitor" => self.monitor(grpc::message(body)?).await,
            "StartContinuousProfiling" | "StopContinuousProfiling" | "GetSnapshot" => {
                let what = "mlprof keeps no profile that goes on all the time: capture one by Profile, for up to \
                            ten minutes";
                Err(Status::new(Code::Unimplemented, what))
            }
            _ => {
                let what = format!("there is no method {method:?}");
                Err(Status::new(Code::Unimplemented, what))
            }
        }
    }

    fn watcher(&self) -> Result<&'static Arc<Watcher>, Status> {
        self.watcher.ok_or_else(|| Status::new(Code::Internal, "the process begins only now"))
    }

    async fn profile(&self, request: ProfileRequest) -> Result<Bytes, Status> {
        let watcher = self.watcher()?.clone();
        let patience = grpc::timeout(self.headers);
        let turn = match self.captures.begin(request.session_id.clone(), patience) {
            Ok(turn) => turn,
            Err(since) => {
                return grpc::framed(&profile::response(&request, profile::busy(since)));
            }
        };
        // If this is dropped nobody waits any more.
        let _abandons = turn.abandoned_by();
        let (sender, answer) = oneshot::channel();
        let work = move || {
            let work = AssertUnwindSafe(|| profile::answer(&watcher, &request, &turn));
            let framed = match catch_unwind(work) {
                Ok(space) => space.map(|it| grpc::framed(&profile::response(&request, it))),
                Err(_) => Some(Err(Status::new(
                    Code::Internal,
                    "mlprof itself panicked while it made the answer",
                ))),
            };
            drop(turn);
            // Nobody waits for it any more if this fails.
            let _ = framed.map(|framed| sender.send(framed));
        };
        if let Err(error) = own_thread::spawn("mlprof-captured", work) {
            let what = format!("no thread can be started: {error}");
            return Err(Status::new(Code::ResourceExhausted, what));
        }
        let gone = || Err(Status::new(Code::Internal, "the capture was thrown away"));
        answer.await.unwrap_or_else(|_| gone())
    }

    fn terminate(&self, request: &TerminateRequest) -> Result<Bytes, Status> {
        let session = &request.session_id;
        if self.captures.terminate(session) {
            return grpc::framed(&TerminateResponse {});
        }
        let what = format!("no capture of a session {session:?} is under way");
        Err(Status::new(Code::NotFound, what))
    }

    async fn monitor(&self, request: MonitorRequest) -> Result<Bytes, Status> {
        let watcher = self.watcher()?;
        if request.duration_ms > LONGEST_RECORDING {
            let what =
                format!("{} ms cannot be looked at: {LONGEST_RECORDING} can", request.duration_ms);
            return Err(Status::new(Code::InvalidArgument, what));
        }
        let before = answers::state(watcher);
        sleep(Duration::from_millis(request.duration_ms)).await;
        let after = answers::state(watcher);
        let now = chrono::Utc::now().format("%H:%M:%S UTC").to_string();
        let time = request.timestamp.then_some(now.as_str());
        grpc::framed(&monitor::response(&before, &after, time))
    }
}

/// Sends what is answered, or why nothing is.
async fn send(
    respond: &mut SendResponse<Bytes>,
    answered: Result<Bytes, Status>,
) -> Result<(), h2::Error> {
    let mut response = Response::new(());
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    match answered {
        Ok(message) => {
            let mut stream = respond.send_response(response, false)?;
            if !send_message(&mut stream, message).await? {
                stream.send_reset(Reason::CANCEL);
                let why = "who captured did not take the trace for ten seconds: it is thrown away";
                say(format_args!("mlprof: {why}"));
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

/// Sends a message piece by piece, as it is taken: whether it was.
async fn send_message(
    stream: &mut SendStream<Bytes>,
    mut message: Bytes,
) -> Result<bool, h2::Error> {
    while !message.is_empty() {
        stream.reserve_capacity(message.len());
        match timeout(PATIENCE, poll_fn(|cx| stream.poll_capacity(cx))).await {
            Ok(Some(Ok(room))) => {
                let part = message.split_to(room.min(message.len()));
                stream.send_data(part, false)?;
            }
            Ok(Some(Err(error))) => return Err(error),
            // It has been taken back.
            Ok(None) => return Ok(true),
            Err(_) => return Ok(false),
        }
    }
    Ok(true)
}

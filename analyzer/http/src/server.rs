//! The server and its thread.

use std::convert::Infallible;
use std::future::pending;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use bytes::Bytes;
use hyper::body::Incoming;
use hyper::header::{CONNECTION, CONTENT_TYPE, HeaderName, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use crate::body::Outgoing;
use crate::check::Check;
use crate::message::{Body, Request, Response};
use crate::options::{Limits, Options};
use crate::timed::Timed;

/// Why a server does not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The address is not a loopback address, and `allow_remote` is off.
    #[error("{0} can be reached from other machines")]
    Remote(SocketAddr),
    /// The address cannot be bound.
    #[error("cannot listen on {0}: {1}")]
    Bind(SocketAddr, io::Error),
    /// The thread or its runtime cannot be created.
    #[error("cannot start a server: {0}")]
    Thread(io::Error),
}

type Handler = dyn Fn(&Request) -> Response + Send + Sync;

/// State that all connections share.
struct Shared {
    check: Check,
    limits: Limits,
    handler: Box<Handler>,
    /// Permits for handlers to run.
    handlers: Arc<Semaphore>,
}

/// A server, which runs until it is dropped.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    token: Option<String>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// Listens, and answers each request that passes the checks with `handler`, on separate threads.
    ///
    /// # Errors
    /// If the address is refused or cannot be bound.
    pub fn start(
        options: Options,
        handler: impl Fn(&Request) -> Response + Send + Sync + 'static,
    ) -> Result<Self, StartError> {
        let wanted = options.address;
        if !wanted.ip().is_loopback() && !options.allow_remote {
            return Err(StartError::Remote(wanted));
        }
        let bind = |error| StartError::Bind(wanted, error);
        let listener = TcpListener::bind(wanted).map_err(bind)?;
        listener.set_nonblocking(true).map_err(bind)?;
        let address = listener.local_addr().map_err(bind)?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .max_blocking_threads(options.limits.handlers.max(1))
            .build()
            .map_err(StartError::Thread)?;
        let token = options.token.as_ref().map(|it| it.digits().to_owned());
        let shared = Arc::new(Shared {
            check: Check {
                address,
                names: options.names,
                token: options.token,
            },
            limits: options.limits,
            handler: Box::new(handler),
            handlers: Arc::new(Semaphore::new(options.limits.handlers.max(1))),
        });
        let (stop, stopped) = oneshot::channel();
        let run = move || {
            runtime.spawn(accept(listener, shared));
            // Both a message and a dropped sender stop the server.
            let _ = runtime.block_on(stopped);
            runtime.shutdown_timeout(Duration::from_secs(1));
        };
        let named = std::thread::Builder::new().name("http".into());
        let thread = named.spawn(run).map_err(StartError::Thread)?;
        Ok(Self {
            address,
            token,
            stop: Some(stop),
            thread: Some(thread),
        })
    }

    /// The address on which it listens; for port 0, it has the port that the system chose.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The URL of a path, with the token.
    pub fn url(&self, path: &str) -> String {
        let token = self.token.as_ref().map(|it| format!("?token={it}"));
        format!("http://{}{path}{}", self.address, token.unwrap_or_default())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // The thread has no result.
            let _ = thread.join();
        }
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    let Ok(listener) = tokio::net::TcpListener::from_std(listener) else {
        return pending().await;
    };
    let places = Arc::new(Semaphore::new(shared.limits.connections));
    loop {
        match listener.accept().await {
            Ok((stream, _)) => match places.clone().try_acquire_owned() {
                Ok(place) => {
                    // Sends figures without delay. The server also works if the option fails.
                    let _ = stream.set_nodelay(true);
                    drop(tokio::spawn(serve(stream, shared.clone(), place)));
                }
                Err(_) => turn_away(&stream),
            },
            // Too many open files, or a closed connection: retry after a pause.
            Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    }
}

/// Sends one line, as far as the socket accepts it at once.
fn turn_away(stream: &TcpStream) {
    let line = "HTTP/1.1 503 Service Unavailable\r\nconnection: close\r\ncontent-length: 21\r\n\r\n\
                too many connections\n";
    // The connection is closed in any case.
    let _ = stream.try_write(line.as_bytes());
}

async fn serve<S>(stream: S, shared: Arc<Shared>, place: OwnedSemaphorePermit)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let limits = shared.limits;
    let io = TokioIo::new(Timed::new(stream, limits.answer_time));
    let service = service_fn(move |request| answer(shared.clone(), request));
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.head_time)
        .max_buf_size(limits.head_bytes.max(8 << 10))
        .max_headers(64)
        .serve_connection(io, service);
    // An error of a reader that disconnects or is too slow is ignored.
    let _ = connection.await;
    drop(place);
}

async fn answer(
    shared: Arc<Shared>,
    request: hyper::Request<Incoming>,
) -> Result<hyper::Response<Outgoing>, Infallible> {
    Ok(match shared.check.request(&request) {
        Ok(request) => outgoing(handle(shared, request).await, false),
        Err(refusal) => outgoing(refusal, true),
    })
}

/// The handler's response. It runs on another thread, so that a slow handler does not delay other connections.
async fn handle(shared: Arc<Shared>, request: Request) -> Response {
    let Ok(turn) = shared.handlers.clone().acquire_owned().await else {
        return Response::plain(503, "the server stops");
    };
    let on_thread = tokio::task::spawn_blocking(move || {
        let response = (shared.handler)(&request);
        drop(turn);
        response
    });
    let failed = |_| Response::plain(500, "the answer could not be made");
    on_thread.await.unwrap_or_else(failed)
}

/// A response with the headers that all responses have.
fn outgoing(response: Response, is_refusal: bool) -> hyper::Response<Outgoing> {
    let always = [
        ("cache-control", "no-store"),
        ("cross-origin-resource-policy", "same-origin"),
        ("referrer-policy", "no-referrer"),
        ("x-content-type-options", "nosniff"),
        ("x-frame-options", "DENY"),
    ];
    let body = match response.body {
        Body::Whole(bytes) => Outgoing::Whole(Some(bytes)),
        Body::Stream(stream) => Outgoing::Stream(stream),
    };
    let mut made = hyper::Response::new(body);
    let headers = made.headers_mut();
    for (name, value) in always {
        headers.insert(
            HeaderName::from_static(name),
            HeaderValue::from_static(value),
        );
    }
    let mut is_sound = (200..600).contains(&response.status);
    for (name, value) in &response.headers {
        match (HeaderName::try_from(*name), HeaderValue::try_from(value)) {
            (Ok(name), Ok(value)) => drop(headers.insert(name, value)),
            _ => is_sound = false,
        }
    }
    match HeaderValue::try_from(response.content_type) {
        Ok(value) => drop(headers.insert(CONTENT_TYPE, value)),
        Err(_) => is_sound = false,
    }
    if is_refusal {
        headers.insert(CONNECTION, HeaderValue::from_static("close"));
    }
    match hyper::StatusCode::from_u16(response.status) {
        Ok(status) if is_sound => *made.status_mut() = status,
        _ => {
            let line = Bytes::from_static(b"the answer could not be made\n");
            made = hyper::Response::new(Outgoing::Whole(Some(line)));
            *made.status_mut() = hyper::StatusCode::INTERNAL_SERVER_ERROR;
        }
    }
    made
}

#[cfg(test)]
mod tests {
    //! The default time limits, with simulated time: it passes while all tasks wait.

    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, duplex};
    use tokio::time::{Instant, sleep, timeout};

    use super::*;

    const HEAD: Duration = Duration::from_secs(10);
    const ANSWER: Duration = Duration::from_secs(30);

    /// The client's end of a connection, and the permit that the server holds for it.
    fn connect() -> (DuplexStream, Arc<Semaphore>) {
        let address = ([127, 0, 0, 1], 7000).into();
        let shared = Shared {
            check: Check {
                address,
                names: Vec::new(),
                token: None,
            },
            limits: Limits::default(),
            handler: Box::new(|request| match request.path.as_str() {
                "/large" => Response::new(200, "text/plain", vec![b'x'; 1 << 20]),
                _ => Response::plain(200, "hello"),
            }),
            handlers: Arc::new(Semaphore::new(1)),
        };
        let places = Arc::new(Semaphore::new(1));
        let place = places.clone().try_acquire_owned().expect("it is free");
        let (client, server) = duplex(4096);
        tokio::spawn(serve(server, Arc::new(shared), place));
        (client, places)
    }

    fn on_paused_time(test: impl Future<Output = ()>) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build();
        let in_an_hour = async { timeout(Duration::from_secs(3600), test).await };
        let ended = runtime.expect("a runtime").block_on(in_an_hour);
        ended.expect("the server closes the connection");
    }

    const REQUEST: &str = "GET / HTTP/1.1\r\nhost: localhost\r\n\r\n";

    #[test]
    fn a_head_that_does_not_end_and_an_idle_connection_are_closed_at_the_limit() {
        for begun in ["", "GET / HTTP/1.1\r\nhost: lo", REQUEST] {
            on_paused_time(async {
                let (mut client, places) = connect();
                let began = Instant::now();
                client
                    .write_all(begun.as_bytes())
                    .await
                    .expect("it listens");
                let mut answer = String::new();
                client.read_to_string(&mut answer).await.expect("text");
                assert_eq!(answer.starts_with("HTTP/1.1 200 OK"), begun == REQUEST);
                assert_eq!(began.elapsed().as_secs(), HEAD.as_secs(), "{begun}");
                assert_eq!(places.available_permits(), 1);
            });
        }
    }

    #[test]
    fn single_bytes_do_not_extend_the_limit() {
        on_paused_time(async {
            let (mut client, _places) = connect();
            let mut seconds = 0;
            while client.write_all(b"G").await.is_ok() {
                sleep(Duration::from_secs(1)).await;
                seconds += 1;
                assert!(seconds < 100);
            }
            assert!((10..=11).contains(&seconds), "{seconds}");
        });
    }

    #[test]
    fn a_reader_that_does_not_read_is_dropped_at_the_limit() {
        on_paused_time(async {
            let (mut client, places) = connect();
            let began = Instant::now();
            let request = REQUEST.replacen("/ ", "/large ", 1);
            client
                .write_all(request.as_bytes())
                .await
                .expect("it listens");
            // The only place is free again though the reader still holds its end open.
            let _place = places.acquire().await.expect("it is free");
            assert_eq!(began.elapsed().as_secs(), ANSWER.as_secs());
            let mut answer = Vec::new();
            client.read_to_end(&mut answer).await.expect("the start");
            assert!((1..8192).contains(&answer.len()), "{}", answer.len());
        });
    }
}

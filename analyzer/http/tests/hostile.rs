//! Tests of the server with hostile requests.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use gpumem_http::{Body, Options, Response, Sender, Server, StartError, Token, stream};

fn options() -> Options {
    Options::new(([127, 0, 0, 1], 0).into())
}

fn served(options: Options) -> Server {
    Server::start(options, |request| match request.path.as_str() {
        "/" => Response::plain(200, request.value("a").unwrap_or("hello")),
        "/panic" => panic!("a handler's fault"),
        "/header" => Response::plain(200, "x").with("x", "a\r\nb: c"),
        _ => Response::not_found(),
    })
    .expect("a loopback address")
}

fn connect(server: &Server) -> TcpStream {
    TcpStream::connect(server.address()).expect("it listens")
}

/// The complete response to these bytes.
fn send(server: &Server, request: &[u8]) -> String {
    let mut connection = connect(server);
    // A request that is refused early is not read completely.
    let _ = connection.write_all(request);
    rest(&mut connection)
}

/// Everything received until the server closes.
fn rest(connection: &mut TcpStream) -> String {
    let mut answer = Vec::new();
    let mut piece = [0; 4096];
    loop {
        match connection.read(&mut piece) {
            Ok(0) => break,
            Ok(more) => answer.extend_from_slice(&piece[..more]),
            Err(error) if error.kind() == ErrorKind::ConnectionReset => break,
            Err(error) => panic!("{error}"),
        }
    }
    String::from_utf8_lossy(&answer).into_owned()
}

fn status(answer: &str) -> u16 {
    let word = answer
        .split(' ')
        .nth(1)
        .unwrap_or_else(|| panic!("{answer:?}"));
    word.parse().expect("a number")
}

fn get(server: &Server, path: &str, more: &str) -> String {
    let request = format!("GET {path} HTTP/1.1\r\n{more}connection: close\r\n\r\n");
    send(server, request.as_bytes())
}

const LOCAL: &str = "host: localhost:7000\r\n";

#[test]
fn what_is_asked_rightly_is_answered() {
    let server = served(options());
    let answer = get(&server, "/?a=b%20c", LOCAL);
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.ends_with("\r\n\r\nb c\n"));
    for field in [
        "cache-control: no-store",
        "x-content-type-options: nosniff",
        "referrer-policy: no-referrer",
    ] {
        assert!(answer.contains(field), "{answer}");
    }
    assert!(!answer.contains("access-control"));
    let head = send(
        &server,
        format!("HEAD / HTTP/1.1\r\n{LOCAL}connection: close\r\n\r\n").as_bytes(),
    );
    assert!(head.contains("content-length: 6") && head.ends_with("\r\n\r\n"));
}

#[test]
fn other_hosts_methods_bodies_and_paths_are_refused() {
    let server = served(options());
    for (wanted, path, more) in [
        (421, "/", "host: evil.example\r\n"),
        (421, "/", "host: localhost.evil.example\r\n"),
        (421, "/", "host: me@localhost\r\n"),
        (400, "/", ""),
        (400, "/", "host: localhost\r\nhost: localhost\r\n"),
        (400, "http://localhost/", LOCAL),
        (400, "/../x", LOCAL),
        (400, "/%2e%2e/x", LOCAL),
        (400, "/x%00", LOCAL),
        (400, "//x", LOCAL),
        (400, "/?a=%00", LOCAL),
        (400, "/?a=%ff", LOCAL),
        (400, "*", LOCAL),
        (413, "/", "host: localhost\r\ncontent-length: 1\r\n"),
        (
            413,
            "/",
            "host: localhost\r\ntransfer-encoding: chunked\r\n",
        ),
        (404, "/x", LOCAL),
    ] {
        let answer = get(&server, path, more);
        assert_eq!(status(&answer), wanted, "{path} {more}: {answer}");
        assert!(answer.len() < 512);
    }
    for method in ["POST", "PUT", "DELETE", "OPTIONS", "TRACE", "XYZ"] {
        let answer = send(
            &server,
            format!("{method} / HTTP/1.1\r\n{LOCAL}\r\n").as_bytes(),
        );
        assert_eq!(status(&answer), 405, "{method}");
    }
}

/// Requests that must not reach a handler: names that lead to this machine, two readings of where a request ends,
/// proxies' forms, other protocols.
const ATTACKS: &[&[u8]] = &[
    b"GET / HTTP/1.1\r\nhost: 127.0.0.1.evil.example\r\n\r\n",
    b"GET / HTTP/1.1\r\nhost: localhost.\r\n\r\n",
    b"GET / HTTP/1.1\r\nhost: 2130706433\r\n\r\n",
    b"GET / HTTP/1.1\r\nhost: 0x7f.1\r\n\r\n",
    b"GET / HTTP/1.1\r\nhost: 127.1\r\n\r\n",
    b"GET / HTTP/1.1\r\nhost: [::ffff:127.0.0.1]\r\n\r\n",
    b"GET / HTTP/1.1\r\nhost: [::1]280\r\n\r\n",
    b"GET / HTTP/1.1\r\nhost: localhost:80:80\r\n\r\n",
    b"GET / HTTP/1.1\r\nhost: localhost, evil.example\r\n\r\n",
    b"GET / HTTP/1.1\r\nhost: localhost/evil\r\n\r\n",
    b"GET / HTTP/1.1\r\nhost: %6cocalhost\r\n\r\n",
    b"GET / HTTP/1.1\r\nhost:\r\n\r\n",
    b"GET / HTTP/1.1\r\nhost : localhost\r\n\r\n",
    b"GET / HTTP/1.1\r\nhost: evil.example\r\nx-forwarded-host: localhost\r\n\r\n",
    b"GET / HTTP/1.0\r\n\r\n",
    b"GET / HTTP/1.1\r\nhost: localhost\r\ncontent-length: 4\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
    b"GET / HTTP/1.1\r\nhost: localhost\r\ncontent-length: 0\r\ncontent-length: 5\r\n\r\nhello",
    b"GET / HTTP/1.1\r\nhost: localhost\r\ncontent-length: -1\r\n\r\n",
    b"GET / HTTP/1.1\r\nhost: localhost\r\ncontent-length: 99999999999999999999\r\n\r\n",
    b"GET / HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    b"GET / HTTP/1.1\r\nhost: localhost\r\nx: a\0b\r\n\r\n",
    b"GET http://evil.example/ HTTP/1.1\r\nhost: localhost\r\n\r\n",
    b"GET localhost:80 HTTP/1.1\r\nhost: localhost\r\n\r\n",
    b"CONNECT evil.example:443 HTTP/1.1\r\nhost: localhost\r\n\r\n",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0",
    b"\x16\x03\x01\x00\x2e\x01\x00\x00\x2a\x03\x03\r\n\r\n",
    b"GET /\r\n\r\n",
    b"GET / HTTP/3.0\r\nhost: localhost\r\n\r\n",
    b"GET / index HTTP/1.1\r\nhost: localhost\r\n\r\n",
    b"\r\n\r\n\0\0\0\0",
];

#[test]
fn no_attack_reaches_the_handler() {
    let reached = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&reached);
    let server = Server::start(options(), move |_| {
        count.fetch_add(1, Ordering::Relaxed);
        Response::plain(200, "hello")
    })
    .expect("a loopback address");
    for attack in ATTACKS {
        let mut connection = connect(&server);
        let _ = connection.write_all(attack);
        // An unfinished request ends here.
        let _ = connection.shutdown(Shutdown::Write);
        let answer = rest(&mut connection);
        let words = String::from_utf8_lossy(attack);
        assert!(
            answer.is_empty() || status(&answer) >= 400,
            "{words:?}: {answer}"
        );
        assert_eq!(reached.load(Ordering::Relaxed), 0, "{words:?}");
    }
    // An upgrade is not accepted, and 200 requests at once have 200 answers.
    let upgrade = get(&server, "/", &format!("{LOCAL}upgrade: websocket\r\n"));
    assert_eq!(status(&upgrade), 200);
    let many = format!("GET / HTTP/1.1\r\n{LOCAL}\r\n").repeat(199);
    let last = format!("GET / HTTP/1.1\r\n{LOCAL}connection: close\r\n\r\n");
    let answers = send(&server, (many + &last).as_bytes());
    assert_eq!(answers.matches("HTTP/1.1 200").count(), 200);
    assert_eq!(reached.load(Ordering::Relaxed), 201);
}

#[test]
fn the_token_is_needed_everywhere() {
    let mut with_token = options();
    with_token.token = Some(Token::random().expect("random numbers"));
    let server = served(with_token);
    let url = server.url("/");
    let (_, token) = url.split_once('?').expect("a token");
    assert_eq!(status(&get(&server, &format!("/?{token}"), LOCAL)), 200);
    let wrong = format!("/?token={}", "0".repeat(32));
    let twice = format!("/?{token}&{token}");
    for path in [
        "/",
        "/x",
        "/?token=",
        &wrong,
        &format!("/?{}", &token[..20]),
        &twice,
    ] {
        assert_eq!(status(&get(&server, path, LOCAL)), 403, "{path}");
    }
}

#[test]
fn heads_are_bounded() {
    let server = served(options());
    let long = format!("{LOCAL}x: {}\r\n", "y".repeat(20 << 10));
    assert_eq!(status(&get(&server, "/", &long)), 431);
    let many: String = (0..80).map(|n| format!("x{n}: y\r\n")).collect();
    assert_eq!(status(&get(&server, "/", &format!("{LOCAL}{many}"))), 431);
    assert_eq!(status(&get(&server, "/", LOCAL)), 200);
}

#[test]
fn pipelined_garbage_ends_the_connection() {
    let server = served(options());
    let good = format!("GET / HTTP/1.1\r\n{LOCAL}\r\n");
    let answer = send(
        &server,
        format!("{good}{good}\0garbage\r\n\r\n{good}").as_bytes(),
    );
    assert_eq!(answer.matches("HTTP/1.1 200").count(), 2);
    assert_eq!(answer.matches("HTTP/1.1 400").count(), 1);
}

#[test]
fn connections_are_bounded() {
    let with = |connections: usize| {
        let mut options = options();
        options.limits.connections = connections;
        options
    };
    for (mut bounded, most) in [(options(), 64), (with(3), 3)] {
        // None of them is closed because it is idle.
        bounded.limits.head_time = Duration::from_secs(24 * 3600);
        let server = served(bounded);
        let mut kept: Vec<TcpStream> = (0..most).map(|_| connect(&server)).collect();
        for _ in 0..20 {
            let mut refused = connect(&server);
            // Ends a connection that has a place.
            refused.shutdown(Shutdown::Write).expect("it is open");
            assert_eq!(status(&rest(&mut refused)), 503);
        }
        // The last one of them has its place.
        let request = format!("GET / HTTP/1.1\r\n{LOCAL}connection: close\r\n\r\n");
        let last = kept.last_mut().expect("several");
        last.write_all(request.as_bytes()).expect("it listens");
        assert_eq!(status(&rest(last)), 200);
        drop(kept);
        // Once the server has seen that they are closed.
        while !get(&server, "/", LOCAL).starts_with("HTTP/1.1 200") {}
    }
}

#[test]
fn a_fault_of_the_handler_is_one_answer() {
    let server = served(options());
    assert_eq!(status(&get(&server, "/panic", LOCAL)), 500);
    let answer = get(&server, "/header", LOCAL);
    assert_eq!(status(&answer), 500);
    assert!(!answer.contains("b: c"));
    assert_eq!(status(&get(&server, "/", LOCAL)), 200);
}

#[test]
fn a_stream_ends_with_its_sender_and_tells_it_when_the_reader_leaves() {
    let (give, take) = std::sync::mpsc::channel::<Sender>();
    let server = Server::start(options(), move |_| {
        let (sender, pieces) = stream(2);
        give.send(sender).expect("the test waits");
        Response {
            status: 200,
            content_type: "text/event-stream",
            headers: Vec::new(),
            body: Body::Stream(pieces),
        }
    })
    .expect("a loopback address");
    let mut reader = connect(&server);
    let request = format!("GET / HTTP/1.1\r\n{LOCAL}connection: close\r\n\r\n");
    reader.write_all(request.as_bytes()).expect("it listens");
    let sender = take.recv().expect("a handler");
    assert_eq!(
        sender.try_send(Bytes::from_static(b"data: 1\n\n")),
        Ok(true)
    );
    drop(sender);
    assert!(rest(&mut reader).contains("data: 1\n\n"));
    let mut reader = connect(&server);
    reader.write_all(request.as_bytes()).expect("it listens");
    let sender = take.recv().expect("a handler");
    drop(reader);
    while !sender.is_closed() {
        let _ = sender.try_send(Bytes::from_static(b":\n\n"));
        std::thread::yield_now();
    }
}

#[test]
fn an_address_for_other_machines_has_to_be_meant() {
    let everywhere = Options::new(([0, 0, 0, 0], 0).into());
    let refused = Server::start(everywhere.clone(), |_| Response::not_found());
    assert!(matches!(refused, Err(StartError::Remote(_))));
    let mut meant = everywhere;
    meant.allow_remote = true;
    assert!(Server::start(meant, |_| Response::not_found()).is_ok());
    let server = served(options());
    let taken = Server::start(Options::new(server.address()), |_| Response::not_found());
    assert!(matches!(taken, Err(StartError::Bind(..))));
}

#[test]
fn it_stops_when_it_is_dropped() {
    let server = served(options());
    let address = server.address();
    let open = connect(&server);
    drop(server);
    assert!(TcpStream::connect(address).is_err());
    drop(open);
}

//! Writes a second over HTTP, of any server that speaks the seven operations: closed loop, raw sockets, so that the
//! generator costs little.
//!
//! ```text
//! cargo bench -p placet-board --bench http -- 127.0.0.1:8090 /v1/boards/b/levels/l 8 5
//! ```
//!
//! takes the address, the path of a level, how many clients and for how many seconds. `benches/peer.sh` measures this
//! server beside another one.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout, reason = "a measurement, run by hand")]
#![allow(clippy::disallowed_methods, reason = "a measurement reads the clock and starts tasks")]

use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// All clients in one thread: what they cost is taken from the server that shares the machine.
#[tokio::main(flavor = "current_thread")]
async fn main() {
    let args: Vec<String> = std::env::args().skip(1).filter(|arg| arg != "--bench").collect();
    let [address, path, clients, seconds] = args.as_slice() else {
        println!("http: skipped; give ADDRESS PATH CLIENTS SECONDS");
        return;
    };
    let (clients, seconds): (usize, u64) = (clients.parse().unwrap(), seconds.parse().unwrap());
    let began = Instant::now();
    let until = began + Duration::from_secs(seconds);
    let workers: Vec<_> = (0..clients)
        .map(|number| {
            let (address, path) = (address.clone(), path.clone());
            tokio::spawn(async move { client(&address, &path, number, until).await })
        })
        .collect();
    let mut times: Vec<Duration> = Vec::new();
    for worker in workers {
        times.extend(worker.await.unwrap());
    }
    let took = began.elapsed().as_secs_f64();
    times.sort_unstable();
    let at = |share: usize| times.get(times.len() * share / 100).copied().unwrap_or_default().as_secs_f64() * 1000.0;
    #[expect(clippy::cast_precision_loss, reason = "a figure to read")]
    let rate = times.len() as f64 / took;
    println!(
        "{address}{path}: {clients} clients, {rate:.0} writes a second, p50 {:.3} ms, p99 {:.3} ms, {} in all",
        at(50),
        at(99),
        times.len()
    );
}

/// Writes one after the other until then; gives how long each took.
async fn client(address: &str, path: &str, number: usize, until: Instant) -> Vec<Duration> {
    let mut stream = TcpStream::connect(address).await.expect("the server listens");
    stream.set_nodelay(true).unwrap();
    let body = format!(r#"{{"writer":"agent-{number}","content":{{"n":{number},"text":"the disk of db1 is full"}}}}"#);
    let request = format!(
        "POST {path} HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let (mut times, mut buffer) = (Vec::new(), Vec::with_capacity(4096));
    loop {
        let began = Instant::now();
        if began >= until {
            return times;
        }
        stream.write_all(request.as_bytes()).await.unwrap();
        buffer.clear();
        while !is_whole(&buffer) {
            assert!(stream.read_buf(&mut buffer).await.unwrap() > 0, "the server closed the connection");
        }
        assert!(buffer.starts_with(b"HTTP/1.1 201"), "{}", String::from_utf8_lossy(&buffer));
        times.push(began.elapsed());
    }
}

/// Whether an answer with a `content-length` is there whole.
fn is_whole(buffer: &[u8]) -> bool {
    const LENGTH: &[u8] = b"content-length:";
    let Some(head) = buffer.windows(4).position(|four| four == b"\r\n\r\n") else { return false };
    let mut lines = buffer[..head].split(|byte| *byte == b'\n');
    let length = lines.find_map(|line| {
        let (name, value) = line.split_at_checked(LENGTH.len())?;
        let value = name.eq_ignore_ascii_case(LENGTH).then(|| str::from_utf8(value.trim_ascii()).ok())??;
        value.parse::<usize>().ok()
    });
    buffer.len() >= head + 4 + length.unwrap_or(0)
}

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
#![allow(clippy::disallowed_methods, reason = "a measurement reads the clock and starts threads")]

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

fn main() {
    let args: Vec<String> = std::env::args().skip(1).filter(|arg| arg != "--bench").collect();
    let [address, path, clients, seconds] = args.as_slice() else {
        println!("http: skipped; give ADDRESS PATH CLIENTS SECONDS");
        return;
    };
    let (clients, seconds): (usize, u64) = (clients.parse().unwrap(), seconds.parse().unwrap());
    let stop = Arc::new(AtomicBool::new(false));
    let workers: Vec<_> = (0..clients)
        .map(|number| {
            let (address, path, stop) = (address.clone(), path.clone(), stop.clone());
            thread::spawn(move || client(&address, &path, number, &stop))
        })
        .collect();
    let began = Instant::now();
    thread::sleep(Duration::from_secs(seconds));
    stop.store(true, Ordering::Relaxed);
    let mut times: Vec<Duration> = workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect();
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

/// Writes one after the other until it is told to stop; gives how long each took.
fn client(address: &str, path: &str, number: usize, stop: &AtomicBool) -> Vec<Duration> {
    let mut stream = TcpStream::connect(address).expect("the server listens");
    stream.set_nodelay(true).unwrap();
    let body = format!(r#"{{"writer":"agent-{number}","content":{{"n":{number},"text":"the disk of db1 is full"}}}}"#);
    let request = format!(
        "POST {path} HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let (mut times, mut buffer) = (Vec::new(), Vec::with_capacity(4096));
    while !stop.load(Ordering::Relaxed) {
        let began = Instant::now();
        stream.write_all(request.as_bytes()).unwrap();
        buffer.clear();
        while !is_whole(&buffer) {
            let mut piece = [0; 4096];
            let read = stream.read(&mut piece).unwrap();
            assert!(read > 0, "the server closed the connection");
            buffer.extend_from_slice(&piece[..read]);
        }
        assert!(buffer.starts_with(b"HTTP/1.1 201"), "{}", String::from_utf8_lossy(&buffer));
        times.push(began.elapsed());
    }
    times
}

/// Whether an answer with a `content-length` is there whole.
fn is_whole(buffer: &[u8]) -> bool {
    let Some(head) = buffer.windows(4).position(|four| four == b"\r\n\r\n") else { return false };
    let text = String::from_utf8_lossy(&buffer[..head]).to_ascii_lowercase();
    let length = text.lines().find_map(|line| line.strip_prefix("content-length:")?.trim().parse::<usize>().ok());
    buffer.len() >= head + 4 + length.unwrap_or(0)
}

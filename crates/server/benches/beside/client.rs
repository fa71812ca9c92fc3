//! The client: as many connections as wanted, each of which asks again as soon as it is answered.

use crate::Failure;
use crate::parts::Part;
use crate::table::body_of;
use std::cell::RefCell;
use std::rc::Rc;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::LocalSet;

/// How long is asked before anything counts.
const WARM: Duration = Duration::from_millis(500);

/// One measurement.
pub(crate) struct Load<'a> {
    pub(crate) part: &'a Part,
    pub(crate) request: Vec<u8>,
    pub(crate) clients: usize,
    /// How many events each answer must hold.
    pub(crate) events: Option<usize>,
    pub(crate) span: Duration,
}

/// What came of it. Times are microseconds.
#[derive(Clone, Debug, Default)]
pub(crate) struct Figures {
    pub(crate) processor: f64,
    pub(crate) median: f64,
    pub(crate) first: f64,
    pub(crate) per_second: f64,
}

#[derive(Default)]
struct Noted {
    counts: bool,
    ends: bool,
    spans: Vec<u32>,
    firsts: Vec<u32>,
    failure: Option<String>,
}

impl Load<'_> {
    pub(crate) async fn run(&self) -> Result<Figures, Failure> {
        let noted = Rc::new(RefCell::new(Noted::default()));
        let local = LocalSet::new();
        let clients: Vec<_> = (0..self.clients)
            .map(|_| {
                let (noted, request, events) = (noted.clone(), self.request.clone(), self.events);
                let address = self.part.address();
                local.spawn_local(async move {
                    if let Err(error) = ask(&address, &request, events, &noted).await {
                        noted.borrow_mut().failure.get_or_insert(error.to_string());
                    }
                })
            })
            .collect();
        local
            .run_until(async {
                tokio::time::sleep(WARM).await;
                let (before, began) = (self.part.processor(), Instant::now());
                noted.borrow_mut().counts = true;
                tokio::time::sleep(self.span).await;
                let (after, span) = (self.part.processor(), began.elapsed());
                noted.borrow_mut().counts = false;
                noted.borrow_mut().ends = true;
                for client in clients {
                    client.await?;
                }
                let mut noted = noted.borrow_mut();
                if let Some(failure) = noted.failure.take() {
                    return Err(failure.into());
                }
                let count = noted.spans.len();
                if count == 0 {
                    return Err("nothing was answered".into());
                }
                Ok(Figures {
                    processor: (after - before) / count as f64,
                    median: middle(&mut noted.spans),
                    first: middle(&mut noted.firsts),
                    per_second: count as f64 / span.as_secs_f64(),
                })
            })
            .await
    }
}

fn middle(spans: &mut [u32]) -> f64 {
    let half = spans.len() / 2;
    f64::from(*spans.select_nth_unstable(half).1) / 10.0
}

async fn ask(address: &str, request: &[u8], events: Option<usize>, noted: &RefCell<Noted>) -> Result<(), Failure> {
    let mut stream = connect(address).await?;
    let mut answer = Vec::with_capacity(64 << 10);
    while !noted.borrow().ends {
        let began = Instant::now();
        let first = exchange(&mut stream, request, &mut answer).await?;
        let span = began.elapsed();
        let mut noted = noted.borrow_mut();
        if noted.counts {
            noted.spans.push(tenths(span));
            noted.firsts.push(tenths(first));
        }
        if let Some(wanted) = events {
            let found = count_events(&body_of(&answer));
            if found != wanted {
                return Err(format!("an answer has {found} events, expected {wanted}").into());
            }
        }
    }
    Ok(())
}

/// Tenths of microseconds.
fn tenths(span: Duration) -> u32 {
    u32::try_from(span.as_nanos() / 100).unwrap_or(u32::MAX)
}

pub(crate) fn count_events(answer: &[u8]) -> usize {
    memchr::memmem::find_iter(answer, b"data: ").count()
}

pub(crate) async fn connect(address: &str) -> Result<TcpStream, Failure> {
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// Sends a request and reads its whole answer, head included; gives the time until the first bytes of it.
pub(crate) async fn exchange(
    stream: &mut TcpStream,
    request: &[u8],
    answer: &mut Vec<u8>,
) -> Result<Duration, Failure> {
    let began = Instant::now();
    stream.write_all(request).await?;
    answer.clear();
    let mut first = None;
    let mut end = None;
    loop {
        if stream.read_buf(answer).await? == 0 {
            return Err("the connection was closed within an answer".into());
        }
        first.get_or_insert_with(|| began.elapsed());
        if end.is_none() {
            end = End::of(answer)?;
        }
        let is_whole = match end {
            None => false,
            Some(End::At(length)) => answer.len() >= length,
            Some(End::Chunked) => answer.ends_with(b"\r\n0\r\n\r\n"),
        };
        if is_whole {
            return Ok(first.unwrap_or_default());
        }
    }
}

/// Where an answer ends.
#[derive(Clone, Copy)]
enum End {
    At(usize),
    Chunked,
}

impl End {
    fn of(answer: &[u8]) -> Result<Option<Self>, Failure> {
        let Some(head) = memchr::memmem::find(answer, b"\r\n\r\n") else { return Ok(None) };
        let text = String::from_utf8_lossy(&answer[..head]).to_ascii_lowercase();
        if !text.starts_with("http/1.1 200") {
            return Err(format!("refused: {}", String::from_utf8_lossy(&answer[..answer.len().min(600)])).into());
        }
        match text.lines().find_map(|line| line.strip_prefix("content-length:")) {
            Some(length) => Ok(Some(End::At(head + 4 + length.trim().parse::<usize>()?))),
            None => Ok(Some(End::Chunked)),
        }
    }
}

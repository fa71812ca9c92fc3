//! A mock of a model's server: answers requests with what it was told, in order, and keeps what it received.
//!
//! It speaks HTTP/1.1 over plain TCP, by hand, so that a test decides over every byte: where a stream pauses, where it breaks
//! off, and whether the client closed the connection.

use placet_core::Env;
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::fmt::Write as _;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, watch};

/// A running mock. It stops when it is dropped.
#[derive(Debug)]
pub struct Upstream {
    address: SocketAddr,
    state: Arc<State>,
    task: placet_core::env::Task,
}

#[derive(Debug)]
struct State {
    answers: Mutex<VecDeque<Answer>>,
    received: Mutex<Vec<Received>>,
    arrived: watch::Sender<usize>,
    connections: watch::Sender<usize>,
    /// How often a client closed a connection while an answer was on its way.
    hung_up: watch::Sender<usize>,
    env: Env,
}

/// A request that was received.
#[derive(Clone, Debug)]
pub struct Received {
    /// The method.
    pub method: String,
    /// Path and query.
    pub path: String,
    /// Names in small letters.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
}

impl Received {
    /// The first header of this name.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    /// The body as JSON; null where it is none.
    #[must_use]
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }
}

/// What the mock answers to one request.
#[derive(Clone, Debug)]
pub struct Answer {
    status: u16,
    headers: Vec<(String, String)>,
    pieces: Vec<Vec<u8>>,
    ending: Ending,
    gate: Option<Arc<Notify>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    /// The body ends as it should.
    Whole,
    /// The connection is closed before the body has ended.
    Broken,
    /// Nothing more comes until the client goes away.
    Silent,
    /// The connection is closed without an answer.
    Refused,
    /// Not even a head comes until the client goes away.
    Mute,
}

impl Answer {
    /// A JSON body.
    #[must_use]
    pub fn json(status: u16, body: &Value) -> Self {
        Answer::bytes(status, "application/json", body.to_string())
    }

    /// A body of any kind.
    #[must_use]
    pub fn bytes(status: u16, content_type: &str, body: impl Into<Vec<u8>>) -> Self {
        Answer {
            status,
            headers: vec![("content-type".to_owned(), content_type.to_owned())],
            pieces: vec![body.into()],
            ending: Ending::Whole,
            gate: None,
        }
    }

    /// A stream of server-sent events, each sent by itself.
    pub fn stream<T: Into<Vec<u8>>>(events: impl IntoIterator<Item = T>) -> Self {
        let pieces = events.into_iter().map(Into::into).collect();
        Answer { pieces, ..Answer::bytes(200, "text/event-stream", Vec::new()) }
    }

    /// No answer: the connection is closed.
    #[must_use]
    pub fn refused() -> Self {
        Answer { ending: Ending::Refused, ..Answer::bytes(200, "text/plain", Vec::new()) }
    }

    /// No answer, and the connection stays open until the client goes away.
    #[must_use]
    pub fn never() -> Self {
        Answer { ending: Ending::Mute, ..Answer::refused() }
    }

    /// Adds a header.
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Is not sent before the gate is opened for it, with `notify_one`.
    #[must_use]
    pub fn behind(mut self, gate: &Arc<Notify>) -> Self {
        self.gate = Some(gate.clone());
        self
    }

    /// Closes the connection after what it says, before the body has ended.
    #[must_use]
    pub fn then_break(mut self) -> Self {
        self.ending = Ending::Broken;
        self
    }

    /// Says nothing more after what it says, until the client goes away.
    #[must_use]
    pub fn then_silence(mut self) -> Self {
        self.ending = Ending::Silent;
        self
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Upstream {
    /// Starts a mock on a free port of this machine with these answers. A request beyond them gets a status of 599.
    ///
    /// # Errors
    /// No port could be opened.
    pub async fn start(env: &Env, answers: impl IntoIterator<Item = Answer>) -> io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let address = listener.local_addr()?;
        let state = Arc::new(State {
            answers: Mutex::new(answers.into_iter().collect()),
            received: Mutex::default(),
            arrived: watch::Sender::new(0),
            connections: watch::Sender::new(0),
            hung_up: watch::Sender::new(0),
            env: env.clone(),
        });
        let shared = state.clone();
        let task = env.spawn("mock upstream", async move {
            while let Ok((stream, _)) = listener.accept().await {
                shared.connections.send_modify(|count| *count += 1);
                let state = shared.clone();
                let connection = async move {
                    // A client that goes away is no fault of the mock.
                    let _ = serve(stream, &state).await;
                };
                drop(shared.env.spawn("mock connection", connection));
            }
        });
        Ok(Upstream { address, state, task })
    }

    /// Where it listens, with a path: `http://127.0.0.1:1234/v1`.
    #[must_use]
    pub fn url(&self, path: &str) -> String {
        format!("http://{}/{}", self.address, path.trim_start_matches('/'))
    }

    /// Adds an answer.
    pub fn then(&self, answer: Answer) {
        lock(&self.state.answers).push_back(answer);
    }

    /// What it has received, in order.
    #[must_use]
    pub fn received(&self) -> Vec<Received> {
        lock(&self.state.received).clone()
    }

    /// Waits until it has received this many requests in all.
    pub async fn arrived(&self, times: usize) {
        let mut counter = self.state.arrived.subscribe();
        let _ = counter.wait_for(|count| *count >= times).await;
    }

    /// How many connections were opened.
    #[must_use]
    pub fn connections(&self) -> usize {
        *self.state.connections.borrow()
    }

    /// Waits until a client has closed a connection while an answer was on its way, this many times in all.
    pub async fn hung_up(&self, times: usize) {
        let mut counter = self.state.hung_up.subscribe();
        let _ = counter.wait_for(|count| *count >= times).await;
    }
}

impl Drop for Upstream {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(mut stream: TcpStream, state: &State) -> io::Result<()> {
    let mut buffer = Vec::new();
    while let Some(request) = receive(&mut stream, &mut buffer).await? {
        lock(&state.received).push(request);
        state.arrived.send_modify(|count| *count += 1);
        let answer = lock(&state.answers).pop_front();
        let answer =
            answer.unwrap_or_else(|| Answer::json(599, &json!({"error": {"message": "the mock has no more answers"}})));
        if !send(&mut stream, &answer, state).await? {
            break;
        }
    }
    Ok(())
}

/// The next request of a connection, or none where it was closed.
async fn receive(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> io::Result<Option<Received>> {
    let head = loop {
        if let Some(end) = buffer.windows(4).position(|window| window == b"\r\n\r\n") {
            break end;
        }
        if stream.read_buf(buffer).await? == 0 {
            return Ok(None);
        }
    };
    let text = String::from_utf8_lossy(&buffer[..head]).into_owned();
    buffer.drain(..head + 4);
    let mut lines = text.lines();
    let mut first = lines.next().unwrap_or_default().split(' ').map(str::to_owned);
    let (method, path) = (first.next().unwrap_or_default(), first.next().unwrap_or_default());
    let headers: Vec<(String, String)> = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.trim().to_ascii_lowercase(), value.trim().to_owned()))
        .collect();
    let length = headers.iter().find(|(name, _)| name == "content-length").and_then(|(_, value)| value.parse().ok());
    let length: usize = length.unwrap_or(0);
    while buffer.len() < length {
        if stream.read_buf(buffer).await? == 0 {
            return Ok(None);
        }
    }
    let body = buffer.drain(..length).collect();
    Ok(Some(Received { method, path, headers, body }))
}

/// Sends an answer; says whether the connection may serve another request.
async fn send(stream: &mut TcpStream, answer: &Answer, state: &State) -> io::Result<bool> {
    if let Some(gate) = &answer.gate {
        gate.notified().await;
    }
    if answer.ending == Ending::Refused {
        return Ok(false);
    }
    if answer.ending == Ending::Mute {
        let mut byte = [0];
        // What is read is its going away.
        let _ = stream.read(&mut byte).await;
        state.hung_up.send_modify(|count| *count += 1);
        return Ok(false);
    }
    let mut head = format!("HTTP/1.1 {} Mock\r\ntransfer-encoding: chunked\r\n", answer.status);
    for (name, value) in &answer.headers {
        // Writing to a text cannot go wrong.
        let _ = write!(head, "{name}: {value}\r\n");
    }
    head.push_str("\r\n");
    let sent = async {
        stream.write_all(head.as_bytes()).await?;
        for piece in answer.pieces.iter().filter(|piece| !piece.is_empty()) {
            let mut chunk = format!("{:x}\r\n", piece.len()).into_bytes();
            chunk.extend_from_slice(piece);
            chunk.extend_from_slice(b"\r\n");
            stream.write_all(&chunk).await?;
            stream.flush().await?;
        }
        if answer.ending == Ending::Whole {
            stream.write_all(b"0\r\n\r\n").await?;
        }
        stream.flush().await
    };
    let sent: io::Result<()> = sent.await;
    let is_gone = match answer.ending {
        Ending::Silent => {
            // A client that waits sends nothing; what is read is its going away.
            let mut byte = [0];
            sent.is_err() || stream.read(&mut byte).await.unwrap_or(0) == 0
        }
        _ => sent.is_err(),
    };
    if is_gone {
        state.hung_up.send_modify(|count| *count += 1);
    }
    Ok(answer.ending == Ending::Whole && !is_gone)
}

/// Events of the OpenAI Chat protocol, as a server streams them.
pub mod chat {
    use serde_json::{Value, json};

    /// Any chunk.
    #[must_use]
    pub fn chunk(value: &Value) -> String {
        format!("data: {value}\n\n")
    }

    fn delta(delta: &Value, finish: Option<&str>) -> String {
        chunk(&json!({
            "id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "mock",
            "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]
        }))
    }

    /// A piece of text.
    #[must_use]
    pub fn text(text: &str) -> String {
        delta(&json!({"content": text}), None)
    }

    /// A piece of thinking.
    #[must_use]
    pub fn thinking(text: &str) -> String {
        delta(&json!({"reasoning_content": text}), None)
    }

    /// A whole tool call.
    #[must_use]
    pub fn call(index: u32, id: &str, name: &str, arguments: &Value) -> String {
        let function = json!({"name": name, "arguments": arguments.to_string()});
        delta(&json!({"tool_calls": [{"index": index, "id": id, "type": "function", "function": function}]}), None)
    }

    /// The finish reason.
    #[must_use]
    pub fn finish(reason: &str) -> String {
        delta(&json!({}), Some(reason))
    }

    /// The chunk that holds usage.
    #[must_use]
    pub fn usage(prompt: u64, completion: u64) -> String {
        chunk(&json!({
            "id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "mock", "choices": [],
            "usage": {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}
        }))
    }

    /// The end.
    #[must_use]
    pub fn done() -> String {
        "data: [DONE]\n\n".to_owned()
    }

    /// A whole answer: text, finish reason, usage, end.
    #[must_use]
    pub fn answer(said: &str) -> Vec<String> {
        vec![text(said), finish("stop"), usage(10, 5), done()]
    }
}

//! The listener: connections in, answers out, and an orderly end.

use crate::gateway::Gateway;
use crate::lanes::Lanes;
use http::{Request, Version};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use placet_core::{BoxFuture, Env};
use std::convert::Infallible;
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::task::Poll;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc};
use tokio_util::sync::CancellationToken;

/// How long what is cut off may take to say so.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// A port that is listened on.
#[derive(Debug)]
pub struct Listener {
    listener: TcpListener,
    address: SocketAddr,
    lanes: usize,
    at_rest: Option<fn()>,
}

impl Listener {
    /// Binds the port of a gateway's configuration.
    ///
    /// # Errors
    /// Whatever the system says, usually that the port is taken.
    pub async fn bind(address: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        Ok(Listener { listener, address, lanes: 0, at_rest: None })
    }

    /// Serves connections on that many threads of their own, each connection whole on one of them. Best is one for each
    /// processor; with none, connections are tasks of the runtime that serves.
    #[must_use]
    pub fn lanes(mut self, count: usize) -> Self {
        self.lanes = count;
        self
    }

    /// What each lane does every few seconds while nobody new comes to it, on its own thread and while it serves nothing else:
    /// an allocator may give back there what a burst has left behind.
    #[must_use]
    pub fn at_rest(mut self, rest: fn()) -> Self {
        self.at_rest = Some(rest);
        self
    }

    /// Where it listens, with the port that the system chose where none was named.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until `stop` is cancelled, then comes to an end in order: `/readyz` says so, while everything is served for as
    /// long as the configuration says; then nothing new is taken, and what has begun may end, for as long as it says; what
    /// goes on even then ends with the error of its protocol. The port stays open until the end, for those who ask how the
    /// gateway is.
    ///
    /// Where the system gives no threads for lanes, it serves without.
    pub async fn serve(self, gateway: Arc<Gateway>, stop: CancellationToken) {
        let env = gateway.env.clone();
        let lanes = (self.lanes > 0).then(|| Lanes::start(self.lanes, self.at_rest, &env).ok()).flatten();
        let limits = gateway.snapshot().config.limits;
        let ends = Ends::default();
        let mut builder = Builder::new(Connections { env: env.clone(), cut: ends.cut.clone() });
        builder
            .http1()
            .timer(TokioTimer::new())
            .header_read_timeout(limits.client_idle)
            .max_buf_size(limits.header)
            .keep_alive(true)
            .half_close(false);
        builder
            .http2()
            .timer(TokioTimer::new())
            .max_header_list_size(u32::try_from(limits.header).unwrap_or(u32::MAX))
            .max_concurrent_streams(256);
        // Everything still at work holds a clone; the drain is over when the last is gone.
        let (working, mut idle) = tokio::sync::mpsc::channel::<()>(1);
        let mut entrance = Entrance {
            listener: self.listener,
            lanes,
            places: Arc::new(Semaphore::new(limits.connections)),
            builder: Arc::new(builder),
            gateway: gateway.clone(),
            ends: ends.clone(),
        };
        tokio::select! {
            biased;
            () = stop.cancelled() => {}
            () = entrance.take(Some(&working)) => {}
        }
        gateway.leave();
        if !limits.drain_delay.is_zero() {
            tokio::select! {
                () = env.sleep(limits.drain_delay) => {}
                () = entrance.take(Some(&working)) => {}
            }
        }
        gateway.drain();
        ends.stop.tell();
        drop(working);
        let mut drained = pin!(idle.recv());
        let mut is_drained = tokio::select! {
            biased;
            _ = &mut drained => true,
            () = env.sleep(limits.drain) => false,
            () = entrance.take(None) => false,
        };
        let Entrance { lanes, listener, .. } = entrance;
        drop(listener);
        if !is_drained {
            gateway.cut();
            ends.cut.tell();
            is_drained = tokio::select! {
                _ = &mut drained => true,
                () = env.sleep(LAST_WORDS) => false,
            };
        }
        ends.abort.cancel();
        if !is_drained {
            // What each came to is written down before the ledger is closed.
            tokio::select! {
                _ = &mut drained => {}
                () = env.sleep(LAST_WORDS) => {}
            }
        }
        gateway.close().await;
        drop(lanes);
    }
}

/// What tells connections to come to an end, each in its own way.
#[derive(Clone, Default)]
struct Ends {
    /// After what they are at.
    stop: Arc<Stop>,
    /// With what they are at, which ends itself.
    cut: Arc<Stop>,
    /// At once.
    abort: CancellationToken,
}

/// Where connections come in.
struct Entrance {
    listener: TcpListener,
    lanes: Option<Lanes>,
    places: Arc<Semaphore>,
    builder: Arc<Builder<Connections>>,
    gateway: Arc<Gateway>,
    ends: Ends,
}

impl Entrance {
    /// Takes connections in, for as long as it is waited for. Without `working` they come too late: each is answered once, and
    /// not waited for.
    async fn take(&mut self, working: Option<&mpsc::Sender<()>>) {
        let env = self.gateway.env.clone();
        loop {
            let Ok(place) = self.places.clone().acquire_owned().await else { return };
            let stream = match self.listener.accept().await {
                Ok((stream, _)) => stream,
                Err(error) => {
                    // No more files may be open, for example: it passes when connections end.
                    if !is_of_the_connection(&error) {
                        env.sleep(Duration::from_millis(50)).await;
                    }
                    continue;
                }
            };
            let served = Served {
                builder: self.builder.clone(),
                gateway: self.gateway.clone(),
                ends: self.ends.clone(),
                working: working.cloned(),
            };
            match &mut self.lanes {
                None => {
                    let connection = async move {
                        served.connection(stream).await;
                        drop(place);
                    };
                    drop(env.spawn("client connection", connection));
                }
                Some(lanes) => {
                    // It leaves this runtime's reactor and joins its lane's.
                    let Ok(stream) = stream.into_std() else { continue };
                    lanes.put(Box::pin(async move {
                        if let Ok(stream) = TcpStream::from_std(stream) {
                            served.connection(stream).await;
                        }
                        drop(place);
                    }));
                }
            }
        }
    }
}

/// What a connection is served with.
struct Served {
    builder: Arc<Builder<Connections>>,
    gateway: Arc<Gateway>,
    ends: Ends,
    /// Held for as long as it is at work; nothing where it came too late.
    working: Option<mpsc::Sender<()>>,
}

impl Served {
    async fn connection(self, stream: TcpStream) {
        let Served { builder, gateway, ends, working } = self;
        // Without it a small piece of a stream waits for the other side's delayed acknowledgement.
        let _ = stream.set_nodelay(true);
        gateway.metrics.connections.fetch_add(1, Ordering::Relaxed);
        let open = gateway.clone();
        let env = gateway.env.clone();
        let talk = Arc::new(Talk::new(env.clone()));
        let patience = gateway.snapshot().config.limits.client_idle;
        // Whoever opens a connection and asks nothing takes the place of somebody who would.
        let quiet = talk.clone().quiet(patience);
        let asking = talk.clone();
        let service = service_fn(move |request: Request<Incoming>| {
            let gateway = gateway.clone();
            let held = asking.ask(request.version());
            async move {
                let response = gateway.answer(request).await;
                Ok::<_, Infallible>(match held {
                    Some(held) => response.map(|body| body.holding(Box::new(held))),
                    None => response,
                })
            }
        });
        {
            let serving = builder.serve_connection(TokioIo::new(stream), service);
            let mut serving = pin!(serving);
            let mut is_quiet = false;
            // A client that goes away or says what is no HTTP has ended its own connection.
            let is_to_end = tokio::select! {
                biased;
                is_over = async {
                    match &working {
                        Some(_) => ends.stop.unless(serving.as_mut()).await.is_some(),
                        None => tokio::select! {
                            is_over = talk.first(serving.as_mut()) => is_over,
                            () = ends.abort.cancelled() => true,
                        },
                    }
                } => !is_over,
                () = quiet => {
                    is_quiet = true;
                    talk.has_asked()
                }
            };
            if is_to_end {
                serving.as_mut().graceful_shutdown();
                tokio::select! {
                    biased;
                    () = async {
                        if ends.cut.unless(serving.as_mut()).await.is_none() {
                            // Looked at once more, what is under way finds that it has to end.
                            let _ = serving.await;
                        }
                    } => {}
                    () = ends.abort.cancelled() => {}
                    // Whoever is silent may not even say goodbye.
                    () = talk.clone().quiet(patience), if is_quiet => {}
                }
            }
        }
        open.metrics.connections.fetch_sub(1, Ordering::Relaxed);
        drop(working);
    }
}

/// What was asked on a connection.
struct Talk {
    env: Env,
    asked: AtomicBool,
    is_multiplexed: AtomicBool,
    under_way: AtomicUsize,
    /// The steady instant, in milliseconds, at which it was last at work.
    last_ms: AtomicU64,
}

impl Talk {
    fn new(env: Env) -> Self {
        let talk = Talk {
            env,
            asked: AtomicBool::new(false),
            is_multiplexed: AtomicBool::new(false),
            under_way: AtomicUsize::new(0),
            last_ms: AtomicU64::new(0),
        };
        talk.note();
        talk
    }

    fn now_ms(&self) -> u64 {
        u64::try_from(self.env.clock().steady().as_millis()).unwrap_or(u64::MAX)
    }

    fn note(&self) {
        self.last_ms.store(self.now_ms(), Ordering::Relaxed);
    }

    fn has_asked(&self) -> bool {
        self.asked.load(Ordering::Relaxed)
    }

    /// A request has come. Where others may come beside it, what is given back is held until its answer is done with.
    fn ask(self: &Arc<Self>, version: Version) -> Option<UnderWay> {
        self.asked.store(true, Ordering::Relaxed);
        if version != Version::HTTP_2 {
            return None;
        }
        self.is_multiplexed.store(true, Ordering::Relaxed);
        self.under_way.fetch_add(1, Ordering::Relaxed);
        Some(UnderWay(self.clone()))
    }

    /// Waits until nothing has been asked for so long, and nothing is under way. A connection of HTTP/1 that has once asked
    /// sees to it by itself.
    async fn quiet(self: Arc<Self>, patience: Duration) {
        let mut wait = patience;
        loop {
            self.env.sleep(wait).await;
            if self.has_asked() && !self.is_multiplexed.load(Ordering::Relaxed) {
                return std::future::pending().await;
            }
            let quiet = Duration::from_millis(self.now_ms().saturating_sub(self.last_ms.load(Ordering::Relaxed)));
            wait = match self.under_way.load(Ordering::Relaxed) {
                0 if quiet >= patience => return,
                0 => patience.saturating_sub(quiet).max(Duration::from_millis(1)),
                _ => patience,
            };
        }
    }

    /// Serves until a first request has come, or the connection is over: true then.
    async fn first<F: Future>(&self, mut serving: Pin<&mut F>) -> bool {
        poll_fn(|cx| match serving.as_mut().poll(cx) {
            Poll::Ready(_) => Poll::Ready(true),
            Poll::Pending if self.has_asked() => Poll::Ready(false),
            Poll::Pending => Poll::Pending,
        })
        .await
    }
}

/// A request of several on one connection, until its answer is done with.
struct UnderWay(Arc<Talk>);

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.note();
        self.0.under_way.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Tells the connections to come to an end.
#[derive(Debug, Default)]
struct Stop {
    is_told: AtomicBool,
    token: CancellationToken,
}

impl Stop {
    fn tell(&self) {
        self.is_told.store(true, Ordering::Release);
        self.token.cancel();
    }

    /// What a task comes to, or nothing once it is told to end.
    ///
    /// The token is asked once, so that it knows whom to wake; asking it locks, and a connection wakes for each piece of an
    /// answer. So this is for the outermost future of a task, which is always woken in the same way.
    async fn unless<F: Future>(&self, mut work: Pin<&mut F>) -> Option<F::Output> {
        let mut told = pin!(self.token.cancelled());
        let mut is_known = false;
        poll_fn(|cx| {
            if let Poll::Ready(done) = work.as_mut().poll(cx) {
                return Poll::Ready(Some(done));
            }
            if !std::mem::replace(&mut is_known, true) && told.as_mut().poll(cx).is_ready() {
                return Poll::Ready(None);
            }
            if self.is_told.load(Ordering::Acquire) { Poll::Ready(None) } else { Poll::Pending }
        })
        .await
    }
}

fn is_of_the_connection(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionRefused | io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset
    )
}

/// Runs what a connection of HTTP/2 does for each of its streams.
#[derive(Clone)]
struct Connections {
    env: Env,
    cut: Arc<Stop>,
}

impl<F> hyper::rt::Executor<F> for Connections
where
    F: Future<Output = ()> + Send + 'static,
{
    fn execute(&self, stream: F) {
        let cut = self.cut.clone();
        let stream: BoxFuture<'static, ()> = Box::pin(async move {
            let mut stream = pin!(stream);
            if cut.unless(stream.as_mut()).await.is_none() {
                // Looked at once more, it finds that it has to end.
                stream.await;
            }
        });
        drop(self.env.tasks().spawn("http stream", stream));
    }
}

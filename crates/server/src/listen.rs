//! The listener: connections in, answers out, and an orderly end.

use crate::gateway::Gateway;
use crate::lanes::Lanes;
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
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

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

    /// Serves until `stop` is cancelled, then lets the answers that have begun end, for as long as the configuration says.
    ///
    /// Where the system gives no threads for lanes, it serves without.
    pub async fn serve(self, gateway: Arc<Gateway>, stop: CancellationToken) {
        let env = gateway.env.clone();
        let mut lanes = (self.lanes > 0).then(|| Lanes::start(self.lanes, self.at_rest, &env).ok()).flatten();
        let limits = gateway.snapshot().config.limits;
        let mut builder = Builder::new(Connections { env: env.clone() });
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
        let builder = Arc::new(builder);
        let places = Arc::new(Semaphore::new(limits.connections));
        // Everything still at work holds a clone; the drain is over when the last is gone.
        let (working, mut idle) = tokio::sync::mpsc::channel::<()>(1);
        let (stopping, abort) = (Arc::new(Stop::default()), CancellationToken::new());
        loop {
            let place = tokio::select! {
                biased;
                () = stop.cancelled() => break,
                place = places.clone().acquire_owned() => place,
            };
            let accepted = tokio::select! {
                biased;
                () = stop.cancelled() => break,
                accepted = self.listener.accept() => accepted,
            };
            let stream = match accepted {
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
                builder: builder.clone(),
                gateway: gateway.clone(),
                stop: stopping.clone(),
                abort: abort.clone(),
                working: working.clone(),
            };
            match &mut lanes {
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
        drop(self.listener);
        drop(working);
        stopping.tell();
        gateway.drain();
        let drained = idle.recv();
        tokio::select! {
            _ = drained => {}
            () = env.sleep(limits.drain) => abort.cancel(),
        }
        gateway.close().await;
        drop(lanes);
    }
}

/// What a connection is served with.
struct Served {
    builder: Arc<Builder<Connections>>,
    gateway: Arc<Gateway>,
    stop: Arc<Stop>,
    abort: CancellationToken,
    /// Held for as long as it is at work.
    working: tokio::sync::mpsc::Sender<()>,
}

impl Served {
    async fn connection(self, stream: TcpStream) {
        let Served { builder, gateway, stop, abort, working } = self;
        // Without it a small piece of a stream waits for the other side's delayed acknowledgement.
        let _ = stream.set_nodelay(true);
        gateway.metrics.connections.fetch_add(1, Ordering::Relaxed);
        let open = gateway.clone();
        let has_asked = Arc::new(AtomicBool::new(false));
        let patience = gateway.snapshot().config.limits.client_idle;
        // Whoever opens a connection and asks nothing takes the place of somebody who would.
        let silence = {
            let (env, has_asked) = (gateway.env.clone(), has_asked.clone());
            async move {
                env.sleep(patience).await;
                if has_asked.load(Ordering::Relaxed) {
                    std::future::pending::<()>().await;
                }
            }
        };
        let service = service_fn(move |request| {
            has_asked.store(true, Ordering::Relaxed);
            let gateway = gateway.clone();
            async move { Ok::<_, Infallible>(gateway.answer(request).await) }
        });
        {
            let serving = builder.serve_connection(TokioIo::new(stream), service);
            let mut serving = pin!(serving);
            // A client that goes away or says what is no HTTP has ended its own connection.
            let is_to_end = tokio::select! {
                biased;
                ended = stop.unless(serving.as_mut()) => ended.is_none(),
                () = silence => false,
            };
            if is_to_end {
                serving.as_mut().graceful_shutdown();
                tokio::select! {
                    _ = serving => {}
                    () = abort.cancelled() => {}
                }
            }
        }
        open.metrics.connections.fetch_sub(1, Ordering::Relaxed);
        drop(working);
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
}

impl<F> hyper::rt::Executor<F> for Connections
where
    F: Future<Output = ()> + Send + 'static,
{
    fn execute(&self, stream: F) {
        let stream: BoxFuture<'static, ()> = Box::pin(stream);
        drop(self.env.tasks().spawn("http stream", stream));
    }
}

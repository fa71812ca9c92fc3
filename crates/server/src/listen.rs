//! The listener: connections in, answers out, and an orderly end.

use crate::gateway::Gateway;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use placet_core::{BoxFuture, Env};
use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

/// A port that is listened on.
#[derive(Debug)]
pub struct Listener {
    listener: TcpListener,
    address: SocketAddr,
}

impl Listener {
    /// Binds the port of a gateway's configuration.
    ///
    /// # Errors
    /// Whatever the system says, usually that the port is taken.
    pub async fn bind(address: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        Ok(Listener { listener, address })
    }

    /// Where it listens, with the port that the system chose where none was named.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until `stop` is cancelled, then lets the answers that have begun end, for as long as the configuration says.
    pub async fn serve(self, gateway: Arc<Gateway>, stop: CancellationToken) {
        let env = gateway.env.clone();
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
        let abort = CancellationToken::new();
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
            let connection =
                connection(stream, builder.clone(), gateway.clone(), stop.clone(), abort.clone(), working.clone());
            let connection = async move {
                connection.await;
                drop(place);
            };
            drop(env.spawn("client connection", connection));
        }
        drop(self.listener);
        drop(working);
        gateway.drain();
        let drained = idle.recv();
        tokio::select! {
            _ = drained => {}
            () = env.sleep(limits.drain) => abort.cancel(),
        }
        gateway.close().await;
    }
}

async fn connection(
    stream: TcpStream,
    builder: Arc<Builder<Connections>>,
    gateway: Arc<Gateway>,
    stop: CancellationToken,
    abort: CancellationToken,
    working: tokio::sync::mpsc::Sender<()>,
) {
    // Without it a small piece of a stream waits for the other side's delayed acknowledgement.
    let _ = stream.set_nodelay(true);
    gateway.metrics.connections.fetch_add(1, Ordering::Relaxed);
    let open = gateway.clone();
    let service = service_fn(move |request| {
        let gateway = gateway.clone();
        async move { Ok::<_, Infallible>(gateway.answer(request).await) }
    });
    {
        let serving = builder.serve_connection(TokioIo::new(stream), service);
        let mut serving = std::pin::pin!(serving);
        // A client that goes away or says what is no HTTP has ended its own connection.
        tokio::select! {
            biased;
            _ = serving.as_mut() => {}
            () = stop.cancelled() => {
                serving.as_mut().graceful_shutdown();
                tokio::select! {
                    _ = serving => {}
                    () = abort.cancelled() => {}
                }
            }
        }
    }
    open.metrics.connections.fetch_sub(1, Ordering::Relaxed);
    drop(working);
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

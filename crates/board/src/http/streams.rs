//! Answers without an end of their own: server-sent events, and the whole record as lines.

use super::Broken;
use super::access::Act;
use super::answer::Answer;
use super::operations::{Answered, Asked};
use crate::control::Control;
use crate::error::BoardError;
use crate::model::{Bounds, MAX_PAGE};
use crate::name::BoardId;
use bytes::Bytes;
use futures_util::stream::BoxStream;
use futures_util::{Stream, StreamExt, stream};
use placet_wire::sse::{self, SseEvent};
use serde::Serialize;
use std::time::Duration;

/// How often a stream on which nothing happens says that it is still there.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

const STILL_HERE: Bytes = Bytes::from_static(b": still here\n\n");

type Pieces = BoxStream<'static, Result<Bytes, Broken>>;

impl Asked<'_> {
    /// Everything from a number on and then everything that is written, as server-sent events. Whoever comes back with the id of
    /// the last that it was given goes on from there.
    pub(super) async fn tail(&self, id: &BoardId) -> Answered {
        self.may(Act::Read, id)?;
        let reader = self.reader(id);
        reader.describe().await?;
        let from = match self.last_event {
            Some(last) => last.saturating_add(1),
            None => self.number("from_sequence")?.unwrap_or(0),
        };
        let changes = reader.tail(from).map(|change| {
            Some(match change {
                Ok(change) => event(Some(change.sequence), None, &change),
                Err(error) => failed(&error),
            })
        });
        // After an error nothing more comes, and the answer ends.
        let changes = changes.chain(stream::iter([None]));
        let env = self.endpoint.boards.env().clone();
        let still = self.reader(id);
        let beats = stream::unfold(Some((env, still)), |state| async move {
            let Some((env, still)) = state else { return Some((None, None)) };
            env.sleep(KEEP_ALIVE).await;
            // A board that was deleted never grows again, which nobody tells whoever waits for it.
            match still.describe().await {
                Ok(_) => Some((Some(STILL_HERE), Some((env, still)))),
                Err(error) => Some((Some(failed(&error)), None)),
            }
        });
        let pieces = stream::select(changes, beats).take_while(|piece| std::future::ready(piece.is_some()));
        Ok(self.events(pieces.filter_map(std::future::ready)))
    }

    /// What an agent is owed and then all that it comes to be owed, as server-sent events, up to the end of the run. `first` is
    /// what it is owed now, and `after` the id of the last that it was given.
    pub(super) fn notified(&self, control: Control, agent: &str, after: u64, first: Option<Bytes>) -> Answer {
        let agent = agent.to_owned();
        let pulled = stream::unfold(Some((control, after)), move |state| {
            let agent = agent.clone();
            async move {
                let (control, after) = state?;
                Some(match control.pull(&agent, after, KEEP_ALIVE).await {
                    Ok(Some(told)) => {
                        let piece = event(Some(told.notification_id), None, &told);
                        (piece, Some((control, told.notification_id)))
                    }
                    Ok(None) => (STILL_HERE, Some((control, after))),
                    Err(BoardError::RunClosed) => {
                        let outcome = control.outcome().await.ok().flatten();
                        (event(None, Some("closed"), &serde_json::json!({ "outcome": outcome })), None)
                    }
                    Err(error) => (failed(&error), None),
                })
            }
        });
        self.events(stream::iter(first).chain(pulled))
    }

    fn events(&self, pieces: impl Stream<Item = Bytes> + Send + 'static) -> Answer {
        let pieces: Pieces = pieces.map(Ok).take_until(self.endpoint.stop.clone().cancelled_owned()).boxed();
        Answer::stream("text/event-stream", pieces)
    }

    /// The whole record as JSON lines, in order, as it was when it was asked for.
    pub(super) async fn export(&self, id: &BoardId) -> Answered {
        self.may(Act::Read, id)?;
        let reader = self.reader(id);
        reader.describe().await?;
        let last = reader.head().await?;
        let pages = stream::unfold((reader, 1u64), move |(reader, next)| async move {
            if next > last {
                return None;
            }
            let broken = |reader, error: &dyn std::fmt::Display| {
                tracing::error!(%error, "the export of a board broke off");
                Some((Err(Broken), (reader, u64::MAX)))
            };
            let page = match reader.read_board(Bounds::from(next).limit(MAX_PAGE)).await {
                Ok(page) => page,
                Err(error) => return broken(reader, &error),
            };
            let Some(end) = page.items.last().map(|change| change.sequence) else {
                return broken(reader, &"it was deleted");
            };
            let mut out = Vec::new();
            for change in page.items.into_iter().take_while(|change| change.sequence <= last) {
                // Numbers and texts in fields always have a form in JSON.
                let _ = serde_json::to_writer(&mut out, &change);
                out.push(b'\n');
            }
            Some((Ok(Bytes::from(out)), (reader, end + 1)))
        });
        Ok(Answer::stream("application/x-ndjson", pages.boxed()))
    }
}

/// An event with its data as JSON.
pub(super) fn event(id: Option<u64>, name: Option<&str>, data: &impl Serialize) -> Bytes {
    // Numbers and texts in fields always have a form in JSON.
    let data = serde_json::to_string(data).unwrap_or_default();
    let event =
        SseEvent { id: id.map(|id| id.to_string()), event: name.map(str::to_owned), data, ..SseEvent::default() };
    let mut out = Vec::new();
    sse::encode(&event, &mut out);
    out.into()
}

/// The last event of a stream that the store, or a deletion, broke off.
fn failed(error: &BoardError) -> Bytes {
    tracing::error!(%error, "a stream of a board broke off");
    event(None, Some("error"), &serde_json::json!({ "error": error.code() }))
}
